#include "tests/unit/runtime/recipe/injection.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

std::string blocks(test::injected_text& text) {
  std::string out = "[";
  for (uint32_t i = 0, count = 1 + text.below(3); i < count; ++i) {
    if (i > 0) out += ",";
    out += R"({"type":"text","text":)" + text() + "}";
  }
  return out + "]";
}

std::string blocks_with_images(test::injected_text& text) {
  return R"([{"type":"text","text":)" + text() + R"(},{"type":"image_url","image_url":{"url":)" +
         text.behind("https://") + R"(}},{"type":"file","file":{"file_data":)" +
         text.behind("data:image/png;base64,") + R"(,"filename":"f"}},{"type":"text","text":)" +
         text() + "}]";
}

/// A system message, a question, an answer with calls, their results, and a reminder.
std::string chat_round(test::injected_text& text) {
  std::string out = R"({"role":"system","content":)" + (text.below(2) ? text() : blocks(text)) +
                    R"(},{"role":"user","content":)" +
                    (text.below(2) ? text() : blocks_with_images(text)) + "}";
  out += R"(,{"role":"assistant","content":)" + text() + R"(,"reasoning_content":)" + text();
  std::string calls, results;
  for (uint32_t left = text.below(4); left > 0; --left) {
    const std::string id = text.id();
    calls += calls.empty() ? "" : ",";
    calls += R"({"id":)" + id + R"(,"type":"function","function":{"name":)" + text() +
             R"(,"arguments":)" + text.arguments() + "}}";
    results += R"(,{"role":"tool","tool_call_id":)" + id + R"(,"content":)" +
               (text.below(2) ? text() : blocks_with_images(text)) + "}";
  }
  out += calls.empty() ? "}" : R"(,"tool_calls":[)" + calls + "]}" + results;
  return out + R"(,{"role":"latest_reminder","content":)" + text() + "}";
}

std::string chat_request(test::injected_text& text) {
  std::string messages, tools, more;
  for (int i = 0; i < 8; ++i) messages += (i == 0 ? "" : ",") + chat_round(text);
  for (const char* name : {"f", "g"})
    tools += (tools.empty() ? R"({"type":"function","function":{"name":")"
                            : R"(,{"type":"function","function":{"name":")") +
             std::string(name) + R"(","description":)" + text() + R"(,"parameters":)" +
             text.schema() + "}}";
  if (text.below(2) == 0) more += R"(,"thinking":{"type":"disabled"})";
  if (text.below(2) == 0) {
    messages += R"(,{"role":"assistant","prefix":true,"content":)" + text() +
                R"(,"reasoning_content":)" + text() + "}";
  } else if (!more.empty()) {
    more += R"(,"tool_choice":"required")";
  }
  return test::chat_body("[" + messages + "]", more + R"(,"tools":[)" + tools + "]");
}

std::string completion_request(test::injected_text& text) {
  std::string body = R"({"model":"tiny-v41","prompt":)" + text();
  if (text.below(2) == 0) body += R"(,"suffix":)" + text();
  return body + "}";
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("no text in any field of a chat request becomes a control token") {
    const auto outcome = test::inject(api_protocol::chat, 335'000, chat_request);
    CHECK(outcome.texts >= 335'000);
    CHECK(outcome.requests > 1000);
    CHECK(outcome.refused == outcome.requests);
  }

  TEST_CASE("no prompt to continue becomes a control token") {
    CHECK(test::inject(api_protocol::completions, 10'000, completion_request).texts >= 10'000);
  }

  TEST_CASE("hostile texts are hostile: read as trusted text they would be tokens") {
    test::injected_text text(test::injected_text::kind::hostile, 1);
    size_t tokens = 0;
    for (int i = 0; i < 1000; ++i)
      tokens +=
          test::tiny_tokenizer()->find_specials(*test::read_json(text()).as<std::string>()).size();
    CHECK(tokens > 500);
  }
}
