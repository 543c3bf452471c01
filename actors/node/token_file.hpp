#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace deepinfer {

/// A JSON array of token ids, as all commands read and write them.
[[nodiscard]] result<std::vector<int32_t>> read_token_file(const std::string& path);
[[nodiscard]] std::string token_json(std::span<const int32_t> ids);

}  // namespace deepinfer
