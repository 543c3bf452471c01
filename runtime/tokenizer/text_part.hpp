#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// A stretch of a prompt whose ids do not depend on what stands around it: it begins and ends at
/// the prompt's ends, behind a special range, or at a `tokenizer::next_cut` of a plain run.
struct text_part {
  std::string_view text;
  std::span<const special_range> specials;  ///< those inside it, counted from the prompt's start
  size_t offset = 0;                        ///< of `text` in the prompt
};

/// Cuts a prompt that passed `tokenizer::check` into parts of at least `part_bytes` (the last one
/// may be shorter): a longer plain run about every `part_bytes`, shorter ones together. Prompts
/// that begin alike have the same parts up to the last cut in the common beginning, and after a
/// difference again behind the first cut in the next long run. Points into the arguments.
[[nodiscard]] std::vector<text_part> cut_parts(const tokenizer& source,
                                               std::string_view text,
                                               std::span<const special_range> specials,
                                               size_t part_bytes);

/// The special ranges of a part, counted from its own start.
[[nodiscard]] std::vector<special_range> own_specials(const text_part& part);

}  // namespace deepinfer::text
