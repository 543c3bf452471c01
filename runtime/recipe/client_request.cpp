#include "runtime/recipe/client_request.hpp"

#include "runtime/recipe/chat/request.hpp"
#include "runtime/recipe/completions/request.hpp"
#include "runtime/recipe/messages/request.hpp"
#include "runtime/recipe/responses/request.hpp"

#include <utility>

namespace deepinfer::recipe {
namespace {

void read_fields(field_reader& body,
                 client_request& request,
                 const conversion_options& options,
                 first_error& error) {
  switch (request.protocol) {
    case api_protocol::chat:
      return chat::read(body, request, options, error);
    case api_protocol::completions:
      return completions::read(body, request, options, error);
    case api_protocol::responses:
      return responses::read(body, request, options, error);
    case api_protocol::messages:
      return messages::read(body, request, options, error);
  }
}

}  // namespace

api_result<client_request> parse_request(api_protocol protocol,
                                         std::string_view body_text,
                                         const conversion_options& options) {
  const auto root = parse_json(body_text, options.json);
  if (!root) return bad_request({}, "The request body is " + root.error().detail);
  first_error error;
  field_reader body(*root, {}, error);
  client_request request;
  request.protocol = protocol;
  request.model = options.model_if_absent.empty()
                      ? body.required_string("model")
                      : body.string("model").value_or(options.model_if_absent);
  read_fields(body, request, options, error);
  if (error) return *std::move(error);
  return request;
}

}  // namespace deepinfer::recipe
