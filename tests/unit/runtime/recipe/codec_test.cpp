#include "runtime/recipe/chat_codec.hpp"
#include "runtime/recipe/json_value.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const served_model tiny{"tiny-v41", {"small"}, 4096};

std::string escaped(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string body_with(std::string_view user, std::string_view more) {
  return "{\"model\":\"tiny-v41\",\"messages\":[{\"role\":\"user\",\"content\":" + escaped(user) +
         "}]" + std::string(more) + "}";
}

api_result<prepared_request> prepare(std::string_view body, const recipe_options& options = {}) {
  return prepare_chat(body, *test::tiny_tokenizer(), tiny, options);
}

const json_value* member(const json_value& object, std::string_view key) {
  for (const json_member& entry : *object.as<json_object>())
    if (entry.key == key) return &entry.value;
  return nullptr;
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
    const auto parsed = parse_json(line);
    REQUIRE(parsed);
    if (*member(*parsed, "name")->as<std::string>() != name) continue;
    return {ids_of(*member(*parsed, "ids")), ids_of(*member(*parsed, "output_ids"))};
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
      const auto made = prepare(body_with(user, more));
      REQUIRE(made);
      return made->tokens;
    };
    CHECK(ids("Hello!", off) == read_sample("hello").prompt);
    CHECK(ids("What can you do?", "") == read_sample("can").prompt);
    CHECK(ids("Tell me a story about a dragon.", R"(,"reasoning_effort":"low")") ==
          read_sample("story_dragon").prompt);
  }

  TEST_CASE("a recorded output streams as reasoning, then text, then the end") {
    const auto request = prepare(body_with("What can you do?", R"(,"stream":true)"));
    REQUIRE(request);
    chat_stream stream(test::tiny_tokenizer(), *request, identity());
    std::string frames = stream.start({36, 4});
    for (const int32_t id : read_sample("can").output) frames += stream.push({&id, 1});
    frames += stream.finish(engine_finish::stop);
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
    const auto request = prepare(body_with("Hello!", off));
    REQUIRE(request);
    chat_stream stream(test::tiny_tokenizer(), *request, identity());
    CHECK(stream.start({6, 0}).empty());
    CHECK(stream.push(read_sample("hello").output).empty());
    CHECK(stream.finish(engine_finish::stop) ==
          R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,)"
          R"("model":"tiny-v41","system_fingerprint":null,"choices":[{"index":0,"message":)"
          R"({"role":"assistant","content":"Hello! How can I help you?"},"logprobs":null,)"
          R"("finish_reason":"stop"}],"usage":{"prompt_tokens":6,"completion_tokens":8,)"
          R"("total_tokens":14,"prompt_tokens_details":{"cached_tokens":0},)"
          R"("prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":6}})");
  }
}
