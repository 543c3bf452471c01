#include "runtime/tokenizer/prompt_encoder.hpp"

#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("a plain encoder gives the tokenizer's ids and failures") {
    const auto& tokenizer = *test::tiny_tokenizer();
    const auto encoder = text::make_plain_encoder(test::tiny_tokenizer());
    const std::string prompt = "<｜User｜>Once upon a time<｜Assistant｜></think>";
    const auto specials = tokenizer.find_specials(prompt);
    const auto made = encoder->encode("a", prompt, specials);
    REQUIRE(made);
    CHECK(*made == *tokenizer.encode(prompt, specials));
    const auto refused = encoder->encode("a", "\xFF", {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == error_code::invalid_argument);
  }
}
