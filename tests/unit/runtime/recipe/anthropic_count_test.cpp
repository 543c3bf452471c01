#include "runtime/recipe/messages/format.hpp"
#include "runtime/recipe/prepare.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const served_model tiny{"tiny-v41", {"small"}, 4096};

api_result<size_t> count(std::string_view body) {
  return count_tokens(api_protocol::messages, body, *test::tiny_tokenizer(), tiny);
}

}  // namespace

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("counted tokens are those of the prompt that the same request gives") {
    for (const char* more :
         {"", R"(,"system":"s","thinking":{"type":"disabled"})", R"(,"max_tokens":9,"stream":true)",
          R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])"}) {
      const std::string body = test::user_body("What can you do?", more);
      const auto made = prepare(api_protocol::messages, body, *test::tiny_tokenizer(), tiny);
      const auto counted = count(body);
      REQUIRE(made);
      REQUIRE(counted);
      CHECK(*counted == made->tokens.size());
      CHECK(*counted > 4);
    }
  }

  TEST_CASE("counting has no context limit and does not mind what only an answer needs") {
    const auto large = count(test::user_body(std::string(100'000, 'x')));
    REQUIRE(large);
    CHECK(*large > tiny.context_tokens);
    CHECK(count(test::user_body("q", R"(,"max_tokens":4294967295)")));
    CHECK(count(
        test::user_body("q", R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})")));
  }

  TEST_CASE("what is wrong with a request is wrong with its count, too") {
    CHECK(count(R"({"model":"tiny-v41","messages":[]})").error().status == 400);
    const auto unknown = count(R"({"model":"x","messages":[{"role":"user","content":"q"}]})");
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().status == 404);
    CHECK(messages::count_body(17) == R"({"input_tokens":17})");
  }

  TEST_CASE("a schema that nobody enforces is refused by the name of its field") {
    const auto made = prepare(
        api_protocol::messages,
        test::user_body("q", R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})"),
        *test::tiny_tokenizer(), tiny);
    REQUIRE_FALSE(made);
    CHECK(made.error().status == 400);
    CHECK(made.error().param == "output_config.format");
    CHECK(made.error().message.find("cannot be enforced") != std::string::npos);
  }
}
