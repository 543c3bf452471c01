#include "runtime/recipe/detect_protocol.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace deepinfer::recipe;

namespace {

std::string detected(std::string_view body) {
  const auto got = detect_protocol(body);
  return got ? std::string(to_string(*got)) : "error: " + got.error().message;
}

}  // namespace

TEST_SUITE("runtime/recipe/detect_protocol") {
  TEST_CASE("a field that only one protocol has tells it") {
    const std::pair<const char*, const char*> cases[] = {
        {R"({"input":"x"})", "responses"},
        {R"({"instructions":"x","tools":[{"type":"function","name":"f","parameters":{}}]})",
         "responses"},
        {R"({"prompt":"x","echo":true,"suffix":"y"})", "completions"},
        {R"({"messages":[],"system":"s"})", "messages"},
        {R"({"messages":[],"stop_sequences":["a"]})", "messages"},
        {R"({"messages":[],"tools":[{"name":"f","input_schema":{}}]})", "messages"},
        {R"({"messages":[{"role":"user","content":[{"type":"tool_result"}]}]})", "messages"},
        {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "chat"},
        {R"({"messages":[{"role":"assistant","tool_calls":[]}]})", "chat"},
        {R"({"messages":[],"tools":[{"type":"function","function":{}}]})", "chat"},
        {R"({"messages":[],"reasoning_effort":"low"})", "chat"},
    };
    for (const auto& [body, protocol] : cases) {
      CAPTURE(body);
      CHECK(detected(body) == protocol);
    }
  }

  TEST_CASE("messages by themselves are Chat Completions") {
    CHECK(detected(R"({"model":"m","messages":[{"role":"user","content":"Hello"}]})") == "chat");
    CHECK(detected(R"({"messages":[],"system":null,"max_tokens":5,"stream":true})") == "chat");
  }

  TEST_CASE("fields of two protocols are an error that names both") {
    const std::string error = detected(R"({"input":"x","messages":[],"system":"s"})");
    CHECK(error.find("`input` is of responses") != std::string::npos);
    CHECK(error.find("`system` is of messages") != std::string::npos);
  }

  TEST_CASE("what has no prompt of any kind is of no protocol") {
    for (const char* body : {"{}", "[]", "7", "{", R"({"model":"m"})", R"({"messages":null})"})
      CHECK(detected(body).starts_with("error: The"));
  }

  TEST_CASE("names of protocols go both ways") {
    for (const api_protocol one : {api_protocol::chat, api_protocol::completions,
                                   api_protocol::responses, api_protocol::messages})
      CHECK(find_protocol(to_string(one)) == one);
    CHECK_FALSE(find_protocol("smoke signals"));
  }
}
