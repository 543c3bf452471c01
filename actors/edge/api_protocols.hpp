#pragma once

#include "actors/edge/client_party.hpp"
#include "actors/messages/protocol.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/prompt_encoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer {

struct api_setup {
  std::shared_ptr<const text::tokenizer> tokenizer;
  std::shared_ptr<text::prompt_encoder> encoder;  ///< of this tokenizer; null: one without memory
  recipe::served_model model;
  uint64_t model_created_s = 0;  ///< Unix time in seconds
  recipe::recipe_options options;
  header_trust headers = header_trust::none;  ///< for whose prompts are remembered together
  /// What codecs show beside their own counters; may be empty.
  std::function<std::vector<std::pair<std::string, int64_t>>()> counters;
};

/// The public interfaces over `runtime/recipe`. Prompts are remembered by tenant (`party_of`):
/// those that bring the same credentials (`authorization`, `x-api-key`) may profit from each other,
/// and so may all that bring none.
[[nodiscard]] std::shared_ptr<const protocol_codec> make_api_protocols(api_setup setup);

}  // namespace deepinfer
