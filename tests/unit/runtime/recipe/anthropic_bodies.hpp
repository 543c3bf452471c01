#pragma once

#include "runtime/recipe/client_request.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

/// Makes and converts requests of the Messages protocol. A converter's test includes all of it.
namespace deepinfer::test::anthropic {

using namespace recipe;

inline client_request accepted(std::string_view body, const conversion_options& options = {}) {
  auto request = parse_request(api_protocol::messages, body, options);
  REQUIRE_MESSAGE(request, request.error().message);
  return *std::move(request);
}

/// The field that a refused body is told about.
inline std::string refused(std::string_view body, const conversion_options& options = {}) {
  const auto request = parse_request(api_protocol::messages, body, options);
  REQUIRE_FALSE(request);
  CHECK(request.error().status == 400);
  CHECK(request.error().code == "invalid_request_error");
  CHECK(request.error().message.find(request.error().param) != std::string::npos);
  return request.error().param;
}

inline client_request accepted_with(std::string_view fields,
                                    const conversion_options& options = {}) {
  return accepted(test::user_body("q", "," + std::string(fields)), options);
}

inline std::string refused_with(std::string_view fields, const conversion_options& options = {}) {
  return refused(test::user_body("q", "," + std::string(fields)), options);
}

inline std::vector<message> messages_of(std::string_view messages,
                                        const conversion_options& options = {}) {
  return accepted(test::chat_body(messages), options).talk.messages;
}

inline std::string refused_messages(std::string_view messages,
                                    const conversion_options& options = {}) {
  return refused(test::chat_body(messages), options);
}

/// One message with these blocks.
inline std::string said_by(std::string_view role, std::string_view blocks) {
  return "{\"role\":\"" + std::string(role) + "\",\"content\":[" + std::string(blocks) + "]}";
}

inline std::string user(std::string_view blocks) {
  return said_by("user", blocks);
}

inline std::string assistant(std::string_view blocks) {
  return said_by("assistant", blocks);
}

inline std::string list(std::initializer_list<std::string> messages) {
  std::string out = "[";
  for (const std::string& one : messages) out += (out.size() > 1 ? "," : "") + one;
  return out + "]";
}

inline const std::string question = R"({"role":"user","content":"q"})";
inline const std::string call = R"({"type":"tool_use","id":"c1","name":"f","input":{"a":1}})";
inline const std::string call_2 = R"({"type":"tool_use","id":"c2","name":"g","input":{}})";

inline std::string answer(std::string_view id, std::string_view more = {}) {
  return "{\"type\":\"tool_result\",\"tool_use_id\":\"" + std::string(id) + "\"" +
         std::string(more) + "}";
}

inline std::string tool(std::string_view name, std::string_view more = {}) {
  return "{\"name\":\"" + std::string(name) + "\",\"input_schema\":{\"type\":\"object\"}" +
         std::string(more) + "}";
}

inline std::string image(std::string_view source) {
  return R"({"type":"image","source":)" + std::string(source) + "}";
}

inline std::string base64(std::string_view media_type, std::string_view data) {
  return image(R"({"type":"base64","media_type":")" + std::string(media_type) + R"(","data":")" +
               std::string(data) + R"("})");
}

inline constexpr const char* thinking_off = R"("thinking":{"type":"disabled"},)";

}  // namespace deepinfer::test::anthropic
