#include "tests/unit/runtime/recipe/injection.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

std::string text_block(test::injected_text& text) {
  if (text.below(3) == 0) return R"({"type":"tool_reference","tool_name":)" + text() + "}";
  // Fields that nobody reads may hold what they like.
  if (text.below(3) == 0)
    return R"({"type":"document","title":)" + text.id() + R"(,"source":{"type":"text","data":)" +
           text.id() + "}}";
  return R"({"type":"text","text":)" + text() + R"(,"citations":[)" + text.id() + "]}";
}

std::string image_block(test::injected_text& text) {
  if (text.below(3) == 0)
    return R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}})";
  return R"({"type":"image","source":{"type":"url","url":)" +
         text.behind(text.below(2) == 0 ? "HTTP" : "data:image/png;base64,") + "}}";
}

std::string blocks(test::injected_text& text, std::string (*also)(test::injected_text&)) {
  std::string out = "[" + text_block(text);
  for (uint32_t left = text.below(3); left > 0; --left)
    out += "," + (text.below(2) == 0 ? also(text) : text_block(text));
  return out + "]";
}

std::string content(test::injected_text& text, std::string (*also)(test::injected_text&)) {
  return text.below(3) == 0 ? text() : blocks(text, also);
}

/// Any JSON: an object mostly.
std::string input(test::injected_text& text) {
  if (text.below(6) == 0) return text();
  return "{" + text.unique() + ":" + text() + "," + text.unique() + ":[" + text() + ",1.5,{" +
         text.unique() + ":" + text() + "}]," + text.unique() + ":null}";
}

/// An assistant's turn with calls, and the results, which come in another order.
std::string turn(test::injected_text& text) {
  std::string said = R"({"role":"assistant","content":[{"type":"thinking","thinking":)" + text() +
                     R"(,"signature":)" + text.id() + "}," + text_block(text);
  if (text.below(3) == 0) said += R"(,{"type":"thinking","thinking":)" + text() + "}";
  std::string results;
  for (uint32_t left = text.below(4); left > 0; --left) {
    const std::string id = text.id();
    said += R"(,{"type":"tool_use","id":)" + id + R"(,"name":)" + text() + R"(,"input":)" +
            input(text) + "}";
    std::string result = R"({"type":"tool_result","tool_use_id":)" + id;
    if (text.below(4) != 0) result += R"(,"content":)" + content(text, image_block);
    results = result + "}" + (results.empty() ? "" : ",") + results;
  }
  said += "]},";
  if (!results.empty()) said += R"({"role":"user","content":[)" + results + "]},";
  return said;
}

std::string messages_request(test::injected_text& text) {
  std::string body =
      R"({"model":"tiny-v41","system":)" + content(text, text_block) + R"(,"messages":[)";
  for (int i = 0; i < 8; ++i)
    body += R"({"role":"user","content":)" + content(text, image_block) +
            R"(},{"role":"system","content":)" + content(text, image_block) + "}," + turn(text);
  body += R"({"role":"user","content":)" + text() + R"(}],"metadata":{"user_id":)" + text.id() +
          R"(},"tools":[{"name":"f","description":)" + text() + R"(,"input_schema":)" +
          text.schema() + R"(},{"name":"g","cache_control":)" + text.id() + R"(,"input_schema":)" +
          text.schema() + "}]";
  if (text.below(2) == 0) {
    body += R"(,"thinking":{"type":"disabled"})";
    if (text.below(2) == 0) body += R"(,"tool_choice":{"type":"tool","name":"f"})";
  } else if (text.below(2) == 0) {
    body += R"(,"output_config":{"effort":)" + std::to_string(1 + text.below(100)) + "}";
  }
  return body + "}";
}

}  // namespace

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("no text in any field of a messages request becomes a control token") {
    const auto outcome = test::inject(api_protocol::messages, 350'000, messages_request);
    CHECK(outcome.texts >= 350'000);
    CHECK(outcome.requests > 1000);
    CHECK(outcome.refused == outcome.requests);
  }
}
