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

api_result<prepared_request> prepare_text(std::string_view more) {
  return prepare(api_protocol::completions, R"({"model":"tiny-v41")" + std::string(more) + "}",
                 *test::tiny_tokenizer(), {"tiny-v41", {}, 4096});
}

std::string prompt_of(const prepared_request& request) {
  return test::tiny_tokenizer()->decode(request.tokens, text::decode_mode::keep_special);
}

std::string refused_field(std::string_view more) {
  const auto made = prepare_text(more);
  REQUIRE_FALSE(made);
  CHECK(made.error().status == 400);
  return made.error().param;
}

std::vector<int32_t> ids_of(std::string_view text) {
  auto ids = test::tiny_tokenizer()->encode(text, {});
  REQUIRE(ids);
  return *std::move(ids);
}

const response_identity identity{"cmpl-1", 1700000000, "tiny-v41", std::nullopt};

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("a completion's prompt is the text behind the first token, and nothing else") {
    const auto made = prepare_text(R"(,"prompt":"Once <｜User｜> upon","max_tokens":5)");
    REQUIRE(made);
    CHECK(prompt_of(*made) == "<｜begin▁of▁sentence｜>Once <｜User｜> upon");
    CHECK(made->max_tokens == 5);
    CHECK(made->parsing.start == parser_start::plain);
    const int32_t user = *test::tiny_tokenizer()->special_id("<｜User｜>");
    CHECK(std::count(made->tokens.begin(), made->tokens.end(), user) == 0);
  }

  TEST_CASE("a suffix makes a gap to fill") {
    const auto made = prepare_text(R"(,"prompt":"def f(","suffix":"return 1")");
    REQUIRE(made);
    CHECK(prompt_of(*made) ==
          "<｜begin▁of▁sentence｜><｜fim▁begin｜>def f(<｜fim▁hole｜>return 1<｜fim▁end｜>");
  }

  TEST_CASE("prompts are one string; what cannot be done is refused by name") {
    CHECK(refused_field("") == "prompt");
    CHECK(refused_field(R"(,"prompt":[1,2])") == "prompt");
    CHECK(refused_field(R"(,"prompt":["a"])") == "prompt");
    CHECK(refused_field(R"(,"prompt":"a","echo":true,"suffix":"b")") == "echo");
    CHECK(refused_field(R"(,"prompt":"a","echo":true,"logprobs":1)") == "logprobs");
    CHECK(refused_field(R"(,"prompt":"a","logprobs":21)") == "logprobs");
    CHECK(refused_field(R"(,"prompt":"a","best_of":2)") == "best_of");
    CHECK(refused_field(R"(,"prompt":"a","stream_options":{})") == "stream_options");
  }

  TEST_CASE("the answer is text: marks of a conversation mean nothing in it") {
    const auto made = prepare_text(R"(,"prompt":"a","stop":["END"],"echo":true)");
    REQUIRE(made);
    answer_stream stream(test::tiny_tokenizer(), *made, identity);
    std::string out = stream.start({2, 0});
    out += stream.push({0, ids_of("x</think>y END z"), {}});
    CHECK(stream.stopped());
    out += stream.finish({0, engine_finish::stop, 0});
    CHECK(out.starts_with(R"({"id":"cmpl-1","object":"text_completion","created":1700000000,)"
                          R"("model":"tiny-v41","system_fingerprint":null,"choices":[{"text":)"
                          R"("ax</think>y ","index":0,"logprobs":null,"finish_reason":"stop"}],)"
                          R"("usage":{"prompt_tokens":2,)"));
  }

  TEST_CASE("choices stream side by side, and the last to end closes the stream") {
    const auto made = prepare_text(R"(,"prompt":"a","n":2,"logprobs":1,"stream":true)");
    REQUIRE(made);
    CHECK(made->choices == 2);
    answer_stream stream(test::tiny_tokenizer(), *made, identity);
    std::string out = stream.start({2, 0});
    const auto ids = ids_of("b");
    REQUIRE(ids.size() == 1);
    const std::vector<token_logprobs> scores = {{-0.5F, {{ids[0], -0.5F}}}};
    const auto frame = [](int choice, std::string_view text, std::string_view logprobs,
                          std::string_view reason) {
      return R"(data: {"id":"cmpl-1","object":"text_completion","created":1700000000,)"
             R"("model":"tiny-v41","system_fingerprint":null,"choices":[{"text":")" +
             std::string(text) + R"(","index":)" + std::to_string(choice) + R"(,"logprobs":)" +
             std::string(logprobs) + R"(,"finish_reason":)" + std::string(reason) + "}]";
    };
    out += stream.push({1, ids, scores});
    out += stream.push({0, ids, scores});
    out += stream.push({1, ids, scores});
    out += stream.finish({0, engine_finish::length, 0});
    out += stream.finish({1, engine_finish::stop, 0});
    const auto scored = [](int offset) {
      return R"({"text_offset":[)" + std::to_string(offset) +
             R"(],"token_logprobs":[-0.5],"tokens":["b"],"top_logprobs":[{"b":-0.5}]})";
    };
    CHECK(out == frame(1, "b", scored(0), "null") + "}\n\n" + frame(0, "b", scored(0), "null") +
                     "}\n\n" + frame(1, "b", scored(1), "null") + "}\n\n" +
                     frame(0, "", "null", "\"length\"") + "}\n\n" +
                     frame(1, "", "null", "\"stop\"") +
                     R"(,"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,)"
                     R"("prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":0,)"
                     R"("prompt_cache_miss_tokens":2}})"
                     "\n\ndata: [DONE]\n\n");
  }
}
