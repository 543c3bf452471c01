#pragma once

#include "kernels/cpu/decode.hpp"

namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

template <>
struct decoder<weight_format::fp8> {
  void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    for (size_t c = 0; c < block_columns; ++c)
      w[c / 16].v[c % 16] = decoding.e4m3[values[c]] * decoding.scale[scales[c / 32]];
  }
};

template <>
struct decoder<weight_format::fp4> {
  void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    for (size_t c = 0; c < block_columns; ++c)
      w[c / 16].v[c % 16] =
          decoding.e2m1[values[c / 2] >> (c % 2 * 4) & 15] * decoding.scale[scales[c / 32]];
  }
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
