#include "actors/cache/public_prompts.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;

TEST_SUITE("actors/cache") {
  TEST_CASE("a prompt shares what it has in common with the listed one that it follows longest") {
    const public_prompts listed{{{1, 2, 3, 4}, {1, 2, 9}, {7}}};
    using tokens = std::vector<int32_t>;
    CHECK(listed.shared_tokens(tokens{1, 2, 3, 4, 5}) == 4);
    CHECK(listed.shared_tokens(tokens{1, 2, 3, 4}) == 4);
    CHECK(listed.shared_tokens(tokens{1, 2, 3}) == 3);
    CHECK(listed.shared_tokens(tokens{1, 2, 9, 4}) == 3);
    CHECK(listed.shared_tokens(tokens{1, 2, 8}) == 2);
    CHECK(listed.shared_tokens(tokens{7, 1, 2, 3}) == 1);
    CHECK(listed.shared_tokens(tokens{2, 3, 4}) == 0);
    CHECK(listed.shared_tokens({}) == 0);
    CHECK(public_prompts{}.shared_tokens(tokens{1}) == 0);
    CHECK(public_prompts{}.empty());
  }
}
