#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/prepare.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const served_model tiny{"tiny-v41", {"small"}, 4096};

api_result<prepared_request> prepare(std::string_view body, const recipe_options& options = {}) {
  return recipe::prepare(api_protocol::chat, body, *test::tiny_tokenizer(), tiny, options);
}

std::vector<int32_t> ids_of(const json_value& array) {
  std::vector<int32_t> ids;
  for (const json_value& id : *array.as<json_array>())
    ids.push_back(static_cast<int32_t>(*id.as<int64_t>()));
  return ids;
}

struct sample {
  std::vector<int32_t> prompt, output;
};

sample read_sample(std::string_view name) {
  for (const std::string& line : test::read_source_lines("tests/golden/tokenizer/prompts.jsonl")) {
    const json_value parsed = test::read_json(line);
    if (test::string_member(parsed, "name") != name) continue;
    return {ids_of(test::member(parsed, "ids")), ids_of(test::member(parsed, "output_ids"))};
  }
  FAIL("no sample ", std::string(name));
  return {};
}

constexpr const char* off = R"(,"thinking":{"type":"disabled"})";

response_identity identity() {
  return {"chatcmpl-1", 1700000000, "tiny-v41", std::nullopt};
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("requests give the prompt ids the model was recorded with") {
    const auto ids = [](std::string_view user, std::string_view more) {
      const auto made = prepare(test::user_body(user, more));
      REQUIRE(made);
      return made->tokens;
    };
    CHECK(ids("Hello!", off) == read_sample("hello").prompt);
    CHECK(ids("What can you do?", "") == read_sample("can").prompt);
    CHECK(ids("Tell me a story about a dragon.", R"(,"reasoning_effort":"low")") ==
          read_sample("story_dragon").prompt);
  }

  TEST_CASE("a recorded output streams as reasoning, then text, then the end") {
    const auto request = prepare(test::user_body("What can you do?", R"(,"stream":true)"));
    REQUIRE(request);
    answer_stream stream(test::tiny_tokenizer(), *request, identity());
    std::string frames = stream.start({36, 4});
    for (const int32_t id : read_sample("can").output) frames += stream.push({0, {&id, 1}, {}});
    frames += stream.finish({0, engine_finish::stop, 0});
    CHECK(frames.find("\"reasoning_content\":\"The\"") != std::string::npos);
    CHECK(frames.find("\"content\":\"I\",\"reasoning_content\":null") != std::string::npos);
    CHECK(frames.find("think>") == std::string::npos);
    CHECK(frames.find("end▁of") == std::string::npos);
    CHECK(frames.find("\"finish_reason\":\"stop\"") != std::string::npos);
    CHECK(frames.find("\"prompt_tokens\":36,\"completion_tokens\":25,\"total_tokens\":61,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":4},"
                      "\"prompt_cache_hit_tokens\":4,\"prompt_cache_miss_tokens\":32") !=
          std::string::npos);
    CHECK(frames.ends_with("data: [DONE]\n\n"));
  }

  TEST_CASE("a request without stream gets one body from finish and nothing before") {
    const auto request = prepare(test::user_body("Hello!", off));
    REQUIRE(request);
    answer_stream stream(test::tiny_tokenizer(), *request, identity());
    CHECK(stream.start({6, 0}).empty());
    CHECK(stream.push({0, read_sample("hello").output, {}}).empty());
    CHECK(stream.finish({0, engine_finish::stop, 0}) ==
          R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,)"
          R"("model":"tiny-v41","system_fingerprint":null,"choices":[{"index":0,"message":)"
          R"({"role":"assistant","content":"Hello! How can I help you?"},"logprobs":null,)"
          R"("finish_reason":"stop"}],"usage":{"prompt_tokens":6,"completion_tokens":8,)"
          R"("total_tokens":14,"prompt_tokens_details":{"cached_tokens":0},)"
          R"("prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":6}})");
  }

  TEST_CASE("a stop sequence ends the answer, and says that generation can be cancelled") {
    const auto request =
        prepare(test::user_body("Hello!", std::string(off) + R"(,"stop":[" can I"])"));
    REQUIRE(request);
    answer_stream stream(test::tiny_tokenizer(), *request, identity());
    CHECK(stream.start({6, 0}).empty());
    const auto output = read_sample("hello").output;
    size_t used = 0;
    for (; used < output.size() && !stream.stopped(); ++used)
      CHECK(stream.push({0, {&output[used], 1}, {}}).empty());
    CHECK(used < output.size() - 1);
    const uint32_t counted = stream.usage().completion_tokens;
    CHECK(counted == used);
    CHECK(stream.push({0, output, {}}).empty());
    CHECK(stream.usage().completion_tokens == counted);
    const std::string body = stream.finish({0, engine_finish::length, 0});
    CHECK(body.find(R"("content":"Hello! How")") != std::string::npos);
    CHECK(body.find(R"("finish_reason":"stop")") != std::string::npos);
  }

  TEST_CASE("calls in a recorded output finish with tool_calls, cut off ones with length") {
    const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"get_weather"}}])";
    const auto request = prepare(test::user_body("q", off + tools));
    REQUIRE(request);
    const auto answer = [&request](std::vector<int32_t> tokens, engine_finish reason) {
      answer_stream stream(test::tiny_tokenizer(), *request, identity());
      std::string frames = stream.start({6, 0}) + stream.push({0, tokens, {}});
      return test::read_json(frames + stream.finish({0, reason, 0}));
    };
    const auto choice_of = [](const json_value& body) -> const json_value& {
      return test::member(body, "choices").as<json_array>()->front();
    };
    auto output = read_sample("weather").output;
    const json_value whole = answer(output, engine_finish::stop);
    CHECK(test::string_member(choice_of(whole), "finish_reason") == "tool_calls");
    const json_value& calls = test::member(test::member(choice_of(whole), "message"), "tool_calls");
    const json_value& function = test::member(calls.as<json_array>()->front(), "function");
    CHECK(test::string_member(function, "name") == "get_weather");
    CHECK(test::string_member(function, "arguments").starts_with("{\"location\": \"Athens\""));
    output.resize(output.size() / 2);
    CHECK(test::string_member(choice_of(answer(output, engine_finish::length)), "finish_reason") ==
          "length");
  }

  TEST_CASE("reasoning that the limit cuts off is all there is, and ends with length") {
    const auto request = prepare(test::user_body("q"));
    REQUIRE(request);
    const auto ids = test::tiny_tokenizer()->encode("why so\n", {});
    REQUIRE(ids);
    answer_stream stream(test::tiny_tokenizer(), *request, identity());
    CHECK(stream.push({0, *ids, {}}).empty());
    CHECK(stream.finish({0, engine_finish::length, 0})
              .find(R"({"role":"assistant","content":"","reasoning_content":"why so\n"},)"
                    R"("logprobs":null,"finish_reason":"length"})") != std::string::npos);
  }

  TEST_CASE("turn tokens are never shown, and counted only by a run that ignores the end") {
    const std::vector<int32_t> output = {43, 1, 0,
                                         *test::tiny_tokenizer()->special_id("<｜User｜>"), 43};
    const auto used = [&output](std::string_view more) {
      const auto request = prepare(test::user_body("q", off + std::string(more)));
      REQUIRE(request);
      answer_stream stream(test::tiny_tokenizer(), *request, identity());
      CHECK(stream.push({0, output, {}}).empty());
      CHECK(stream.finish({0, engine_finish::length, 0}).find(R"("content":"II")") !=
            std::string::npos);
      return stream.usage().completion_tokens;
    };
    CHECK(used("") == 2);
    CHECK(used(R"(,"ignore_eos":true)") == 5);
  }

  TEST_CASE("reasoning tokens are counted on request") {
    recipe_options options;
    options.report_reasoning_tokens = true;
    const auto request = prepare(test::user_body("What can you do?"), options);
    REQUIRE(request);
    answer_stream stream(test::tiny_tokenizer(), *request, identity());
    CHECK(stream.push({0, read_sample("can").output, {}}).empty());
    CHECK(stream.usage().completion_tokens == 25);
    CHECK(stream.usage().reasoning_tokens == 15u);
  }

  TEST_CASE("probabilities are told for what clients see, reasoning apart from the answer") {
    const auto told = [](std::string_view more, const std::string& said) {
      const auto request =
          prepare(test::user_body("json", std::string(more) + R"(,"logprobs":true)"));
      REQUIRE_MESSAGE(request, request.error().message);
      const auto& tokenizer = *test::tiny_tokenizer();
      const auto ids = tokenizer.encode(said, tokenizer.find_specials(said));
      REQUIRE(ids);
      const std::vector<token_logprobs> rows(ids->size(), {-0.5F, {}});
      answer_stream stream(test::tiny_tokenizer(), *request, identity());
      CHECK(stream.start({1, 0}).empty());
      CHECK(stream.push({0, *ids, rows}).empty());
      const json_value body = test::read_json(stream.finish({0, engine_finish::stop, 0}));
      return test::member(test::member(body, "choices").as<json_array>()->front(), "logprobs");
    };
    const auto joined = [](const json_value& logprobs, std::string_view key) {
      std::string text;
      for (const json_value& row : *test::member(logprobs, key).as<json_array>()) {
        CHECK(test::spaced(test::member(row, "logprob")) == "-0.5");
        CHECK(test::member(row, "top_logprobs").as<json_array>()->empty());
        text += test::string_member(row, "token");
      }
      return text;
    };
    const json_value both = told("", "why so</think>because");
    CHECK(joined(both, "reasoning_content") == "why so");
    CHECK(joined(both, "content") == "because");
    const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
    CHECK(joined(
              told(off + tools, "ok<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"></｜DSML｜ invoke>"),
              "content") == "ok<");
    const json_value json = told(std::string(off) + R"(,"response_format":{"type":"json_object"})",
                                 "Here it is: {\"a\": 1}\n```\nDone, as you see.");
    const std::string shown = joined(json, "content");
    CHECK(shown.find("\"a") != std::string::npos);
    CHECK(shown.find("Here") == std::string::npos);
    CHECK(shown.find("Done") == std::string::npos);
    // Nothing to tell: there is no object.
    CHECK(told(off, "").is_null());
  }

  TEST_CASE("the output limit defaults to what fits, and an explicit one must fit") {
    const auto limit = [](std::string_view more, uint32_t context) {
      const auto made = recipe::prepare(api_protocol::chat, test::user_body("Hello!", more),
                                        *test::tiny_tokenizer(), {"tiny-v41", {}, context});
      return made ? static_cast<int64_t>(made->max_tokens) : -1;
    };
    // The prompt has 6 tokens without thinking.
    CHECK(limit(off, 1u << 20) == 8192);
    CHECK(limit("", 1u << 20) == 65536);
    CHECK(limit(off, 100) == 94);
    CHECK(limit(off, 7) == 1);
    CHECK(limit(off, 6) == -1);
    const std::string explicit_94 = std::string(off) + R"(,"max_tokens":94)";
    CHECK(limit(explicit_94, 100) == 94);
    CHECK(limit(explicit_94, 99) == -1);
    const auto over = recipe::prepare(api_protocol::chat, test::user_body("Hello!", explicit_94),
                                      *test::tiny_tokenizer(), {"tiny-v41", {}, 99});
    REQUIRE_FALSE(over);
    CHECK(over.error().status == 400);
    for (const char* number : {"99", "100", "6 in the messages", "94 in the completion"})
      CHECK(over.error().message.find(number) != std::string::npos);
    // The fields are those of the protocol.
    const auto said = [](api_protocol protocol, std::string_view body) {
      const auto made = recipe::prepare(protocol, body, *test::tiny_tokenizer(), {"m", {}, 5});
      REQUIRE_FALSE(made);
      return made.error().param + ": " + made.error().message;
    };
    std::string message =
        said(api_protocol::responses, R"({"model":"m","input":"Hello!","max_output_tokens":9})");
    CHECK(message.starts_with("max_output_tokens: "));
    CHECK(message.find("`input`") != std::string::npos);
    CHECK(message.find("`max_output_tokens`") != std::string::npos);
    CHECK(
        said(api_protocol::responses, R"({"model":"m","input":"Hello!"})").starts_with("input: "));
    message = said(api_protocol::completions, R"({"model":"m","prompt":"a b c d e f g h"})");
    CHECK(message.starts_with("prompt: "));
    CHECK(message.find("`max_tokens`") != std::string::npos);
    recipe_options options;
    options.max_prompt_tokens = 5;
    CHECK_FALSE(prepare(test::user_body("Hello!", off), options));
    options.max_prompt_tokens = 6;
    CHECK(prepare(test::user_body("Hello!", off), options));
  }

  TEST_CASE("thinking forces the sampling values, unless switched off") {
    const char* wish = R"(,"temperature":0,"top_p":0.5,"top_k":3,"seed":9)";
    const auto forced = prepare(test::user_body("q", wish));
    REQUIRE(forced);
    CHECK(forced->sampling.temperature == 1.0F);
    CHECK(forced->sampling.top_p == 0.95F);
    CHECK(forced->sampling.top_k == 3);
    CHECK(forced->sampling.seed == 9u);
    recipe_options options;
    options.thinking_forces_temperature = false;
    const auto obeyed = prepare(test::user_body("q", wish), options);
    REQUIRE(obeyed);
    CHECK(obeyed->sampling.temperature == 0.0F);
    CHECK(obeyed->sampling.top_p == 0.5F);
    const auto plain = prepare(test::user_body("q", std::string(off) + wish));
    REQUIRE(plain);
    CHECK(plain->sampling.temperature == 0.0F);
    CHECK(plain->sampling.top_p == 0.5F);
    const auto silent = prepare(test::user_body("q", off));
    REQUIRE(silent);
    CHECK(silent->sampling.temperature == 1.0F);
    CHECK(silent->sampling.top_p == 1.0F);
    CHECK_FALSE(silent->sampling.seed);
  }

  TEST_CASE("a model is known by its name, an alias or as default; others are not found") {
    const auto status = [](std::string_view name) {
      const auto made = prepare(R"({"messages":[{"role":"user","content":"x"}],"model":)" +
                                test::json_string(name) + "}");
      return made ? 200 : made.error().status;
    };
    CHECK(status("tiny-v41") == 200);
    CHECK(status("small") == 200);
    CHECK(status("default") == 200);
    CHECK(status("gpt") == 404);
    CHECK(status(std::string(1000, 'x')) == 404);
  }

  TEST_CASE("without vision an image is a text that says so") {
    const auto made = prepare(test::chat_body(
        R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y"}},)"
        R"({"type":"text","text":"q"}]}])"));
    REQUIRE(made);
    const std::string prompt =
        test::tiny_tokenizer()->decode(made->tokens, text::decode_mode::keep_special);
    CHECK(prompt.find("<｜User｜>[Unsupported Image]\n\nq<｜Assistant｜>") != std::string::npos);
  }

  TEST_CASE("a format that nobody enforces yet is refused, not ignored") {
    for (const char* format : {R"({"type":"json_schema","json_schema":{"name":"a","schema":{}}})",
                               R"({"type":"regex","regex":"a+"})"}) {
      const auto made =
          prepare(test::user_body("q", R"(,"response_format":)" + std::string(format)));
      REQUIRE_FALSE(made);
      CHECK(made.error().status == 400);
      CHECK(made.error().message.find("cannot be enforced") != std::string::npos);
    }
  }

  TEST_CASE("the parser starts where the prompt ends") {
    const auto start = [](std::string_view body) {
      const auto made = prepare(body);
      REQUIRE_MESSAGE(made, made.error().message);
      return made->parsing.start;
    };
    const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
    const auto prefix = [](std::string_view fields, std::string_view more) {
      return test::chat_body(R"([{"role":"user","content":"q"},{"role":"assistant","prefix":true)" +
                                 std::string(fields) + "}]",
                             more);
    };
    CHECK(start(test::user_body("q")) == parser_start::thinking);
    CHECK(start(test::user_body("q", off)) == parser_start::answer);
    CHECK(start(test::user_body("q", off + tools + R"(,"tool_choice":"required")")) ==
          parser_start::calls);
    CHECK(start(prefix(R"(,"content":"c")", off)) == parser_start::content);
    CHECK(start(prefix(R"(,"content":"c")", "")) == parser_start::content);
    const std::string json = R"(,"response_format":{"type":"json_object"})";
    CHECK(start(prefix(R"(,"content":"json: ")", json)) == parser_start::content);
    for (const char* begun : {R"({\"json\": )", R"(json [)", R"(```json\n)", R"(json\n```\n)"})
      CHECK(start(prefix(R"(,"content":")" + std::string(begun) + "\"", json)) ==
            parser_start::json_value);
    CHECK(start(prefix(R"(,"content":"{json")", "")) == parser_start::content);
    CHECK(start(prefix(R"(,"content":"","reasoning_content":"r")", "")) == parser_start::reasoning);
    CHECK(start(prefix(R"(,"content":"")", "")) == parser_start::thinking);
    CHECK_FALSE(prepare(test::user_body("q", tools + R"(,"tool_choice":"none")"))
                    ->parsing.parse_tool_calls);
    CHECK(prepare(test::user_body("q", tools))->parsing.parse_tool_calls);
  }

  TEST_CASE("a tokenizer without the family's tokens is refused by name") {
    CHECK(check_tokenizer(*test::tiny_tokenizer()));
    std::string json = test::read_source("examples/models/tiny-v41/tokenizer.json");
    const size_t at = json.find("｜DSML｜");
    REQUIRE(at != std::string::npos);
    json.replace(at, std::string("｜DSML｜").size(), "｜DSMX｜");
    const auto other = text::make_tokenizer(json);
    REQUIRE(other);
    const auto checked = check_tokenizer(**other);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().detail.find("｜DSML｜") != std::string::npos);
  }
}
