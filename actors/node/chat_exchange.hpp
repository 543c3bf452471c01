#pragma once

#include "runtime/recipe/api_protocol.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Requests as a client sends them, in any protocol. Pure.
namespace deepinfer::chat {

struct turn {
  std::string role;  ///< "system" (the first alone), "user", "assistant"
  std::string content;
};

/// What is not given is left to the server.
struct request_options {
  std::string model = "default";
  std::string thinking;  ///< "on", "off", or empty
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> seed;
  bool is_streamed = true;
  recipe::api_protocol protocol = recipe::api_protocol::chat;  ///< not completions
};

/// Where the protocol's requests go, below "/v1".
[[nodiscard]] std::string_view request_path(recipe::api_protocol protocol);

/// The body of such a request. Texts must be UTF-8.
[[nodiscard]] std::string request_body(const request_options& options,
                                       const std::vector<turn>& talk);

}  // namespace deepinfer::chat
