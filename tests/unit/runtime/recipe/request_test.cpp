#include "proto/types/limits.hpp"
#include "runtime/recipe/client_request.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

/// The field a request is refused for; empty when it is accepted.
std::string refused_for(std::string_view body) {
  const auto request = parse_request(api_protocol::chat, body);
  if (request) return "";
  CHECK(request.error().status == 400);
  CHECK(request.error().type == "invalid_request_error");
  CHECK(request.error().code == "invalid_request_error");
  const std::string& param = request.error().param;
  CHECK(request.error().message.find(param) != std::string::npos);
  return param.empty() ? "(body)" : param;
}

/// For a request with one user message and more fields.
std::string refused_with(std::string_view more) {
  return refused_for(test::user_body("some json", "," + std::string(more)));
}

client_request accepted(std::string_view body) {
  auto request = parse_request(api_protocol::chat, body);
  REQUIRE_MESSAGE(request, request.error().message);
  return *std::move(request);
}

client_request accepted_with(std::string_view more) {
  return accepted(test::user_body("some json", "," + std::string(more)));
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("generation fields are read, and unknown ones ignored") {
    const auto request = accepted_with(
        R"("max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":40,"seed":11,)"
        R"("stop":["a","","b"],"stream":true,"stream_options":{"include_usage":true},)"
        R"("ignore_eos":true,"n":1,"user":7,"logprobs":true,"unknown":{"a":[1]},)"
        R"("frequency_penalty":-2,"presence_penalty":2,"parallel_tool_calls":false)");
    CHECK(request.model == "tiny-v41");
    CHECK(request.generation.max_tokens == 7u);
    CHECK(request.generation.temperature == 0.5F);
    CHECK(request.generation.top_p == 0.25F);
    CHECK(request.generation.top_k == 40u);
    CHECK(request.generation.seed == 11u);
    CHECK(request.generation.stop == std::vector<std::string>{"a", "b"});
    CHECK(request.generation.ignore_eos);
    CHECK(request.stream);
    CHECK(request.include_usage);
  }

  TEST_CASE("null is the same as absent") {
    const auto request = accepted_with(
        R"("max_tokens":null,"temperature":null,"top_p":null,"top_k":null,"seed":null,)"
        R"("stop":null,"stream":null,"stream_options":null,"n":null,"tools":null,)"
        R"("tool_choice":null,"response_format":null,"thinking":null,"reasoning_effort":null)");
    CHECK_FALSE(request.generation.max_tokens);
    CHECK_FALSE(request.generation.temperature);
    CHECK_FALSE(request.generation.seed);
    CHECK(request.generation.stop.empty());
    CHECK_FALSE(request.stream);
    CHECK(request.include_usage);
    CHECK(request.talk.thinking);
    CHECK(request.talk.effort == 75);
  }

  TEST_CASE("usage in every chunk is asked for by name") {
    CHECK_FALSE(accepted_with(R"("stream":true)").include_usage);
    CHECK_FALSE(accepted_with(R"("stream":true,"stream_options":{})").include_usage);
  }

  TEST_CASE("the older name of the output limit wins over the newer") {
    CHECK(accepted_with(R"("max_completion_tokens":9)").generation.max_tokens == 9u);
    CHECK(accepted_with(R"("max_completion_tokens":9,"max_tokens":5)").generation.max_tokens == 5u);
  }

  TEST_CASE("top_k 0 and -1 both mean off, seed 0 is a seed, temperature 0 is greedy") {
    CHECK(accepted_with(R"("top_k":-1)").generation.top_k == 0u);
    CHECK(accepted_with(R"("top_k":0)").generation.top_k == 0u);
    CHECK(accepted_with(R"("seed":0)").generation.seed == 0u);
    CHECK(accepted_with(R"("seed":9223372036854775807)").generation.seed == 9223372036854775807u);
    CHECK(accepted_with(R"("temperature":0)").generation.temperature == 0.0F);
    CHECK(accepted_with(R"("temperature":2,"top_p":1)").generation.top_p == 1.0F);
  }

  TEST_CASE("values out of range are refused by name") {
    CHECK(refused_with(R"("n":9)") == "n");
    CHECK(refused_with(R"("logprobs":true,"top_logprobs":21)") == "top_logprobs");
    CHECK(refused_with(R"("top_logprobs":1)") == "top_logprobs");
    CHECK(refused_with(R"("n":0)") == "n");
    CHECK(refused_with(R"("temperature":3)") == "temperature");
    CHECK(refused_with(R"("temperature":-0.1)") == "temperature");
    CHECK(refused_with(R"("top_p":0)") == "top_p");
    CHECK(refused_with(R"("top_p":1.01)") == "top_p");
    CHECK(refused_with(R"("top_k":-2)") == "top_k");
    CHECK(refused_with(R"("max_tokens":0)") == "max_tokens");
    CHECK(refused_with(R"("max_tokens":4294967296)") == "max_tokens");
    CHECK(refused_with(R"("max_completion_tokens":0)") == "max_completion_tokens");
    CHECK(refused_with(R"("frequency_penalty":-3)") == "frequency_penalty");
    CHECK(refused_with(R"("presence_penalty":2.5)") == "presence_penalty");
    CHECK(refused_with(R"("seed":9223372036854775808)") == "seed");
    CHECK(refused_with(R"("seed":-1)") == "seed");
    CHECK(refused_with(R"("stream_options":{"include_usage":true})") == "stream_options");
  }

  TEST_CASE("values of the wrong type are refused by name") {
    for (const char* field : {"temperature", "top_p", "top_k", "max_tokens", "n", "seed", "stop",
                              "stream", "tools", "tool_choice", "response_format", "thinking",
                              "reasoning_effort", "ignore_eos", "parallel_tool_calls"}) {
      CAPTURE(field);
      const std::string object = std::string("\"") + field + "\":{}";
      const std::string param = refused_with(object);
      CHECK(param.substr(0, std::string(field).size()) == field);
    }
    CHECK(refused_with(R"("max_tokens":7.5)") == "max_tokens");
    CHECK(refused_with(R"("stream":"yes")") == "stream");
    CHECK(refused_with(R"("stop":["a",1])") == "stop");
    CHECK(refused_with(R"("stream":true,"stream_options":{"include_usage":1})") ==
          "stream_options.include_usage");
  }

  TEST_CASE("at most sixteen stop strings are taken, empty ones not counted in use") {
    const auto stops = [](int count) {
      std::string list = "\"stop\":[";
      for (int i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + std::string("\"x\"");
      return list + "]";
    };
    CHECK(accepted_with(stops(16)).generation.stop.size() == 16);
    CHECK(refused_with(stops(17)) == "stop");
    CHECK(accepted_with(R"("stop":"")").generation.stop.empty());
    const auto of_size = [](size_t bytes) {
      return "\"stop\":\"" + std::string(bytes, 'x') + "\"";
    };
    CHECK(accepted_with(of_size(limits::max_stop_bytes)).generation.stop.size() == 1);
    CHECK(refused_with(of_size(limits::max_stop_bytes + 1)) == "stop");
    CHECK(accepted_with(R"("stop":"x")").generation.stop == std::vector<std::string>{"x"});
  }

  TEST_CASE("model and messages are required") {
    CHECK(refused_for(R"({"messages":[{"role":"user","content":"x"}]})") == "model");
    CHECK(refused_for(R"({"model":5,"messages":[{"role":"user","content":"x"}]})") == "model");
    CHECK(refused_for(R"({"model":"m"})") == "messages");
    CHECK(refused_for(test::chat_body("[]")) == "messages");
    CHECK(refused_for(test::chat_body("{}")) == "messages");
    CHECK(refused_for(test::chat_body("[5]")) == "messages[0]");
    CHECK(refused_for("[]") == "(body)");
    CHECK(refused_for("") == "(body)");
    CHECK(refused_for("{\"model\":\"m\",}") == "(body)");
  }

  TEST_CASE("a known field given twice is refused, an unknown one is not") {
    CHECK(refused_with(R"("seed":1,"seed":1)") == "seed");
    CHECK(refused_for(R"({"model":"a","model":"b","messages":[]})") == "model");
    CHECK(refused_for(test::chat_body(R"([{"role":"user","role":"system","content":"x"}])")) ==
          "messages[0].role");
    CHECK(refused_with(R"("what":1,"what":2)") == "");
  }

  TEST_CASE("efforts are words or whole numbers from 1 to 100") {
    for (const char* bad : {"0", "101", "-1", "true", "7.5", "\"\"", "\"HIGH\"", "[]"}) {
      CAPTURE(bad);
      CHECK(refused_with(std::string("\"reasoning_effort\":") + bad) == "reasoning_effort");
    }
    CHECK(refused_with(R"("thinking":{})") == "thinking.type");
    CHECK(refused_with(R"("thinking":{"type":"on"})") == "thinking.type");
    CHECK(refused_with(R"("thinking":{"type":"enabled","budget_tokens":-1})") ==
          "thinking.budget_tokens");
  }

  TEST_CASE("thinking can be off by default, and an effort switches it on") {
    conversion_options options;
    options.thinking_by_default = false;
    const auto thinks = [&options](std::string_view more) {
      const auto request = parse_request(api_protocol::chat, test::user_body("q", more), options);
      REQUIRE(request);
      return request->talk.thinking;
    };
    CHECK_FALSE(thinks(""));
    CHECK(thinks(R"(,"reasoning_effort":"low")"));
    CHECK(thinks(R"(,"thinking":{"type":"enabled"})"));
    CHECK_FALSE(thinks(R"(,"reasoning_effort":"low","thinking":{"type":"disabled"})"));
  }

  TEST_CASE("json_object needs the word json in some message's text") {
    constexpr const char* format = R"(,"response_format":{"type":"json_object"})";
    const auto refused = [](std::string_view text) {
      return refused_for(test::user_body(text, format));
    };
    CHECK(refused("as JsOn please") == "");
    CHECK(refused("as js on") == "response_format.type");
    CHECK(refused_with(R"("response_format":{"type":"regex"})") == "response_format.regex");
    CHECK(refused_with(R"("response_format":{"type":"xml"})") == "response_format.type");
    CHECK(refused_with(R"("response_format":{})") == "response_format.type");
    CHECK(accepted_with(R"("response_format":{"type":"json_object"})").talk.format ==
          response_format::json);
    CHECK(
        accepted_with(R"("response_format":{"type":"json_schema","json_schema":{}})").talk.format ==
        response_format::text);
    // A tool result counts as well.
    const char* messages =
        R"([{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c",)"
        R"("type":"function","function":{"name":"f","arguments":"{}"}}]},)"
        R"({"role":"tool","tool_call_id":"c","content":"JSON"}])";
    CHECK(refused_for(test::chat_body(messages, format)) == "");
  }

  TEST_CASE("errors have the published body") {
    const auto request = parse_request(api_protocol::chat, test::user_body("q", R"(,"n":9)"));
    REQUIRE_FALSE(request);
    const json_value body = test::read_json(error_body(request.error()));
    const json_value& error = test::member(body, "error");
    CHECK(test::string_member(error, "type") == "invalid_request_error");
    CHECK(test::string_member(error, "code") == "invalid_request_error");
    CHECK(test::member(error, "param").is_null());
    CHECK(test::string_member(error, "message").find("`n`") != std::string::npos);
  }
}
