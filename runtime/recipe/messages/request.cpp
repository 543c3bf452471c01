#include "runtime/recipe/messages/request.hpp"

namespace deepinfer::recipe::messages {

api_result<client_request> parse(std::string_view, const conversion_options&) {
  return bad_request({}, "/v1/messages is not served yet");
}

}  // namespace deepinfer::recipe::messages
