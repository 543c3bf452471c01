#include "runtime/recipe/messages/format.hpp"

#include "runtime/recipe/chat/format.hpp"

namespace deepinfer::recipe::messages {

std::unique_ptr<answer_format> make_events(response_identity identity, answer_traits traits) {
  return chat::make_events(std::move(identity), std::move(traits));
}

std::unique_ptr<answer_format> make_body(response_identity identity, answer_traits traits) {
  return chat::make_body(std::move(identity), std::move(traits));
}

std::string error_body(const api_error& error, std::string_view) {
  return recipe::error_body(error);
}

}  // namespace deepinfer::recipe::messages
