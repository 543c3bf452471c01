#include "runtime/recipe/answer_format.hpp"

#include "runtime/recipe/chat/format.hpp"
#include "runtime/recipe/completions/format.hpp"
#include "runtime/recipe/messages/format.hpp"
#include "runtime/recipe/responses/format.hpp"

#include <utility>

namespace deepinfer::recipe {

std::unique_ptr<answer_format> make_event_format(api_protocol protocol,
                                                 response_identity identity,
                                                 answer_traits traits) {
  switch (protocol) {
    case api_protocol::chat:
      return chat::make_events(std::move(identity), std::move(traits));
    case api_protocol::completions:
      return completions::make_events(std::move(identity), std::move(traits));
    case api_protocol::responses:
      return responses::make_events(std::move(identity), std::move(traits));
    case api_protocol::messages:
      return messages::make_events(std::move(identity), std::move(traits));
  }
  return nullptr;
}

std::unique_ptr<answer_format> make_body_format(api_protocol protocol,
                                                response_identity identity,
                                                answer_traits traits) {
  switch (protocol) {
    case api_protocol::chat:
      return chat::make_body(std::move(identity), std::move(traits));
    case api_protocol::completions:
      return completions::make_body(std::move(identity), std::move(traits));
    case api_protocol::responses:
      return responses::make_body(std::move(identity), std::move(traits));
    case api_protocol::messages:
      return messages::make_body(std::move(identity), std::move(traits));
  }
  return nullptr;
}

std::string error_body(api_protocol protocol, const api_error& error, std::string_view request_id) {
  if (protocol == api_protocol::messages) return messages::error_body(error, request_id);
  return error_body(error);
}

std::string keep_alive() {
  return ": keep-alive\n\n";
}

}  // namespace deepinfer::recipe
