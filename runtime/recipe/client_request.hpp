#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/api_protocol.hpp"
#include "runtime/recipe/conversation.hpp"
#include "runtime/recipe/generation.hpp"
#include "runtime/recipe/json_value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A request body of any protocol, converted and checked.
namespace deepinfer::recipe {

/// The prompt of `/v1/completions`: text to continue, outside any conversation.
struct raw_prompt {
  std::string text;
  std::optional<std::string> suffix;  ///< fill in between `text` and this
  bool echo = false;                  ///< the answer begins with `text`
};

struct client_request {
  api_protocol protocol = api_protocol::chat;
  std::string model;
  conversation talk;              ///< not for completions
  std::optional<raw_prompt> raw;  ///< completions only
  generation_options generation;
  bool stream = false;
  bool include_usage = true;              ///< chat and completions
  std::vector<std::string> custom_tools;  ///< responses: called with text instead of JSON
};

struct conversion_options {
  bool thinking_by_default = true;
  /// What a `web_search` tool does, which nobody here can run: an error, or as if it were not
  /// there. The published defaults: Responses ignores it, Messages refuses.
  bool refuse_web_search_in_responses = false;
  bool refuse_web_search_in_messages = true;
  uint32_t max_choices = 8;             ///< most `n`
  std::string apply_patch_description;  ///< of the tool `apply_patch`; empty: our own text
  std::string model_if_absent;          ///< of chat requests without `model`; empty: an error
  json_limits json;
};

/// Reads the body of a request. Never partial: the first thing that is wrong comes back as a 400
/// that names its field.
[[nodiscard]] api_result<client_request> parse_request(api_protocol protocol,
                                                       std::string_view body,
                                                       const conversion_options& options = {});

}  // namespace deepinfer::recipe
