#pragma once

#include "actors/cache/public_prompts.hpp"
#include "proto/types/result.hpp"
#include "runtime/recipe/prepare.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer {

inline constexpr size_t max_public_prompts = 64;
inline constexpr uintmax_t max_public_prompt_bytes = uintmax_t{1} << 20;

/// Reads the system prompts that `kvcache.public_prompts` names; one line end at the end of a file
/// is the editor's and does not count. `invalid_argument` or `not_found` for files that could never
/// be shared: not to be read, no prompt's text, or shorter than one block. Null for none.
[[nodiscard]] result<std::shared_ptr<const public_prompts>> read_public_prompts(
    const std::vector<std::string>& files, const recipe::prompt_reader& reader);

}  // namespace deepinfer
