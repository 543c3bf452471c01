#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer::model {

/// How far the arithmetic follows the released model.
enum class numeric_level : uint8_t {
  L0 = 0,  ///< exact mathematics in fp32
  L1 = 1,  ///< and the cache quantisers, which belong to the trained model
  L2 = 2,  ///< and its activation quantisers and bf16 rounding points
};

/// "L0", "L1", "L2"; nothing otherwise.
[[nodiscard]] constexpr std::optional<numeric_level> parse_level(std::string_view name) {
  if (name == "L0") return numeric_level::L0;
  if (name == "L1") return numeric_level::L1;
  if (name == "L2") return numeric_level::L2;
  return std::nullopt;
}

}  // namespace deepinfer::model
