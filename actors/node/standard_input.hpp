#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <string>

namespace deepinfer {

/// All of standard input, at most `most_bytes` (whole MiB, as the error says); `invalid_argument`
/// otherwise.
[[nodiscard]] result<std::string> read_standard_input(size_t most_bytes);

}  // namespace deepinfer
