#pragma once

#include "runtime/recipe/api_protocol.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace deepinfer {

/// What a `POST` asks for.
enum class api_task : uint8_t { generate, count_tokens, tokenize, detokenize };

struct api_route {
  std::string_view path;
  api_task task;
  recipe::api_protocol protocol;  ///< whose words requests, answers and errors are in
  std::string_view id_prefix;     ///< of answers
};

/// The route of `POST path`; null: there is none.
[[nodiscard]] const api_route* find_route(std::string_view path);

/// All of them, for people: "POST /v1/chat/completions, ...".
[[nodiscard]] const std::string& route_list();

/// The id in `/v1/models/ID`; empty for `/v1/models`; nothing for other paths.
[[nodiscard]] std::optional<std::string_view> model_id_of(std::string_view path);

}  // namespace deepinfer
