#include "runtime/recipe/responses/format.hpp"

#include "runtime/recipe/chat/format.hpp"

namespace deepinfer::recipe::responses {

std::unique_ptr<answer_format> make_events(response_identity identity, answer_traits traits) {
  return chat::make_events(std::move(identity), std::move(traits));
}

std::unique_ptr<answer_format> make_body(response_identity identity, answer_traits traits) {
  return chat::make_body(std::move(identity), std::move(traits));
}

}  // namespace deepinfer::recipe::responses
