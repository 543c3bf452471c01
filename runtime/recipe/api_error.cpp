#include "runtime/recipe/api_error.hpp"

#include "runtime/recipe/json_value.hpp"

namespace deepinfer::recipe {

api_error bad_request(std::string param, std::string message) {
  return {400, "invalid_request_error", "invalid_request_error", std::move(param),
          std::move(message)};
}

api_error to_api_error(const failure& reason) {
  const auto made = [&reason](int status, const char* type) {
    return api_error{status, type, type, {}, reason.detail};
  };
  switch (reason.code) {
    case error_code::invalid_argument:
    case error_code::too_large:
    case error_code::unsupported:
      return made(400, "invalid_request_error");
    case error_code::unauthenticated:
      return made(401, "authentication_error");
    case error_code::not_found:
      return made(404, "not_found_error");
    case error_code::no_capacity:
    case error_code::unreachable:
    case error_code::stale_epoch:
      return made(503, "overloaded_error");
    case error_code::deadline_exceeded:
      return made(504, "timeout_error");
    case error_code::ok:
    case error_code::internal:
    case error_code::cancelled:
    case error_code::corrupt:
      break;
  }
  return {500, "internal_error", "internal_error", {}, "the request failed inside the server"};
}

std::string error_body(const api_error& error) {
  std::string body = "{\"error\":{\"message\":";
  append_json_string(body, error.message);
  body += ",\"type\":";
  append_json_string(body, error.type);
  body += ",\"param\":null,\"code\":";
  append_json_string(body, error.code);
  return body + "}}";
}

}  // namespace deepinfer::recipe
