#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer {

struct prompts_file_limits {
  static constexpr size_t bytes = size_t{64} << 20;
  static constexpr size_t prompts = 10'000;
};

/// A prompt per line, each a JSON string; empty lines are passed over. `invalid_argument` names
/// the line that is none, `too_large` a file beyond the limits.
[[nodiscard]] result<std::vector<std::string>> read_prompts_file(const std::string& path);

}  // namespace deepinfer
