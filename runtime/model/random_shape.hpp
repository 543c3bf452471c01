#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/model_size.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/vision_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::model {

/// The models that random checkpoints are made of.
enum class random_shape : uint8_t {
  mini,         ///< 10 layers, every kind of layer of the release
  mini8,        ///< 8 layers, the smallest with all of encoder and decoder
  mini12,       ///< 12 layers with compress ratios 3, 2 and 1: finds hard-coded twos
  tiny,         ///< that of the bundled model: 12 MB
  small,        ///< about 400 M parameters, 60 M of them active for a token
  flash_shard,  ///< one layer at the released width, with 24 experts: 0.7 GB
};

/// "mini", "mini8", "mini12", "tiny", "small", "flash-shard"; `invalid_argument` otherwise.
[[nodiscard]] result<random_shape> parse_random_shape(std::string_view name);
[[nodiscard]] std::string_view to_string(random_shape shape);

struct model_shape {
  v41_config text;
  std::optional<vision_config> vision;
};

[[nodiscard]] model_shape shape_of(random_shape shape);
[[nodiscard]] model_size size_of_shape(random_shape shape);

}  // namespace deepinfer::model
