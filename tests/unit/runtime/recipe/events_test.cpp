#include "runtime/recipe/answer_format.hpp"
#include "runtime/recipe/model_list.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

using kind = output_chunk::kind;

response_identity identity() {
  return {"chatcmpl-7", 1700000000, "m", std::nullopt};
}

/// A frame with this delta and what comes behind the choice.
std::string frame(const std::string& delta,
                  const std::string& reason = "null",
                  const std::string& usage = "") {
  return R"(data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":1700000000,)"
         R"("model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":)" +
         delta + R"(,"logprobs":null,"finish_reason":)" + reason + "}]" + usage + "}\n\n";
}

const std::string usage_10_3_4 =
    R"(,"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
    R"("prompt_tokens_details":{"cached_tokens":4},"prompt_cache_hit_tokens":4,)"
    R"("prompt_cache_miss_tokens":6})";

std::string written(std::unique_ptr<answer_format> format,
                    const std::vector<output_chunk>& chunks,
                    finish_reason reason,
                    const token_usage& usage) {
  std::string out;
  format->begin(out, usage);
  for (const output_chunk& chunk : chunks) format->chunk(out, {0, chunk.what, chunk.text, {}});
  format->end(out, {0, reason, {}, {}, usage, 0, true});
  return out;
}

std::string streamed(answer_traits traits,
                     const std::vector<output_chunk>& chunks,
                     finish_reason reason) {
  return written(make_event_format(api_protocol::chat, identity(), std::move(traits)), chunks,
                 reason, {10, 4, 3, std::nullopt});
}

std::string collected(answer_traits traits,
                      const std::vector<output_chunk>& chunks,
                      finish_reason reason,
                      const token_usage& usage = {10, 4, 3, std::nullopt}) {
  return written(make_body_format(api_protocol::chat, identity(), std::move(traits)), chunks,
                 reason, usage);
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("a thinking stream is start, reasoning, text, end") {
    CHECK(streamed({true, false, false, {}}, {{kind::reasoning, "r"}, {kind::text, "t\n\"é"}},
                   finish_reason::stop) ==
          frame(R"({"role":"assistant","content":null,"reasoning_content":""})") +
              frame(R"({"content":null,"reasoning_content":"r"})") +
              frame(R"({"content":"t\n\"é","reasoning_content":null})") +
              frame(R"({"content":"","reasoning_content":null})", "\"stop\"", usage_10_3_4) +
              "data: [DONE]\n\n");
  }

  TEST_CASE("without thinking there is no reasoning in the frames, unless some comes") {
    CHECK(streamed({false, false, false, {}}, {{kind::text, "t"}, {kind::reasoning, "r"}},
                   finish_reason::stop_sequence) ==
          frame(R"({"role":"assistant","content":""})") + frame(R"({"content":"t"})") +
              frame(R"({"content":null,"reasoning_content":"r"})") +
              frame(R"({"content":""})", "\"stop\"", usage_10_3_4) + "data: [DONE]\n\n");
  }

  TEST_CASE("usage asked for is null in every frame but the last") {
    const std::string none = R"(,"usage":null)";
    CHECK(streamed({false, true, false, {}}, {{kind::text, "t"}}, finish_reason::length) ==
          frame(R"({"role":"assistant","content":""})", "null", none) +
              frame(R"({"content":"t"})", "null", none) +
              frame(R"({"content":""})", "\"length\"", usage_10_3_4) + "data: [DONE]\n\n");
  }

  TEST_CASE("calls are numbered, announced by name, and filled by parts of their arguments") {
    const std::vector<output_chunk> chunks = {{kind::call, "f"},
                                              {kind::arguments, "{\"a\": "},
                                              {kind::arguments, "1}"},
                                              {kind::call, "g"},
                                              {kind::arguments, "{}"}};
    const auto call = [](int index, const std::string& name) {
      const std::string k = std::to_string(index);
      return frame(R"({"tool_calls":[{"index":)" + k + R"(,"id":"call_chatcmpl-7_)" + k +
                   R"(","type":"function","function":{"name":")" + name +
                   R"(","arguments":""}}]})");
    };
    const auto part = [](int index, const std::string& text) {
      return frame(R"({"tool_calls":[{"index":)" + std::to_string(index) +
                   R"(,"function":{"arguments":)" + text + "}}]}");
    };
    CHECK(streamed({false, false, false, {}}, chunks, finish_reason::tool_calls) ==
          frame(R"({"role":"assistant","content":""})") + call(0, "f") + part(0, R"("{\"a\": ")") +
              part(0, R"("1}")") + call(1, "g") + part(1, R"("{}")") +
              frame(R"({"content":""})", "\"tool_calls\"", usage_10_3_4) + "data: [DONE]\n\n");
  }

  TEST_CASE("the complete body is the sum of the stream") {
    const std::string head =
        R"({"id":"chatcmpl-7","object":"chat.completion","created":1700000000,"model":"m",)"
        R"("system_fingerprint":null,"choices":[{"index":0,"message":{"role":"assistant",)";
    CHECK(collected({true, false, false, {}},
                    {{kind::reasoning, "a"}, {kind::reasoning, "b"}, {kind::text, "c"}},
                    finish_reason::content_filter) ==
          head + R"("content":"c","reasoning_content":"ab"},"logprobs":null,)" +
              R"("finish_reason":"content_filter"}])" + usage_10_3_4 + "}");
    // Thinking shows even when empty; calls alone leave the content empty.
    CHECK(collected({true, false, false, {}},
                    {{kind::call, "f"}, {kind::arguments, "{"}, {kind::arguments, "}"}},
                    finish_reason::tool_calls) ==
          head + R"("content":"","reasoning_content":"","tool_calls":[{"id":"call_chatcmpl-7_0",)" +
              R"("type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,)" +
              R"("finish_reason":"tool_calls"}])" + usage_10_3_4 + "}");
    CHECK(collected({false, false, false, {}}, {}, finish_reason::stop) ==
          head + R"("content":""},"logprobs":null,"finish_reason":"stop"}])" + usage_10_3_4 + "}");
  }

  TEST_CASE("cached tokens never make the missed ones negative; reasoning is told when known") {
    const std::string body =
        collected({false, false, false, {}}, {}, finish_reason::stop, {3, 5, 2, 1});
    CHECK(body.find(R"("prompt_cache_miss_tokens":0)") != std::string::npos);
    CHECK(body.find(R"("completion_tokens_details":{"reasoning_tokens":1})") != std::string::npos);
  }

  TEST_CASE("a fingerprint is reported when there is one") {
    response_identity named = identity();
    named.fingerprint = "fp";
    std::string out;
    make_event_format(api_protocol::chat, named, {false, false, false, {}})->begin(out, {});
    CHECK(out.find(R"("system_fingerprint":"fp")") != std::string::npos);
  }

  TEST_CASE("failures of the system become errors that a client can act on") {
    const auto status = [](error_code code) { return to_api_error({code, "secret"}).status; };
    CHECK(status(error_code::invalid_argument) == 400);
    CHECK(status(error_code::too_large) == 400);
    CHECK(status(error_code::unsupported) == 400);
    CHECK(status(error_code::unauthenticated) == 401);
    CHECK(status(error_code::not_found) == 404);
    CHECK(status(error_code::no_capacity) == 503);
    CHECK(status(error_code::unreachable) == 503);
    CHECK(status(error_code::deadline_exceeded) == 504);
    CHECK(status(error_code::internal) == 500);
    const api_error internal = to_api_error({error_code::corrupt, "secret"});
    CHECK(internal.code == "internal_error");
    CHECK(error_body(internal).find("secret") == std::string::npos);
    std::string frame;
    make_event_format(api_protocol::chat, identity(), {})->fail(frame, bad_request("a", "b\n"));
    CHECK(
        frame ==
        "data: {\"error\":{\"message\":\"b\\n\",\"type\":\"invalid_request_error\",\"param\":null,"
        "\"code\":\"invalid_request_error\"}}\n\n");
  }

  TEST_CASE("the list of models") {
    CHECK(
        models_body({{"a", 5, "deepinfer"}, {"b", 6, "x"}}) ==
        R"({"object":"list","data":[{"id":"a","object":"model","created":5,"owned_by":"deepinfer"},)"
        R"({"id":"b","object":"model","created":6,"owned_by":"x"}]})");
    CHECK(models_body({}) == R"({"object":"list","data":[]})");
    CHECK(model_body({"a", 5, "o"}) == R"({"id":"a","object":"model","created":5,"owned_by":"o"})");
  }

  TEST_CASE("the list of models as clients of Messages expect it") {
    const std::string first =
        R"({"type":"model","id":"a","display_name":"a","created_at":"1970-01-01T00:00:00Z"})";
    const std::string last =
        R"({"type":"model","id":"b","display_name":"b","created_at":"2024-02-29T23:59:58Z"})";
    CHECK(messages_models_body({{"a", 0, "x"}, {"b", 1709251198, "x"}}) ==
          "{\"data\":[" + first + "," + last +
              R"(],"has_more":false,"first_id":"a","last_id":"b"})");
    CHECK(messages_models_body({}) ==
          R"({"data":[],"has_more":false,"first_id":null,"last_id":null})");
    CHECK(messages_model_body({"a", 0, "x"}) == first);
  }
}
