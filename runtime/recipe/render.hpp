#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/conversation.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

namespace deepinfer::recipe {

enum class history_reasoning : uint8_t {
  keep,                  ///< all reasoning that the client sent
  drop_before_last_user  ///< without tools, only that behind the last user or later system message
};

struct render_options {
  history_reasoning history = history_reasoning::keep;
};

/// A prompt as text, with the places that are control tokens. Text of a client is never inside such
/// a range, whatever it spells.
struct rendered_prompt {
  std::string text;
  std::vector<text::special_range> specials;
  std::vector<image_source> images;  ///< the n-th belongs to the n-th `image_placeholder`
};

/// The V4.1 prompt of a conversation, up to and including the header of the turn to generate.
[[nodiscard]] rendered_prompt render(conversation talk, const render_options& options = {});

/// A text to continue, or a gap to fill: no turns, no thinking.
[[nodiscard]] rendered_prompt render_raw(const raw_prompt& raw);

}  // namespace deepinfer::recipe
