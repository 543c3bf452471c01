#include "runtime/recipe/responses/request.hpp"

namespace deepinfer::recipe::responses {

api_result<client_request> parse(std::string_view, const conversion_options&) {
  return bad_request({}, "/v1/responses is not served yet");
}

}  // namespace deepinfer::recipe::responses
