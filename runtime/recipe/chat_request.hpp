#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/conversation.hpp"
#include "runtime/recipe/generation.hpp"
#include "runtime/recipe/json_value.hpp"

#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// A Chat Completions request, converted and checked.
struct chat_request {
  std::string model;
  conversation talk;
  generation_options generation;
  bool stream = false;
  bool include_usage = true;
};

struct conversion_options {
  bool thinking_by_default = true;
  json_limits json;
};

/// Reads the body of `POST /v1/chat/completions`. Never partial: the first thing that is wrong
/// comes back as a 400 that names its field.
[[nodiscard]] api_result<chat_request> parse_chat_request(std::string_view body,
                                                          const conversion_options& options = {});

}  // namespace deepinfer::recipe
