#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <string>

namespace deepinfer {

/// All of standard input, at most `most_bytes` (whole MiB, as the error says); `invalid_argument`
/// otherwise.
[[nodiscard]] result<std::string> read_standard_input(size_t most_bytes);

/// The same of a file, which may be a pipe or a device; `not_found` when there is none.
[[nodiscard]] result<std::string> read_input_file(const std::string& path, size_t most_bytes);

}  // namespace deepinfer
