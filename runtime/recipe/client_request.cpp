#include "runtime/recipe/client_request.hpp"

#include "runtime/recipe/chat/request.hpp"
#include "runtime/recipe/completions/request.hpp"
#include "runtime/recipe/messages/request.hpp"
#include "runtime/recipe/responses/request.hpp"

namespace deepinfer::recipe {

api_result<client_request> parse_request(api_protocol protocol,
                                         std::string_view body,
                                         const conversion_options& options) {
  switch (protocol) {
    case api_protocol::chat:
      break;
    case api_protocol::completions:
      return completions::parse(body, options);
    case api_protocol::responses:
      return responses::parse(body, options);
    case api_protocol::messages:
      return messages::parse(body, options);
  }
  return chat::parse(body, options);
}

}  // namespace deepinfer::recipe
