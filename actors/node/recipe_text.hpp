#pragma once

#include "proto/types/result.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// How `deepinfer recipe` writes and reads prompts and ids. Pure.
namespace deepinfer {

/// A prompt with every control token between U+27E6 and U+27E7 (mathematical white brackets).
[[nodiscard]] std::string marked_prompt(const recipe::rendered_prompt& prompt);

/// One line per id: the id, a tab, its text as a JSON string (U+FFFD for parts of characters).
[[nodiscard]] std::string token_lines(const text::tokenizer& tokenizer,
                                      std::span<const int32_t> ids);

/// A JSON array of ids, or ids between white space; each below `vocabulary`.
[[nodiscard]] result<std::vector<int32_t>> parse_ids(std::string_view text, uint32_t vocabulary);

}  // namespace deepinfer
