#pragma once

#include "kernels/api/philox.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace deepinfer::model {

/// Numbers of a random tensor as a function of (seed, tensor's name, index) alone: a tensor keeps
/// its values whatever stands around it, and any piece of it can be made by itself. No library
/// function and no rounding that depends on the machine is involved.
class random_values {
public:
  random_values(uint64_t seed, std::string_view tensor);

  /// Nearly normal, mean 0, deviation 1, between -3.45 and 3.45: sums of four random bytes.
  void normals(uint64_t first, std::span<float> out) const;
  /// Uniform in [0, bound), for small bounds.
  [[nodiscard]] uint32_t below(uint64_t index, uint32_t bound) const;

private:
  static constexpr uint32_t blocks = 8;          ///< Philox blocks computed side by side
  static constexpr uint32_t group = 4 * blocks;  ///< values they give

  void group_at(uint64_t number, float* out) const;

  kernels::philox_key key_;
};

}  // namespace deepinfer::model
