#include "runtime/recipe/system_prompt.hpp"

#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const std::string system_text =
    "You are a careful clerk.\nAnswer in one line, and never say \"<｜User｜>\".";

std::vector<int32_t> tokens_of(api_protocol protocol, const std::string& body) {
  const served_model model{"m", {}, 4096};
  const auto made = prepare(protocol, body, *test::tiny_tokenizer(), model);
  REQUIRE_MESSAGE(made, made.error().message);
  return made->tokens;
}

/// The tokens that a prompt has in common with the beginning it follows longest, and how many
/// beginnings it follows to their end.
struct followed {
  size_t tokens = 0, whole = 0;
};
followed follow(const std::vector<std::vector<int32_t>>& beginnings,
                const std::vector<int32_t>& prompt) {
  followed out;
  for (const auto& one : beginnings) {
    const auto parted = std::mismatch(one.begin(), one.end(), prompt.begin(), prompt.end());
    const auto same = static_cast<size_t>(parted.first - one.begin());
    out.tokens = std::max(out.tokens, same);
    out.whole += same == one.size();
  }
  return out;
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("every way to ask with a system message begins as one of its beginnings") {
    const auto beginnings = system_beginnings(system_text, *test::tiny_tokenizer());
    REQUIRE(beginnings);
    CHECK(std::set(beginnings->begin(), beginnings->end()).size() == 4);
    const std::string system =
        R"({"role": "system", "content": )" + test::json_string(system_text) + "}";
    const std::string user = R"({"role": "user", "content": "hi"})";
    const std::string talk = R"("messages": [)" + system + ", " + user + "]";
    for (const std::string effort : {"none", "minimal", "low", "medium", "high", "xhigh", "max"}) {
      CAPTURE(effort);
      const auto prompt = tokens_of(api_protocol::chat, R"({"model": "m", "reasoning_effort": ")" +
                                                            effort + "\", " + talk + "}");
      CHECK(follow(*beginnings, prompt).whole == 1);
    }
    CHECK(follow(*beginnings, tokens_of(api_protocol::chat, R"({"model": "m", )" + talk + "}"))
              .whole == 1);
    CHECK(follow(*beginnings,
                 tokens_of(api_protocol::messages, R"({"model": "m", "max_tokens": 9, "system": )" +
                                                       test::json_string(system_text) +
                                                       R"(, "messages": [)" + user + "]}"))
              .whole == 1);
    CHECK(follow(*beginnings, tokens_of(api_protocol::responses,
                                        R"({"model": "m", "instructions": )" +
                                            test::json_string(system_text) + R"(, "input": "hi"})"))
              .whole == 1);
  }

  TEST_CASE("where something follows without a control token, at most the last tokens differ") {
    const auto beginnings = system_beginnings(system_text, *test::tiny_tokenizer());
    REQUIRE(beginnings);
    const auto prompt = tokens_of(
        api_protocol::chat,
        R"({"model": "m", "reasoning_effort": "high", "messages": [{"role": "system", "content": )" +
            test::json_string(system_text) +
            R"(}, {"role": "user", "content": "hi"}], "tools": [{"type": "function",
              "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]})");
    size_t longest = 0;
    for (const auto& one : *beginnings) longest = std::max(longest, one.size());
    CHECK(follow(*beginnings, prompt).tokens + 2 >= longest);
  }

  TEST_CASE("another system message leaves the beginning where it differs") {
    const auto beginnings = system_beginnings(system_text, *test::tiny_tokenizer());
    REQUIRE(beginnings);
    const auto prompt =
        tokens_of(api_protocol::chat,
                  R"({"model": "m", "reasoning_effort": "none", "messages": [{"role": "system",
                    "content": "You are a careless clerk."}, {"role": "user", "content": "hi"}]})");
    const followed common = follow(*beginnings, prompt);
    CHECK(common.whole == 0);
    CHECK(common.tokens > 2);
    CHECK(common.tokens < (*beginnings)[0].size());
  }
}
