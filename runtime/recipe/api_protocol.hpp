#pragma once

#include <cstdint>
#include <string_view>

namespace deepinfer::recipe {

/// The ways in which a client may ask for tokens; an answer is written in the words of its request.
enum class api_protocol : uint8_t {
  chat,         ///< `POST /v1/chat/completions`
  completions,  ///< `POST /v1/completions`
  responses,    ///< `POST /v1/responses`
  messages      ///< `POST /v1/messages`
};

[[nodiscard]] constexpr std::string_view to_string(api_protocol protocol) {
  switch (protocol) {
    case api_protocol::chat:
      return "chat";
    case api_protocol::completions:
      return "completions";
    case api_protocol::responses:
      return "responses";
    case api_protocol::messages:
      return "messages";
  }
  return "";
}

}  // namespace deepinfer::recipe
