#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/messages/format.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/message_joiner.hpp"
#include "tests/unit/runtime/recipe/output_grammar.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;
using namespace deepinfer::test::anthropic;

namespace {

using kind = output_chunk::kind;

response_identity identity() {
  return {"mock-id", 1700000000, "deepseek-flash", "fp-1"};
}

struct ending {
  finish_reason reason = finish_reason::stop;
  std::string stop_sequence = {};
  token_usage usage = {4, 0, 3, std::nullopt};
};

std::string written(answer_format& format,
                    const std::vector<output_chunk>& chunks,
                    const ending& how) {
  std::string out;
  format.begin(out, how.usage);
  for (const output_chunk& chunk : chunks) format.chunk(out, {0, chunk.what, chunk.text, {}});
  format.end(out, {0, how.reason, how.stop_sequence, {}, how.usage, 0, true});
  return out;
}

std::string streamed(bool thinking,
                     const std::vector<output_chunk>& chunks,
                     const ending& how = {}) {
  const auto format =
      make_event_format(api_protocol::messages, identity(), {thinking, false, false, {}});
  return written(*format, chunks, how);
}

std::string collected(bool thinking,
                      const std::vector<output_chunk>& chunks,
                      const ending& how = {}) {
  const auto format =
      make_body_format(api_protocol::messages, identity(), {thinking, false, false, {}});
  return written(*format, chunks, how);
}

/// What the parser makes of an output, as chunks.
std::vector<output_chunk> parsed(std::string_view text, parser_options options) {
  output_parser parser(options);
  std::vector<output_chunk> chunks;
  parser.push(text, chunks);
  parser.finish(chunks);
  return chunks;
}

std::string sent(const std::string& type, const std::string& rest = {}) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + rest + "}\n\n";
}

std::string usage(int input, int cached, int output) {
  return R"("usage":{"input_tokens":)" + std::to_string(input) +
         R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)" + std::to_string(cached) +
         R"(,"output_tokens":)" + std::to_string(output) + R"(,"service_tier":"standard"})";
}

std::string started(const std::string& how_much = usage(4, 0, 0)) {
  return sent("message_start",
              R"(,"message":{"id":"mock-id","type":"message","role":"assistant",)"
              R"("model":"deepseek-flash","content":[],"stop_reason":null,"stop_sequence":null,)" +
                  how_much + "}");
}

std::string block_start(int index, const std::string& block) {
  return sent("content_block_start",
              ",\"index\":" + std::to_string(index) + ",\"content_block\":" + block);
}

std::string delta(int index, const std::string& what) {
  return sent("content_block_delta", ",\"index\":" + std::to_string(index) + ",\"delta\":" + what);
}

std::string block_stop(int index) {
  return sent("content_block_stop", ",\"index\":" + std::to_string(index));
}

std::string ended(const std::string& reason,
                  const std::string& how_much,
                  const std::string& stop = "null") {
  return sent("message_delta", R"(,"delta":{"stop_reason":")" + reason + R"(","stop_sequence":)" +
                                   stop + "}," + how_much) +
         sent("message_stop");
}

const std::string thinking_block = R"({"type":"thinking","thinking":"","signature":""})";
const std::string text_block = R"({"type":"text","text":""})";
const std::string signature = R"({"type":"signature_delta","signature":"mock-id"})";

std::string body(const std::string& content,
                 const std::string& how_much,
                 const std::string& reason = "end_turn",
                 const std::string& stop = "null") {
  return R"({"id":"mock-id","type":"message","role":"assistant","model":"deepseek-flash",)"
         R"("content":[)" +
         content + R"(],"stop_reason":")" + reason + R"(","stop_sequence":)" + stop + "," +
         how_much + "}";
}

std::string tool_block(const std::string& name, int call = 0) {
  return R"({"type":"tool_use","id":"toolu_mock-id_)" + std::to_string(call) + R"(","name":")" +
         name + R"(","input":{}})";
}

std::string json_delta(int index, const std::string& part) {
  return delta(index,
               R"({"type":"input_json_delta","partial_json":)" + test::json_string(part) + "}");
}

const std::string weather_call =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n"
    "<｜DSML｜ parameter name=\"location\" string=\"true\">Paris</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"days\" string=\"false\">3</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

}  // namespace

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("an answer without thinking is one block of text") {
    const std::vector<output_chunk> chunks = {{kind::text, "Hello there!"}};
    CHECK(streamed(false, chunks) ==
          started() + block_start(0, text_block) + sent("ping") +
              delta(0, R"({"type":"text_delta","text":"Hello there!"})") + block_stop(0) +
              ended("end_turn", usage(4, 0, 3)));
    CHECK(collected(false, chunks) ==
          body(R"({"type":"text","text":"Hello there!"})", usage(4, 0, 3)));
  }

  TEST_CASE("a thinking answer opens its first block at once and signs it at its end") {
    const auto chunks = parsed("Let me think about this.</think>The answer is 42.",
                               {.start = parser_start::thinking});
    const ending how{.usage = {4, 0, 8, std::nullopt}};
    CHECK(streamed(true, chunks, how) ==
          started() + block_start(0, thinking_block) + sent("ping") +
              delta(0, R"({"type":"thinking_delta","thinking":"Let me think about this."})") +
              delta(0, signature) + block_stop(0) + block_start(1, text_block) +
              delta(1, R"({"type":"text_delta","text":"The answer is 42."})") + block_stop(1) +
              ended("end_turn", usage(4, 0, 8)));
    CHECK(collected(true, chunks, how) ==
          body(R"({"type":"thinking","thinking":"Let me think about this.",)"
               R"("signature":"mock-id"},{"type":"text","text":"The answer is 42."})",
               usage(4, 0, 8)));
  }

  TEST_CASE("before the first chunk a thinking stream has begun its block") {
    std::string out;
    make_event_format(api_protocol::messages, identity(), {true, false, false, {}})
        ->begin(out, {4, 0, 0, std::nullopt});
    CHECK(out == started() + block_start(0, thinking_block) + sent("ping"));
  }

  TEST_CASE("thinking that brings no thoughts leaves an empty signed block") {
    CHECK(streamed(true, {{kind::text, "t"}}) ==
          started() + block_start(0, thinking_block) + sent("ping") + delta(0, signature) +
              block_stop(0) + block_start(1, text_block) +
              delta(1, R"({"type":"text_delta","text":"t"})") + block_stop(1) +
              ended("end_turn", usage(4, 0, 3)));
    CHECK(collected(true, {}) ==
          body(R"({"type":"thinking","thinking":"","signature":"mock-id"})", usage(4, 0, 3)));
  }

  TEST_CASE("no output without thinking is no block at all") {
    CHECK(streamed(false, {}) == started() + ended("end_turn", usage(4, 0, 3)));
    CHECK(collected(false, {}) == body("", usage(4, 0, 3)));
  }

  TEST_CASE("a call is a block whose input comes as parts of its JSON") {
    const ending how{.reason = finish_reason::tool_calls, .usage = {4, 0, 20, std::nullopt}};
    // The fragments of the recorded stream; our parser joins those that one token decides.
    std::vector<output_chunk> chunks = {{kind::call, "get_weather"}};
    std::string parts;
    for (const char* part :
         {"{\"", "location", "\": ", "\"", "Paris", "\"", ", \"", "days", "\": ", "3", "}"}) {
      chunks.push_back({kind::arguments, part});
      parts += json_delta(0, part);
    }
    CHECK(streamed(false, chunks, how) == started() + block_start(0, tool_block("get_weather")) +
                                              sent("ping") + parts + block_stop(0) +
                                              ended("tool_use", usage(4, 0, 20)));
    const std::string complete =
        body(R"({"type":"tool_use","id":"toolu_mock-id_0","name":"get_weather",)"
             R"("input":{"location":"Paris","days":3}})",
             usage(4, 0, 20), "tool_use");
    CHECK(collected(false, chunks, how) == complete);
    CHECK(collected(false, parsed(weather_call, {.parse_tool_calls = true}), how) == complete);
  }

  TEST_CASE("each call is a block of its own, and calls are numbered apart from blocks") {
    const std::vector<output_chunk> chunks = {
        {kind::reasoning, "r"},  {kind::text, "t"}, {kind::call, "f"},
        {kind::arguments, "{}"}, {kind::call, "g"}, {kind::arguments, "{\"a\": 1}"}};
    const ending how{.reason = finish_reason::tool_calls};
    CHECK(streamed(true, chunks, how) ==
          started() + block_start(0, thinking_block) + sent("ping") +
              delta(0, R"({"type":"thinking_delta","thinking":"r"})") + delta(0, signature) +
              block_stop(0) + block_start(1, text_block) +
              delta(1, R"({"type":"text_delta","text":"t"})") + block_stop(1) +
              block_start(2, tool_block("f", 0)) + json_delta(2, "{}") + block_stop(2) +
              block_start(3, tool_block("g", 1)) + json_delta(3, "{\"a\": 1}") + block_stop(3) +
              ended("tool_use", usage(4, 0, 3)));
  }

  TEST_CASE("input that is cut off, ill-formed or no object is an empty object in the body") {
    const auto input = [](const std::string& arguments) {
      std::vector<output_chunk> chunks = {{kind::call, "f"}};
      if (!arguments.empty()) chunks.push_back({kind::arguments, arguments});
      const json_value made =
          test::read_json(collected(false, chunks, {.reason = finish_reason::length}));
      CHECK(test::string_member(made, "stop_reason") == "max_tokens");
      return compact(test::member(test::member(made, "content").as<json_array>()->at(0), "input"));
    };
    CHECK(input(R"({"location": "Par)") == "{}");
    CHECK(input("") == "{}");
    CHECK(input("[1]") == "{}");
    CHECK(input("\"x\"") == "{}");
    CHECK(input(R"({"a": })") == "{}");
    CHECK(input(std::string(200, '[')) == "{}");
    CHECK(input("{\"a\": " + std::string(1000, '[')) == "{}");
    CHECK(input(R"({"a": 1, "b": [], "a": 2})") == R"({"a":2,"b":[]})");
    CHECK(input(R"({"a": [1.50, -0, 1e5, 1e16, 0.00001, 1.5e-7, 18446744073709551615, 1e-10]})") ==
          R"({"a":[1.5,-0.0,100000.0,1e+16,0.00001,1.5e-7,18446744073709551615,1e-10]})");
  }

  TEST_CASE("arguments of no call are dropped") {
    const std::vector<output_chunk> chunks = {
        {kind::arguments, "{"}, {kind::text, "t"}, {kind::arguments, "}"}};
    CHECK(streamed(false, chunks) == streamed(false, {{kind::text, "t"}}));
    CHECK(collected(false, chunks) == collected(false, {{kind::text, "t"}}));
  }

  TEST_CASE("every way to finish has its word") {
    const auto reason = [](finish_reason how, std::string stop = {}) {
      const json_value made = test::read_json(
          collected(false, {{kind::text, "t"}}, {.reason = how, .stop_sequence = std::move(stop)}));
      return test::string_member(made, "stop_reason") + " " +
             compact(test::member(made, "stop_sequence"));
    };
    CHECK(reason(finish_reason::stop) == "end_turn null");
    CHECK(reason(finish_reason::stop_sequence, "ST\"OP") == "stop_sequence \"ST\\\"OP\"");
    CHECK(reason(finish_reason::tool_calls) == "tool_use null");
    CHECK(reason(finish_reason::length) == "max_tokens null");
    CHECK(reason(finish_reason::content_filter) == "refusal null");
    CHECK(streamed(false, {}, {.reason = finish_reason::stop_sequence, .stop_sequence = "S"}) ==
          started() + ended("stop_sequence", usage(4, 0, 3), "\"S\""));
  }

  TEST_CASE("cached tokens are told apart from the others of the prompt") {
    const ending how{.usage = {10, 4, 3, std::nullopt}};
    CHECK(streamed(false, {}, how) == started(usage(6, 4, 0)) + ended("end_turn", usage(6, 4, 3)));
    CHECK(collected(false, {}, {.usage = {3, 9, 1, std::nullopt}}) == body("", usage(0, 3, 1)));
  }

  TEST_CASE("tokens of thoughts are told at the end, when they are counted") {
    const ending how{.usage = {4, 0, 3, 2}};
    const std::string counted =
        R"("usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
        R"("output_tokens":3,"output_tokens_details":{"thinking_tokens":2},)"
        R"("service_tier":"standard"})";
    CHECK(streamed(false, {}, how) == started() + ended("end_turn", counted));
    CHECK(collected(false, {}, how) == body("", counted));
  }

  TEST_CASE("an answer that fails after its first byte ends with an error event") {
    response_identity named = identity();
    named.request_id = "req_7";
    const auto format = make_event_format(api_protocol::messages, named, {false, false, false, {}});
    std::string out;
    format->begin(out, {4, 0, 0, std::nullopt});
    out.clear();
    format->fail(out, {503, "overloaded_error", "x", {}, "busy\n"});
    CHECK(out ==
          "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
          "\"message\":\"busy\\n\"},\"request_id\":\"req_7\"}\n\n");
    std::string nothing;
    make_body_format(api_protocol::messages, identity(), {})->fail(nothing, bad_request("a", "b"));
    CHECK(nothing.empty());
  }

  TEST_CASE("an error has the type that clients of this protocol know for its status") {
    const auto type = [](int status) {
      const json_value made = test::read_json(
          error_body(api_protocol::messages, {status, "t", "c", "p", "m"}, "req_1"));
      CHECK(test::string_member(made, "type") == "error");
      CHECK(test::string_member(made, "request_id") == "req_1");
      CHECK(test::string_member(test::member(made, "error"), "message") == "m");
      return test::string_member(test::member(made, "error"), "type");
    };
    const std::vector<std::pair<int, std::string>> known = {{400, "invalid_request_error"},
                                                            {401, "authentication_error"},
                                                            {402, "billing_error"},
                                                            {403, "permission_error"},
                                                            {404, "not_found_error"},
                                                            {405, "invalid_request_error"},
                                                            {413, "request_too_large"},
                                                            {422, "invalid_request_error"},
                                                            {429, "rate_limit_error"},
                                                            {500, "api_error"},
                                                            {502, "api_error"},
                                                            {503, "overloaded_error"},
                                                            {504, "timeout_error"},
                                                            {529, "overloaded_error"}};
    for (const auto& [status, name] : known) {
      CAPTURE(status);
      CHECK(type(status) == name);
    }
    CHECK(error_body(api_protocol::messages, bad_request("a", "b\"c"), "req_2") ==
          R"({"type":"error","error":{"type":"invalid_request_error","message":"b\"c"},)"
          R"("request_id":"req_2"})");
  }

  TEST_CASE("joined events are the body, whatever the chunks") {
    test::rng random(54);
    size_t calls = 0;
    for (int round = 0; round < 20'000; ++round) {
      CAPTURE(round);
      const bool thinking = random.below(2) == 0;
      std::vector<output_chunk> chunks;
      // Not only what the parser writes: any kinds in any order.
      for (uint32_t left = random.below(12); left > 0; --left) {
        static const std::vector<std::string> parts = {
            "{", "}", "\"a\": ", "1", "[", "]", ", ", "x", "\n", "\"", "é", "{\"k\": [1.0, null]}"};
        constexpr kind kinds[] = {kind::reasoning, kind::text, kind::call, kind::arguments};
        const kind what = kinds[random.below(4)];
        calls += what == kind::call ? 1 : 0;
        chunks.push_back({what, parts[random.below(static_cast<uint32_t>(parts.size()))]});
      }
      const ending how{static_cast<finish_reason>(random.below(5)),
                       "S",
                       {random.below(9), random.below(9), random.below(9), std::nullopt}};
      REQUIRE(message_joiner().join(streamed(thinking, chunks, how)) ==
              collected(thinking, chunks, how));
    }
    CHECK(calls > 10'000);
  }

  TEST_CASE("a recorded kind of output gives one message, however its tokens come") {
    const auto& tokenizer = test::tiny_tokenizer();
    test::output_grammar grammar(505);
    test::rng random(505);
    size_t with_calls = 0, with_input = 0;
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      const test::made_output made = grammar.next();
      const bool thinking = random.below(2) == 0;
      std::string more = thinking ? "" : R"(,"thinking":{"type":"disabled"})";
      if (random.below(4) != 0) {
        more += R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])";
        if (!thinking && random.below(3) == 0)
          more += R"(,"tool_choice":{"type":"tool","name":"f"})";
      }
      for (size_t k = 0; k < made.options.stop.size(); ++k)
        more += (k == 0 ? ",\"stop_sequences\":[" : ",") + test::json_string(made.options.stop[k]);
      if (!made.options.stop.empty()) more += "]";
      auto request = prepare(api_protocol::messages, test::user_body("q", more), *tokenizer,
                             {"tiny-v41", {}, 1u << 20});
      REQUIRE_MESSAGE(request, request.error().message);
      const auto ids = tokenizer->encode(made.text, tokenizer->find_specials(made.text));
      REQUIRE(ids);
      const auto run = [&](bool stream, size_t most) {
        request->stream = stream;
        answer_stream answers(tokenizer, *request, {"id-1", 0, "m", std::nullopt});
        std::string out = answers.start({10, 4});
        for (size_t done = 0; done < ids->size() && !answers.stopped();) {
          const size_t count =
              std::min<size_t>(1 + random.below(static_cast<uint32_t>(most)), ids->size() - done);
          out += answers.push({0, std::span(*ids).subspan(done, count), {}});
          done += count;
        }
        return out + answers.finish({0, engine_finish::stop, 0});
      };
      const std::string complete = run(false, 1000);
      CHECK(run(false, 3) == complete);
      for (const size_t most : {1, 2, 5, 30, 1000})
        REQUIRE(message_joiner().join(run(true, most)) == complete);
      with_calls += complete.find("\"tool_use\",\"id\"") != std::string::npos ? 1 : 0;
      with_input += complete.find("\"input\":{\"") != std::string::npos ? 1 : 0;
    }
    CHECK(with_calls >= 50);
    CHECK(with_input >= 20);
  }
}
