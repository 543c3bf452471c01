#pragma once

#include <cstdint>

namespace deepinfer::model {

/// How far the arithmetic follows the released model.
enum class numeric_level : uint8_t {
  L0 = 0,  ///< exact mathematics in fp32
  L1 = 1,  ///< and the cache quantisers, which belong to the trained model
  L2 = 2,  ///< and its activation quantisers and bf16 rounding points
};

}  // namespace deepinfer::model
