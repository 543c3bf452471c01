#include "runtime/recipe/prepare.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("requests of real clients give the known prompts, or are refused for a known field") {
    size_t prompts = 0, refusals = 0;
    for (const std::string& line :
         test::read_source_lines("tests/golden/recipe/anthropic_requests.jsonl")) {
      const json_value golden = test::read_json(line);
      CAPTURE(test::string_member(golden, "name"));
      const std::string body = test::spaced(test::member(golden, "request"));
      auto request = parse_request(api_protocol::messages, body);
      if (test::find_member(golden, "refused") != nullptr) {
        REQUIRE_FALSE(request);
        CHECK(request.error().status == 400);
        CHECK(request.error().param == test::string_member(golden, "refused"));
        ++refusals;
        continue;
      }
      REQUIRE_MESSAGE(request, request.error().message);
      const rendered_prompt prompt = render_request(*request);
      CHECK(prompt.text == test::string_member(golden, "prompt"));
      const auto ids = test::tiny_tokenizer()->encode(prompt.text, prompt.specials);
      REQUIRE(ids);
      CHECK(test::tiny_tokenizer()->decode(*ids, text::decode_mode::keep_special) == prompt.text);
      ++prompts;
    }
    CHECK(prompts == 53);
    CHECK(refusals == 17);
  }

  TEST_CASE("a web search tool of a real client is left out by option") {
    conversion_options options;
    options.refuse_web_search_in_messages = false;
    size_t searches = 0;
    for (const std::string& line :
         test::read_source_lines("tests/golden/recipe/anthropic_requests.jsonl")) {
      if (line.find("\"type\":\"web_search") == std::string::npos) continue;
      const json_value golden = test::read_json(line);
      const std::string body = test::spaced(test::member(golden, "request"));
      CHECK_FALSE(parse_request(api_protocol::messages, body));
      CHECK(parse_request(api_protocol::messages, body, options));
      ++searches;
    }
    CHECK(searches >= 1);
  }
}
