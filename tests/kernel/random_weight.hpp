#pragma once

#include "kernels/api/weight.hpp"
#include "tests/kernel/backend.hpp"

#include <cstring>
#include <vector>

/// A matrix of random codes in a stored format, none of them NaN.
namespace deepinfer::test {

struct random_weight {
  std::vector<uint8_t> values, scales;
  kernels::weight_matrix view;

  random_weight(rng& random, kernels::weight_format format, uint32_t rows, uint32_t width) {
    view = {nullptr, nullptr, rows, width, format};
    values.resize(rows * row_bytes(view));
    scales.resize(scale_offset(view, (size_t{rows} + 31) / 32 * 32));
    for (uint8_t& s : scales) s = static_cast<uint8_t>(120 + random.below(8));
    if (format == kernels::weight_format::f32) {
      const auto floats = random_floats(random, size_t{rows} * width);
      std::memcpy(values.data(), floats.data(), values.size());
    } else if (format == kernels::weight_format::bf16) {
      for (size_t i = 0; i < values.size(); i += 2) {
        const auto value = static_cast<float>(random.real() * 2 - 1);
        const uint16_t bits = kernels::bf16_bits(value);
        std::memcpy(values.data() + i, &bits, sizeof bits);
      }
    } else {
      for (uint8_t& v : values) v = static_cast<uint8_t>(random.below(127) | random.below(2) << 7);
    }
    view.values = values.data();
    view.scales = scales.empty() ? nullptr : scales.data();
  }
  random_weight(const random_weight&) = delete;
  random_weight& operator=(const random_weight&) = delete;
};

}  // namespace deepinfer::test
