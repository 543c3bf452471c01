#pragma once

#include "proto/types/result.hpp"

#include <string>
#include <string_view>

namespace deepinfer::view {

/// Prometheus text format as JSON: {"metrics":[{"name","labels":{},"value"}]}, in its order. Values
/// are numbers, or the strings "NaN", "+Inf", "-Inf". `corrupt` names the first line that is wrong.
[[nodiscard]] result<std::string> metrics_json(std::string_view text);

}  // namespace deepinfer::view
