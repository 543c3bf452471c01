#pragma once

#include "kernels/cpu/vec16.hpp"

#include <utility>

/// `shuffle.hpp` says what these mean.
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr bool many_registers = false;

inline void in_register(vec16&) {}

inline vec16 sums(const vec16 (&v)[16]) {
  return lanewise::make<vec16>([&](size_t i) { return sum(v[i]); });
}

inline vec16 maxima(const vec16 (&v)[16]) {
  return lanewise::make<vec16>([&](size_t i) {
    float most = v[i].v[0];
    for (const float x : v[i].v) most = x > most ? x : most;
    return most;
  });
}

inline void transpose(ivec16 (&v)[16]) {
  for (size_t i = 0; i < 16; ++i)
    for (size_t k = 0; k < i; ++k) std::swap(v[i].v[k], v[k].v[i]);
}

inline void interleave(vec16 even, vec16 odd, vec16& first, vec16& second) {
  const auto lane = [&](size_t i) { return i % 2 == 0 ? even.v[i / 2] : odd.v[i / 2]; };
  first = lanewise::make<vec16>(lane);
  second = lanewise::make<vec16>([&](size_t i) { return lane(16 + i); });
}

inline vec16 swap_neighbours(vec16 x) {
  return lanewise::make<vec16>([&](size_t i) { return x.v[i ^ 1]; });
}

inline vec16 pick8(vec16 table, ivec16 index) {
  return lanewise::make<vec16>([&](size_t i) { return table.v[index.v[i] & 7]; });
}

inline void multiply_wide(ivec16 x, ivec16 factor, ivec16& high, ivec16& low) {
  for (size_t i = 0; i < 16; ++i) {
    const uint64_t product = uint64_t{x.v[i]} * factor.v[i];
    high.v[i] = static_cast<uint32_t>(product >> 32);
    low.v[i] = static_cast<uint32_t>(product);
  }
}

inline ivec16 to_whole(vec16 x) {
  return lanewise::make<ivec16>(
      [&](size_t i) { return static_cast<uint32_t>(static_cast<int32_t>(x.v[i])); });
}

inline void store_bytes(uint8_t* p, ivec16 x) {
  for (size_t i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(x.v[i]);
}

inline mask16 mask_of(uint32_t bits) {
  return {bits};
}

inline size_t compress(uint32_t* p, ivec16 x, mask16 m) {
  size_t count = 0;
  for (size_t i = 0; i < 16; ++i)
    if ((m.v >> i & 1) != 0) p[count++] = x.v[i];
  return count;
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
