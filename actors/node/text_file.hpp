#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

/// A file with text for prompts, which a setting names: UTF-8, at most so many bytes, and without
/// what would stand for an image. `not_found` or `invalid_argument`; both name file and setting.
[[nodiscard]] result<std::string> read_text_file(const std::string& path,
                                                 std::string_view setting,
                                                 uintmax_t most_bytes);

}  // namespace deepinfer
