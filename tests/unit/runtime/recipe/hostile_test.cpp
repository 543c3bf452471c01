#include "runtime/recipe/prepare.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const served_model tiny{"tiny-v41", {}, 4096};

int status_of(std::string_view body, const recipe_options& options = {}) {
  const auto made = prepare(api_protocol::chat, body, *test::tiny_tokenizer(), tiny, options);
  return made ? 200 : made.error().status;
}

std::string nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("lone surrogates, raw control characters and broken UTF-8 are refused") {
    CHECK(status_of(
              R"({"model":"tiny-v41","messages":[{"role":"user","content":"\ud83d\ude00"}]})") ==
          200);
    CHECK(status_of(R"({"model":"tiny-v41","messages":[{"role":"user","content":"\ud83d"}]})") ==
          400);
    CHECK(status_of(R"({"model":"tiny-v41","messages":[{"role":"user","content":"\ude00x"}]})") ==
          400);
    CHECK(status_of(
              "{\"model\":\"tiny-v41\",\"messages\":[{\"role\":\"user\",\"content\":\"\x01\"}]}") ==
          400);
    CHECK(status_of(
              "{\"model\":\"tiny-v41\",\"messages\":[{\"role\":\"user\",\"content\":\"\xC3\"}]}") ==
          400);
    CHECK(status_of("{\"model\":\"tiny-v41\",\"messages\":[{\"role\":\"user\",\"content\":"
                    "\"\xED\xA0\x80\"}]}") == 400);
    CHECK(status_of(test::user_body("x") + "}") == 400);
    CHECK(status_of(test::user_body("x") + " \n") == 200);
  }

  TEST_CASE("NUL characters are text like any other") {
    const std::string text("a\0b\0", 4);
    const auto made =
        prepare(api_protocol::chat, test::user_body(text), *test::tiny_tokenizer(), tiny);
    REQUIRE(made);
    const auto decoded =
        test::tiny_tokenizer()->decode(made->tokens, text::decode_mode::keep_special);
    CHECK(decoded.find(text) != std::string::npos);
  }

  TEST_CASE("nesting, size and number of values are limited, each by name") {
    const auto refused = [](std::string_view text, const json_limits& limits) {
      const auto parsed = parse_json(text, limits);
      return !parsed && parsed.error().code == error_code::too_large;
    };
    json_limits limits;
    limits.max_depth = 20;
    CHECK(parse_json(nested(20), limits));
    CHECK(refused(nested(21), limits));
    CHECK(refused(nested(100'000), limits));
    limits.max_bytes = 40;
    CHECK(parse_json(nested(20), limits));
    CHECK(refused(nested(20) + " ", limits));
    limits.max_values = 4;
    CHECK(parse_json("[1,2,3]", limits));
    CHECK(refused("[1,2,3,4]", limits));
    CHECK(status_of(test::user_body("x", ",\"deep\":" + nested(200))) == 400);
    CHECK(status_of("{\"a\":" + nested(1'000'000)) == 400);
  }

  TEST_CASE("numbers of every kind are read exactly or refused") {
    const auto shown = [](std::string_view text) -> std::string {
      const auto parsed = parse_json(text);
      return parsed ? test::spaced(*parsed) : "refused";
    };
    CHECK(shown("18446744073709551615") == "18446744073709551615");
    CHECK(shown("18446744073709551616") == "1.8446744073709552e+19");
    CHECK(shown("-9223372036854775808") == "-9223372036854775808");
    CHECK(shown("-9223372036854775809") == "-9.223372036854776e+18");
    CHECK(shown("[-0,-0.0,0,0.0]") == "[-0.0, -0.0, 0, 0.0]");
    CHECK(shown(R"(["-0",99999999999999999999,"9\"99999999999999999999"])") ==
          R"(["-0", 1e+20, "9\"99999999999999999999"])");
    CHECK(
        shown("[1.0,1e5,1e16,1e15,123456789.125,0.0001,0.00001,1.5e-7,1e-10]") ==
        "[1.0, 100000.0, 1e+16, 1000000000000000.0, 123456789.125, 0.0001, 1e-05, 1.5e-07, 1e-10]");
    CHECK(shown("1.7976931348623157e308") == "1.7976931348623157e+308");
    CHECK(shown("1e400") == "refused");
    CHECK(shown("01") == "refused");
    CHECK(shown("-") == "refused");
    CHECK(shown("1.") == "refused");
    CHECK(shown("NaN") == "refused");
  }

  TEST_CASE("a string of ten megabytes is handled in bounded time") {
    const std::string text(10'000'000, 'a');
    // Far beyond the context: refused after encoding, with the numbers.
    const auto made =
        prepare(api_protocol::chat, test::user_body(text), *test::tiny_tokenizer(), tiny);
    REQUIRE_FALSE(made);
    CHECK(made.error().status == 400);
    CHECK(made.error().message.find("4096") != std::string::npos);
    CHECK(status_of(test::user_body("x", ",\"unknown\":\"" + text + "\"")) == 200);
    CHECK(status_of(test::user_body(std::string(40'000'000, 'a'))) == 400);
  }

  TEST_CASE("a hundred thousand messages, calls or keys are handled in bounded time") {
    std::string messages, results, calls, keys;
    for (int i = 0; i < 100'000; ++i) {
      const std::string comma = i == 0 ? "" : ",";
      const std::string id = "c" + std::to_string(i);
      messages += comma + R"({"role":"user","content":"x"})";
      calls += comma + "{\"id\":\"" + id + R"(","function":{"name":"f","arguments":"{}"}})";
      results += comma + R"({"role":"tool","content":"r","tool_call_id":")" + id + "\"}";
      keys += comma + "\"k" + std::to_string(i) + "\":1";
    }
    served_model large = tiny;
    large.context_tokens = 1u << 22;
    recipe_options options;
    options.max_prompt_tokens = 1u << 22;
    const auto many = prepare(api_protocol::chat, test::chat_body("[" + messages + "]"),
                              *test::tiny_tokenizer(), large, options);
    REQUIRE(many);
    CHECK(many->tokens.size() >= 200'000);
    CHECK(prepare(
        api_protocol::chat,
        test::chat_body(R"([{"role":"assistant","tool_calls":[)" + calls + "]}," + results + "]"),
        *test::tiny_tokenizer(), large, options));
    CHECK(status_of(test::user_body("x", "," + keys)) == 200);
    CHECK(status_of(test::user_body("x", R"(,"tools":[{"type":"function","function":{"name":"f",)"
                                         R"("parameters":{"type":"object",)" +
                                             keys + "}}}]")) == 400);
  }

  TEST_CASE("random bytes and mutilated requests give an answer, never a crash") {
    const std::string good = test::user_body(
        "json", R"(,"tools":[{"type":"function","function":{"name":"f","parameters":)"
                R"({"type":"object","properties":{"a":{"type":"string"}}}}}],"stop":["x"],)"
                R"("response_format":{"type":"json_object"},"reasoning_effort":"max","n":1)");
    REQUIRE(status_of(good) == 200);
    int accepted = 0;
    for (uint64_t seed = 1; seed <= 3000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string body = good;
      for (uint32_t edits = 1 + random.below(3); edits > 0; --edits) {
        const size_t at = random.below(static_cast<uint32_t>(body.size()));
        switch (random.below(3)) {
          case 0:
            body[at] = static_cast<char>(random.below(256));
            break;
          case 1:
            body.erase(at, 1 + random.below(8));
            break;
          default:
            body.insert(at, body, random.below(64), random.below(16));
        }
      }
      const int status = status_of(body);
      CHECK((status == 200 || status == 400 || status == 404));
      accepted += status == 200;
    }
    CHECK(accepted > 0);
  }
}
