#pragma once

#include "runtime/recipe/prepare.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::recipe {

/// What prompts that begin with this system message have in front, up to its end: as tokens, for
/// each way in which a request can ask to think, since the effort stands before the message. Where
/// tools or a format follow, the last token or two may differ from these.
[[nodiscard]] api_result<std::vector<std::vector<int32_t>>> system_beginnings(
    const std::string& text, const prompt_reader& reader);

}  // namespace deepinfer::recipe
