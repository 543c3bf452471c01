#include "runtime/recipe/output_parser.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

using kind = output_chunk::kind;

/// What an output came to: all chunks of a kind joined, calls one by one.
struct parsed {
  std::string reasoning, text, stop;
  std::vector<std::pair<std::string, std::string>> calls;

  friend bool operator==(const parsed&, const parsed&) = default;
};

void collect(parsed& into, const std::vector<output_chunk>& chunks) {
  for (const output_chunk& chunk : chunks) switch (chunk.what) {
      case kind::reasoning:
        into.reasoning += chunk.text;
        break;
      case kind::text:
        into.text += chunk.text;
        break;
      case kind::call:
        into.calls.push_back({chunk.text, {}});
        break;
      case kind::arguments:
        REQUIRE_FALSE(into.calls.empty());
        into.calls.back().second += chunk.text;
        break;
    }
}

/// Feeds the parts of `output` that `next_size` asks for.
template <class NextSize>
parsed feed(const parser_options& options, std::string_view output, NextSize&& next_size) {
  output_parser parser(options);
  parsed made;
  while (!output.empty()) {
    const size_t size = std::min<size_t>(output.size(), next_size());
    std::vector<output_chunk> chunks;
    parser.push(output.substr(0, size), chunks);
    collect(made, chunks);
    output.remove_prefix(size);
  }
  std::vector<output_chunk> chunks;
  parser.finish(chunks);
  collect(made, chunks);
  made.stop = parser.stop_sequence();
  CHECK(parser.called() == !made.calls.empty());
  return made;
}

/// The result, after checking that no way of cutting the text changes it.
parsed parse(const parser_options& options, std::string_view output) {
  const parsed whole = feed(options, output, [] { return size_t{1} << 30; });
  CHECK(feed(options, output, [] { return size_t{1}; }) == whole);
  for (size_t cut = 1; cut < output.size(); ++cut) {
    bool first = true;
    const auto sizes = [&first, cut] {
      return std::exchange(first, false) ? cut : size_t{1} << 30;
    };
    if (!(feed(options, output, sizes) == whole)) {
      CAPTURE(cut);
      FAIL_CHECK("cutting in two changes the result");
    }
  }
  return whole;
}

parser_options answer() {
  return {};
}
parser_options thinking() {
  parser_options options;
  options.start = parser_start::thinking;
  return options;
}
parser_options with_tools(parser_options options = {}) {
  options.parse_tool_calls = true;
  return options;
}
parser_options with_stops(std::vector<std::string> stops, parser_options options = {}) {
  options.stop = std::move(stops);
  return options;
}

std::string parameter(std::string_view key, std::string_view is_string, std::string_view value) {
  return "<｜DSML｜ parameter name=\"" + std::string(key) + "\" string=\"" +
         std::string(is_string) + "\">" + std::string(value) + "</｜DSML｜ parameter>\n";
}

std::string invoke(std::string_view name, std::string_view parameters) {
  return "<｜DSML｜ invoke name=\"" + std::string(name) + "\">\n" + std::string(parameters) +
         "</｜DSML｜ invoke>\n";
}

std::string block(std::string_view calls) {
  return "\n\n<｜DSML｜ calls>\n" + std::string(calls) + "</｜DSML｜ calls>";
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("reasoning ends at its tag, and line feeds around it are dropped") {
    CHECK(parse(thinking(), "\n\nabc\n\n</think>\n\nhi\n") == parsed{"abc", "hi\n", "", {}});
    CHECK(parse(thinking(), "a</think>b</think>c") == parsed{"a", "bc", "", {}});
    CHECK(parse(thinking(), "</think>x") == parsed{"", "x", "", {}});
    CHECK(parse(answer(), "</think>\n\nb") == parsed{"", "\n\nb", "", {}});
    CHECK(parse(answer(), "\n\nb\n\nc") == parsed{"", "b\n\nc", "", {}});
  }

  TEST_CASE("output that ends early is what it looks like") {
    CHECK(parse(thinking(), "abc</thi") == parsed{"abc</thi", "", "", {}});
    CHECK(parse(thinking(), "abc\n\n") == parsed{"abc\n\n", "", "", {}});
    CHECK(parse(with_tools(), "abc\n<｜DSM") == parsed{"", "abc\n<｜DSM", "", {}});
    CHECK(parse(answer(), "") == parsed{});
  }

  TEST_CASE("output continues inside the reasoning or the answer that the prompt began") {
    parser_options options;
    options.start = parser_start::reasoning;
    CHECK(parse(options, "\nr</think>\nc") == parsed{"\nr", "c", "", {}});
    options.start = parser_start::content;
    CHECK(parse(options, "\nc") == parsed{"", "\nc", "", {}});
  }

  TEST_CASE("calls become names and JSON arguments") {
    const std::string two = invoke("f", parameter("a", "true", "x")) + invoke("g", "\n");
    CHECK(parse(with_tools(), "ok" + block(two)) ==
          parsed{"", "ok", "", {{"f", "{\"a\": \"x\"}"}, {"g", "{}"}}});
    const std::string mixed = parameter("n", "false", "1.5") + parameter("s", "true", "1.5") +
                              parameter("o", "false", "{\"k\": [1]}");
    CHECK(parse(with_tools(), block(invoke("f", mixed))).calls[0].second ==
          "{\"n\": 1.5, \"s\": \"1.5\", \"o\": {\"k\": [1]}}");
    // Text behind the block is no part of the answer.
    CHECK(parse(with_tools(), block(two) + "\nmore").text.empty());
    CHECK(parse(with_tools(thinking()), "plan" + block(invoke("f", ""))) ==
          parsed{"plan", "", "", {{"f", "{}"}}});
  }

  TEST_CASE("string values are escaped, byte by byte") {
    const auto made =
        parse(with_tools(), block(invoke("f", parameter("a", "true", "q\"\\\n\t\x01日<｜DSM"))));
    REQUIRE(made.calls.size() == 1);
    CHECK(made.calls[0].second == "{\"a\": \"q\\\"\\\\\\n\\t\\u0001日<｜DSM\"}");
    CHECK(test::string_member(test::read_json(made.calls[0].second), "a") ==
          "q\"\\\n\t\x01日<｜DSM");
  }

  TEST_CASE("recorded outputs mean what is recorded with them") {
    const auto lines = test::read_source_lines("tests/golden/recipe/calls.jsonl");
    REQUIRE(lines.size() == 10);
    for (const std::string& line : lines) {
      const json_value golden = test::read_json(line);
      const std::string name = test::string_member(golden, "name");
      CAPTURE(name);
      const parsed made = parse(with_tools(), test::string_member(golden, "raw"));
      CHECK(made.text == test::string_member(golden, "text"));
      const auto& calls = *test::member(golden, "calls").as<json_array>();
      REQUIRE(made.calls.size() == calls.size());
      for (size_t i = 0; i < calls.size(); ++i) {
        CHECK(made.calls[i].first == test::string_member(calls[i], "name"));
        CHECK(test::spaced(test::read_json(made.calls[i].second)) ==
              test::spaced(test::member(calls[i], "arguments")));
      }
    }
  }

  TEST_CASE("markup is text where no tools are declared, and so is what only resembles it") {
    const std::string call = block(invoke("f", ""));
    CHECK(parse(answer(), "x" + call).text == "x" + call);
    CHECK(parse(with_tools(), "a <｜DSML～ b").text == "a <｜DSML～ b");
    CHECK(parse(with_tools(), "a\n\n<b").text == "a\n\n<b");
    CHECK(parse(with_tools(), "\xEF\xBD <<<｜DSML").text == "\xEF\xBD <<<｜DSML");
  }

  TEST_CASE("a call cut off by the limit keeps what it has") {
    const std::string open = "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n";
    CHECK(parse(with_tools(), open + "<｜DSML｜ parameter name=\"location\" string=\"true\">Par") ==
          parsed{"", "", "", {{"f", "{\"location\": \"Par"}}});
    CHECK(parse(with_tools(), "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_w").calls.empty());
  }

  TEST_CASE("a parameter without its kind is lost, or repaired on request") {
    const std::string call =
        block(invoke("f", "<｜DSML｜ parameter name=\"a\\\">x</｜DSML｜ parameter>\n"));
    CHECK(parse(with_tools(), call).calls[0].second == "{\"a\\\": ");
    parser_options repair = with_tools();
    repair.repair_arguments = true;
    CHECK(parse(repair, call).calls[0].second == "{\"a\\\\\": \"x\"}");
    const auto repaired = [&repair](std::string_view parameters) {
      return parse(repair, block(invoke("f", parameters))).calls.at(0).second;
    };
    const std::string open = "<｜DSML｜ parameter name=\"", close = "</｜DSML｜ parameter>\n";
    // An unknown kind is a string, too, and so is one in other quotes.
    CHECK(repaired(parameter("a", "maybe", "1")) == "{\"a\": \"1\"}");
    CHECK(repaired(open + "a\" string=false>1" + close) == "{\"a\": \"1\"}");
    // No value at all, and no end of the name, are null.
    CHECK(repaired(parameter("a", "false", "") + parameter("b", "false", " \n")) ==
          "{\"a\": null, \"b\":  \nnull}");
    CHECK(repaired(open + "a\"" + close + parameter("b", "false", "2")) ==
          "{\"a\": null, \"b\": 2}");
    CHECK(repaired(open + "a" + close) == "{\"a\": null}");
    // What is complete stays as it was, and what is cut off stays cut off.
    CHECK(repaired(parameter("a", "false", "1") + parameter("b", "true", "")) ==
          "{\"a\": 1, \"b\": \"\"}");
    CHECK(parse(repair, "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\">" + open + "a")
              .calls.at(0)
              .second == "{\"a");
  }

  TEST_CASE("malformed markup is read as far as it goes") {
    const auto with = [](std::string_view output) { return parse(with_tools(), output); };
    // Tag names behind the first mark are not checked.
    CHECK(with("a\n<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"></｜DSML｜invoke>"
               "</｜DSML｜function_calls>b") == parsed{"", "a", "", {{"f", "{}"}}});
    // A call that is not closed ends with the block; text behind is dropped as in any block.
    CHECK(with("<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\">" + parameter("a", "true", "x") +
               "</｜DSML｜tool_calls>more") == parsed{"", "", "", {{"f", "{\"a\": \"x\"}"}}});
    // The first closing mark ends a value, and then the next one the call.
    CHECK(with(block(
              invoke("f", parameter("a", "true", "x</｜DSML｜y") + parameter("b", "true", "z")))) ==
          parsed{"", "", "", {{"f", "{\"a\": \"x\"}"}}});
    // A name without its quote goes on to the next quote, and so does a key.
    CHECK(with("<｜DSML｜ calls><｜DSML｜ invoke name=\"f>\n<｜DSML｜ parameter name=\"a\" "
               "string=\"true\">x</｜DSML｜ parameter>") ==
          parsed{"", "", "", {{"f>\n<｜DSML｜ parameter name=", "{}"}}});
    CHECK(with(block(invoke("f", "<｜DSML｜ parameter name=\"a string=\"true\">x</｜DSML｜ p>")))
              .calls.at(0)
              .second == "{\"a string=\": \"x\"}");
    // The same key twice, a name of nothing, text between the tags, calls without any.
    CHECK(with(block(
              invoke("", parameter("a", "false", "1") + "noise" + parameter("a", "false", "2")) +
              "noise")) == parsed{"", "", "", {{"", "{\"a\": 1, \"a\": 2}"}}});
    CHECK(with("x" + block("")) == parsed{"", "x", "", {}});
    CHECK(with("x<｜DSML｜never anything") == parsed{"", "x", "", {}});
    // The block may begin again before it has ended.
    CHECK(with("<｜DSML｜ calls>" + block(invoke("f", ""))) == parsed{"", "", "", {{"f", "{}"}}});
  }

  TEST_CASE("plain text has no marks but the stop sequences") {
    parser_options options = with_tools(with_stops({"END"}));
    options.start = parser_start::plain;
    options.json_mode = true;
    const std::string marks = "\n\n</think>\n<｜DSML｜ calls>\n```json\n{";
    CHECK(parse(options, marks + "\nENDx") == parsed{"", marks + "\n", "END", {}});
  }

  TEST_CASE("an empty stop sequence does not count") {
    CHECK(parse(with_stops({"", "b", ""}), "abc") == parsed{"", "a", "b", {}});
    CHECK(parse(with_stops({""}), "abc") == parsed{"", "abc", "", {}});
  }

  TEST_CASE("the section tells what the next byte belongs to") {
    output_parser parser(with_tools(thinking()));
    std::vector<output_chunk> chunks;
    const auto behind = [&](std::string_view text) {
      parser.push(text, chunks);
      return parser.section();
    };
    CHECK(parser.section() == output_section::reasoning);
    CHECK(behind("a\n</thi") == output_section::reasoning);
    CHECK(behind("nk>") == output_section::answer);
    CHECK_FALSE(parser.in_reasoning());
    CHECK(behind("b\n<｜DSML｜") == output_section::calls);
    CHECK(behind(" invoke name=\"f\">" + parameter("a", "true", "x")) == output_section::calls);
    CHECK(behind("</｜DSML｜ invoke></｜DSML｜ calls>") == output_section::finished);
    CHECK_FALSE(parser.stopped());
    chunks.clear();
    CHECK(behind("b") == output_section::finished);
    parser.finish(chunks);
    CHECK(chunks.empty());
  }

  TEST_CASE("the section tells what JSON mode hides") {
    parser_options options = with_tools();
    options.json_mode = true;
    output_parser parser(options);
    std::vector<output_chunk> chunks;
    const auto behind = [&](std::string_view text) {
      parser.push(text, chunks);
      return parser.section();
    };
    CHECK(parser.section() == output_section::hidden);
    CHECK(behind("Here: ") == output_section::hidden);
    CHECK_FALSE(parser.is_shown());
    CHECK(behind("```json\n") == output_section::answer);
    CHECK(behind("{}") == output_section::answer);
    CHECK(behind("\n```") == output_section::hidden);
    CHECK(behind("<｜DSML｜") == output_section::calls);
  }

  TEST_CASE("a name is kept up to its limit, and never half a character of it") {
    const size_t most = output_parser::max_name_bytes;
    const auto name_of = [](const std::string& name) {
      return parse(with_tools(), "<｜DSML｜ calls><｜DSML｜ invoke name=\"" + name + "\">")
          .calls.at(0)
          .first;
    };
    CHECK(name_of(std::string(most, 'n')) == std::string(most, 'n'));
    CHECK(name_of(std::string(most + 1, 'n')) == std::string(most, 'n'));
    CHECK(name_of(std::string(most - 3, 'n') + "日") == std::string(most - 3, 'n') + "日");
    CHECK(name_of(std::string(most - 2, 'n') + "日") == std::string(most - 2, 'n'));
    CHECK(name_of(std::string(most - 3, 'n') + "\uFFFD") == std::string(most - 3, 'n') + "\uFFFD");
  }

  TEST_CASE("a stop sequence ends the visible answer, the first in the list at each byte") {
    CHECK(parse(with_stops({"STOP"}), "abcSTOPdef") == parsed{"", "abc", "STOP", {}});
    CHECK(parse(with_stops({"B", "AB"}), "xABy") == parsed{"", "xA", "B", {}});
    CHECK(parse(with_stops({"AB", "B"}), "xABy") == parsed{"", "x", "AB", {}});
    CHECK(parse(with_stops({"aab"}), "aaab") == parsed{"", "a", "aab", {}});
    CHECK(parse(with_stops({"abcabd"}), "abcabcabd!") == parsed{"", "abc", "abcabd", {}});
    CHECK(parse(with_stops({"日本"}), "今日日本語") == parsed{"", "今日", "日本", {}});
    CHECK(parse(with_stops({"\n"}), "\n\nx") == parsed{"", "", "\n", {}});
  }

  TEST_CASE("stop sequences do not apply to reasoning or to calls") {
    CHECK(parse(with_stops({"x"}, thinking()), "axb</think>cxd") == parsed{"axb", "c", "x", {}});
    const auto made = parse(with_tools(with_stops({"x", "invoke"})),
                            "a" + block(invoke("f", parameter("k", "true", "x"))));
    CHECK(made == parsed{"", "a", "", {{"f", "{\"k\": \"x\"}"}}});
  }

  TEST_CASE("JSON mode shows the first JSON value, and one space for each hidden stretch") {
    parser_options json;
    json.json_mode = true;
    CHECK(parse(json, "Here:\n```json\n{\"a\": 1}\n```\nDone").text == " {\"a\": 1} ");
    CHECK(parse(json, "pre {\"a\":1} post").text == " {\"a\":1} post");
    CHECK(parse(json, "[1]").text == "[1]");
    CHECK(parse(json, "\n\n```\n[1]\n```").text == "[1]");
    CHECK(parse(with_stops({"]"}, json), "x] [1]").text == " [1");
    json.start = parser_start::json_value;
    CHECK(parse(json, "1, \"b\": [2]}\n```\nDone").text == "1, \"b\": [2]} ");
    json.start = parser_start::thinking;
    CHECK(parse(json, "think {}</think>{}") == parsed{"think {}", "{}", "", {}});
  }

  TEST_CASE("an output may begin inside a call block") {
    parser_options options = with_tools();
    options.start = parser_start::calls;
    CHECK(parse(options, "<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>") ==
          parsed{"", "", "", {{"f", "{}"}}});
  }

  TEST_CASE("what is certain is released at once, what may be a mark is not") {
    output_parser parser(with_tools(with_stops({"END"})));
    const auto push = [&parser](std::string_view text) {
      std::vector<output_chunk> chunks;
      parser.push(text, chunks);
      std::string joined;
      for (const output_chunk& chunk : chunks) joined += chunk.text;
      return joined;
    };
    CHECK(push("Hello <") == "Hello ");
    CHECK(push("b") == "<b");
    CHECK(push("x\n\n") == "x");
    CHECK(push("y EN") == "\n\ny ");
    CHECK(push("<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n").starts_with("EN"));
    CHECK(push("<｜DSML｜ parameter name=\"loc") == "{\"loc");
    CHECK(push("ation\" string=\"true\">Par") == "ation\": \"Par");
    CHECK(push("is</") == "is");
    CHECK(push("b\"") == "</b\\\"");
    CHECK(push("</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"n\" string=\"false\">[1,") ==
          "\", \"n\": [1,");
    CHECK(push(" 2]</｜DSML｜ parameter>\n</｜DSML｜ invoke>") == " 2]}");
  }

  TEST_CASE("what follows a stop sequence is not read") {
    output_parser parser(with_stops({"END"}));
    const auto push = [&parser](std::string_view text) {
      std::vector<output_chunk> chunks;
      parser.push(text, chunks);
      std::string joined;
      for (const output_chunk& chunk : chunks) joined += chunk.text;
      return joined;
    };
    CHECK(push("y EN") == "y ");
    CHECK(push("ENDING") == "EN");
    CHECK(parser.stopped());
    CHECK(push("more").empty());
  }

  TEST_CASE("random outputs made of marks parse the same however they are cut") {
    static const std::vector<std::string> parts = {"<｜DSML｜",
                                                   "</｜DSML｜",
                                                   " calls>",
                                                   "tool_calls>",
                                                   " invoke name=\"",
                                                   "invoke name=\"",
                                                   "\"",
                                                   " parameter name=\"",
                                                   " string=\"true\">",
                                                   " string=\"false\">",
                                                   "</think>",
                                                   "<think>",
                                                   "\n",
                                                   "\n\n",
                                                   "<",
                                                   "</",
                                                   "｜",
                                                   "a",
                                                   "STOP",
                                                   "ST",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "```",
                                                   "```json\n",
                                                   "日",
                                                   "\\",
                                                   ">"};
    for (uint64_t seed = 1; seed <= 1500; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      parser_options options;
      options.start = static_cast<parser_start>(random.below(5));
      options.parse_tool_calls = random.below(4) != 0;
      options.json_mode = random.below(4) == 0;
      options.repair_arguments = random.below(2) == 0;
      if (random.below(2) == 0) options.stop = {"STOP", "T\n", "</th"};
      std::string output;
      for (uint32_t left = random.below(30); left > 0; --left)
        output += parts[random.below(static_cast<uint32_t>(parts.size()))];
      const parsed whole = feed(options, output, [] { return size_t{1} << 30; });
      for (const uint32_t most : {1u, 3u, 9u})
        CHECK(feed(options, output, [&random, most] { return 1 + random.below(most); }) == whole);
    }
  }
}
