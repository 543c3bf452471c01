#include "tests/unit/runtime/recipe/injection.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

std::string text_content(test::injected_text& text, std::string_view type) {
  if (text.below(2) == 0) return text();
  const std::string block = R"({"type":")" + std::string(type) + R"(","text":)";
  return "[" + block + text() + "}," + block + text() + "}]";
}

std::string image_content(test::injected_text& text) {
  if (text.below(2) == 0) return text();
  return R"([{"type":"input_text","text":)" + text() + R"(},{"type":"input_image","image_url":)" +
         text.behind("HTTP") +
         R"(},{"type":"input_file","filename":"f"},)"
         R"({"type":"input_image","detail":"low","image_url":)" +
         text.behind("data:image/png;base64,") + "}]";
}

/// Calls of both kinds and their results, which come in another order.
std::string calls(test::injected_text& text) {
  std::string out, results;
  for (uint32_t left = text.below(4); left > 0; --left) {
    const std::string id = text.id();
    const bool custom = text.below(3) == 0;
    if (custom) {
      out += R"({"type":"custom_tool_call","call_id":)" + id + R"(,"name":)" + text() +
             R"(,"input":)" + text() + "},";
    } else {
      out += R"({"type":"function_call","call_id":)" + id + R"(,"name":)" + text() +
             (text.below(2) == 0 ? "" : R"(,"namespace":)" + text()) + R"(,"arguments":)" +
             text.arguments() + "},";
    }
    results = (custom ? R"({"type":"custom_tool_call_output","call_id":)"
                      : R"({"type":"function_call_output","call_id":)") +
              id + R"(,"output":)" + image_content(text) + "}," + results;
  }
  return out + results;
}

std::string round(test::injected_text& text) {
  return R"({"role":"system","content":)" + text_content(text, "input_text") +
         R"(},{"role":"user","content":)" + image_content(text) +
         R"(},{"type":"message","role":"developer","content":)" + image_content(text) +
         R"(},{"type":"reasoning","content":[{"type":"reasoning_text","text":)" + text() +
         R"(},{"text":)" + text() + R"(}],"summary":[]},{"role":"assistant","content":)" +
         text_content(text, "output_text") + "}," + calls(text);
}

std::string responses_request(test::injected_text& text) {
  std::string body = R"({"model":"tiny-v41","instructions":)" + text() + R"(,"input":[)";
  for (int i = 0; i < 8; ++i) body += round(text);
  body += R"({"role":"user","content":)" + text() +
          R"(}],"tools":[{"type":"custom","name":)"
          R"("apply_patch"},{"type":"function","name":"f","description":)" +
          text() + R"(,"parameters":)" + text.schema() +
          R"(},{"type":"namespace","name":"n","description":)" + text() +
          R"(,"tools":[{"type":"function","name":"f","description":)" + text() +
          R"(,"parameters":)" + text.schema() + R"(},{"type":"function","name":"g"}]}])";
  if (text.below(2) == 0) {
    body += R"(,"reasoning":{"effort":"none"})";
    if (text.below(2) == 0) body += R"(,"tool_choice":"required")";
  } else if (text.below(4) == 0) {
    body += R"(,"tool_choice":"none")";
  }
  return body + "}";
}

}  // namespace

TEST_SUITE("runtime/recipe/responses") {
  TEST_CASE("no text in any field of a responses request becomes a control token") {
    const auto outcome = test::inject(api_protocol::responses, 350'000, responses_request);
    CHECK(outcome.texts >= 350'000);
    CHECK(outcome.requests > 1000);
    CHECK(outcome.refused == outcome.requests);
  }
}
