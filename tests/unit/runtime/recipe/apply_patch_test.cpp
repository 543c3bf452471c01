#include "runtime/recipe/apply_patch.hpp"

#include "runtime/recipe/custom_input_decoder.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/recipe/tool_schema.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

template <class NextSize>
std::string decode(std::string_view arguments, NextSize&& next_size) {
  custom_input_decoder decoder;
  std::string out;
  while (!arguments.empty()) {
    const size_t size = std::min<size_t>(arguments.size(), next_size());
    decoder.push(arguments.substr(0, size), out);
    arguments.remove_prefix(size);
  }
  decoder.finish(out);
  return out;
}

/// The input, after checking that no single cut, nor cutting everywhere, changes it.
std::string decode(std::string_view arguments) {
  const std::string whole = decode(arguments, [] { return size_t{1} << 30; });
  CHECK(decode(arguments, [] { return size_t{1}; }) == whole);
  for (size_t cut = 1; cut < arguments.size(); ++cut) {
    bool first = true;
    const auto sizes = [&first, cut] {
      return std::exchange(first, false) ? cut : size_t{1} << 30;
    };
    if (decode(arguments, sizes) != whole) {
      CAPTURE(cut);
      FAIL_CHECK("cutting in two changes the input");
    }
  }
  return whole;
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("apply_patch is a function with one string, its keys in the recorded order") {
    const tool_definition tool = apply_patch_tool();
    CHECK(tool.name == "apply_patch");
    CHECK(tool.parameters ==
          "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"input\": "
          "{\"type\": \"string\", \"description\": \"The entire contents of the apply_patch "
          "command (the *** Begin Patch ... *** End Patch envelope).\"}}, \"required\": "
          "[\"input\"]}");
    // It is in prompt style already, and a schema that clients could have sent.
    const json_value schema = test::read_json(tool.parameters);
    CHECK(test::spaced(schema) == tool.parameters);
    CHECK_FALSE(tool_schema_complaint(schema));
  }

  TEST_CASE("the description tells the grammar and the rules, and an operator's replaces it") {
    const std::string text(apply_patch_tool().description);
    for (const char* fact :
         {"*** Begin Patch", "*** End Patch", "*** Add File: ", "*** Delete File: ",
          "*** Update File: ", "*** Move to: ", "*** End of File", "@@", "relative", "absolute",
          "three", "UpdateFile := \"*** Update File: \" path NL"})
      CHECK_MESSAGE(text.find(fact) != std::string::npos, fact);
    CHECK(text.ends_with(".\n"));
    CHECK(text.size() > 2000);
    CHECK(text.size() < 4000);
    CHECK(apply_patch_tool("Ours.\n").description == "Ours.\n");
    conversation talk;
    talk.tools = {apply_patch_tool("Ours.\n")};
    CHECK(render(talk).text.find(R"({"name": "apply_patch", "description": "Ours.\n", "param)") !=
          std::string::npos);
  }

  TEST_CASE("the input of a custom call is the string in its arguments") {
    CHECK(decode(R"({"input": "a\nb"})") == "a\nb");
    CHECK(decode(R"({"input":""})").empty());
    CHECK(decode("\n{ \t\"input\"\r\n:\f \"x\"} trailing") == "x");
    CHECK(decode(R"({"input": "q\"\\\/\b\f\n\r\té日😀"})") == "q\"\\/\b\f\n\r\té日😀");
    CHECK(decode(R"({"input": "\u0041\u00e9\u65E5\ud83d\ude00!"})") == "Aé日😀!");
    CHECK(decode(R"({"input": "\u0000\u0001"})") == std::string("\0\x01", 2));
    CHECK(decode(R"({"input": "a", "input": "b"})") == "a");
    CHECK(decode(R"({"input": "a"}{"input": "b"})") == "a");
  }

  TEST_CASE("what is no escape stays as it is written") {
    CHECK(decode(R"({"input": "\x\u12g4\u"})") == R"(\x\u12g4\u)");
    CHECK(decode(R"({"input": "\ud83dx\ud83d\n\ud83d\\"})") == "\\ud83dx\\ud83d\n\\ud83d\\");
    CHECK(decode(R"({"input": "\ude00\ud83d\ud83d\ude00"})") == R"(\ude00\ud83d😀)");
    CHECK(decode(R"({"input": "\ud83d\u0041\ud83d\u00x"})") == R"(\ud83dA\ud83d\u00x)");
    CHECK(decode(R"({"input": "\ud83d\xy"})") == R"(\ud83d\xy)");
    CHECK(decode(R"({"input": "\ud83d"} tail)") == R"(\ud83d)");
    CHECK(decode("{\"input\": \"a\nb\x01\"}") == "a\nb\x01");
  }

  TEST_CASE("arguments that do not begin as expected pass unchanged") {
    for (const char* other :
         {R"({})", R"({"patch": "a\n"})", R"({"input": 1})", R"({"input": null, "x": "\n"})",
          R"("input")", R"({"in put": "x"})", R"({"input)", R"({"input": )", R"({"input" "x")",
          R"({"inputs": "x"})", "plain text", "", "  ", R"({"\u0069nput": "x"})"})
      CHECK(decode(other) == other);
  }

  TEST_CASE("input that is cut off keeps what it has, an unfinished escape as written") {
    CHECK(decode(R"({"input": "abc)") == "abc");
    CHECK(decode(R"({"input": "abc\)") == "abc\\");
    CHECK(decode(R"({"input": "abc\u65)") == "abc\\u65");
    CHECK(decode(R"({"input": "abc\ud83d)") == "abc\\ud83d");
    CHECK(decode(R"({"input": "abc\ud83d\ude0)") == "abc\\ud83d\\ude0");
  }

  TEST_CASE("white space before the text is held back up to a limit") {
    const size_t most = custom_input_decoder::max_start_bytes;
    const std::string around = R"({"input":"x"})";
    const auto padded = [&around](size_t spaces) {
      return "{" + std::string(spaces, ' ') + around.substr(1);
    };
    custom_input_decoder decoder;
    std::string out;
    decoder.push(padded(most - 1), out);
    CHECK(out == "x");
    custom_input_decoder other;
    out.clear();
    other.push(padded(most), out);
    CHECK(out == padded(most));
  }

  TEST_CASE("any text survives encoding and decoding, however the arguments are cut") {
    static const std::vector<std::string> parts = {
        "a", "\"", "\\", "\n", "\t", "\x01", "/",   "é",     "日",   "😀",
        "u", "{",  "}",  ":",  " ",  "\\u",  "\\n", "input", "\x7F", "e\xCC\x81"};
    size_t cuts = 0;
    for (uint64_t seed = 1; seed <= 400; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string text;
      for (uint32_t left = random.below(40); left > 0; --left)
        text += parts[random.below(static_cast<uint32_t>(parts.size()))];
      const std::string arguments = "{\"input\": " + test::json_string(text) + "}";
      for (const uint32_t most : {1u, 2u, 7u, 40u}) {
        CHECK(decode(arguments, [&random, &cuts, most] {
                ++cuts;
                return size_t{1} + random.below(most);
              }) == text);
      }
    }
    CHECK(cuts > 20'000);
  }

  TEST_CASE("random escapes decode the same however they are cut") {
    static const std::vector<std::string> parts = {"\\",    "u",    "d83d", "de00", "\\ud83d",
                                                   "\\ude", "00",   "\"",   "n",    "\\u0041",
                                                   "x",     "\\\\", "{\"",  "日",   "D8"};
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string arguments = random.below(8) == 0 ? "" : "{\"input\": \"";
      for (uint32_t left = random.below(14); left > 0; --left)
        arguments += parts[random.below(static_cast<uint32_t>(parts.size()))];
      decode(arguments);
    }
  }
}
