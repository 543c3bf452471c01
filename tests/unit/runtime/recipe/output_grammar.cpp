#include "tests/unit/runtime/recipe/output_grammar.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer::test {
namespace {

const std::vector<std::string> pieces = {"word",
                                         " and",
                                         " the ",
                                         "\n",
                                         "\n\n",
                                         "\n\n\n\n",
                                         " ",
                                         ".",
                                         "你好",
                                         "，世界",
                                         "日本語",
                                         "안녕",
                                         "مرحبا",
                                         "😀",
                                         "👩‍👩‍👧‍👦",
                                         "🇩🇪",
                                         "e\u0301",
                                         "n\u0303\u0323",
                                         "\uFFFD",
                                         "｜",
                                         "＜",
                                         "～",
                                         "<",
                                         "</",
                                         "<｜",
                                         "</｜",
                                         "<｜DSML",
                                         "<｜DSML～",
                                         "｜DSML｜",
                                         "DSML",
                                         "</think",
                                         "<think>",
                                         "</thinker>",
                                         "<<<",
                                         "\"",
                                         "\\",
                                         "\t",
                                         "\r\n",
                                         "`",
                                         "``",
                                         "```",
                                         "```json",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "STOP",
                                         "STO",
                                         "END",
                                         "invoke name=",
                                         "parameter name=",
                                         "true\">",
                                         "calls>",
                                         "\x01",
                                         "\x7F",
                                         "<tool_result>",
                                         "<｜User｜>",
                                         "x = 1;\n",
                                         "  indented\n",
                                         "---",
                                         "null",
                                         std::string(1, '\0')};

const std::vector<std::string> marks = {"</think>",   "<｜DSML｜", "</｜DSML｜", "\n\n<｜DSML｜",
                                        "\n</think>", "```json\n", "\n```",      "```\n",
                                        "\">",        "\"",        "｜DSML｜"};

bool is_character_border(const std::string& text, size_t at) {
  return at == text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

}  // namespace

const std::string& output_grammar::pick(const std::vector<std::string>& from) {
  return from[random_.below(static_cast<uint32_t>(from.size()))];
}

std::string output_grammar::words(uint32_t most) {
  std::string text;
  for (uint32_t left = random_.below(most + 1); left > 0; --left) text += pick(pieces);
  return text;
}

/// Usually the mark as it is; else without one of its characters, cut short, or doubled.
std::string output_grammar::damaged(std::string mark) {
  if (!one_in(24)) return mark;
  size_t at = random_.below(static_cast<uint32_t>(mark.size()));
  while (!is_character_border(mark, at)) --at;
  size_t end = at + 1;
  while (!is_character_border(mark, end)) ++end;
  switch (random_.below(3)) {
    case 0:
      return mark.erase(at, end - at);
    case 1:
      return mark.substr(0, at);
    default:
      return mark + mark;
  }
}

std::string output_grammar::parameter(const std::string& space) {
  static const std::vector<std::string> keys = {
      "location", "shipping address", " string= mode ", "", "日付", "a\\b", "k", "input"};
  static const std::vector<std::string> values = {
      "1", "-1.5e-07", "true", "null", "[1, \"a\"]", "{\"k\": {}}", "", " \n", "{broken"};
  static const std::vector<std::string> kinds = {" string=\"true\">",
                                                 " string=\"true\">",
                                                 " string=\"true\">",
                                                 " string=\"false\">",
                                                 " string=\"false\">",
                                                 " string=\"maybe\">",
                                                 ">",
                                                 " string=true>",
                                                 ""};
  const std::string& kind = pick(kinds);
  const bool raw = kind.find("false") != std::string::npos;
  return damaged("<｜DSML｜" + space + "parameter name=\"") + pick(keys) + damaged("\"") + kind +
         (raw ? pick(values) : words(8)) + damaged("</｜DSML｜" + space + "parameter>") +
         (one_in(4) ? words(2) : "\n");
}

std::string output_grammar::call(const std::string& space) {
  static const std::vector<std::string> names = {
      "get_weather", "weather::current", "apply_patch", "f", "", "検索"};
  std::string text = damaged("<｜DSML｜" + space + "invoke name=\"") + pick(names) +
                     damaged("\">") + (one_in(4) ? "" : "\n");
  for (uint32_t left = random_.below(4); left > 0; --left) text += parameter(space);
  return text + damaged("</｜DSML｜" + space + "invoke>") + (one_in(4) ? words(2) : "\n");
}

std::string output_grammar::block() {
  const bool v4 = one_in(2);
  const std::string space = v4 ? "" : " ";
  const std::string tag = one_in(12) ? "function_calls" : v4 ? "tool_calls" : "calls";
  std::string text = std::string(random_.below(4), '\n') +
                     damaged("<｜DSML｜" + space + tag + ">") + (one_in(4) ? "" : "\n");
  for (uint32_t left = random_.below(4); left > 0; --left) text += call(space);
  return text + damaged("</｜DSML｜" + space + tag + ">");
}

std::string output_grammar::json_answer() {
  static const std::vector<std::string> values = {"{\"a\": 1}", "[1, {\"b\": \"]\"}]", "{}", "{",
                                                  "\"text\""};
  const bool fenced = one_in(2);
  return words(3) + (fenced ? damaged(one_in(2) ? "```json\n" : "```\n") : "") + pick(values) +
         (fenced ? damaged("\n```") : "") + words(3);
}

std::string output_grammar::stop_for(const std::string& text) {
  static const std::vector<std::string> fixed = {"STOP", "END", "\n\n",     "T",
                                                 "ＡＢ", "</",  "<｜DSML｜"};
  if (text.empty() || one_in(3)) return one_in(3) ? pick(marks) : pick(fixed);
  size_t begin = random_.below(static_cast<uint32_t>(text.size()));
  while (!is_character_border(text, begin)) --begin;
  size_t end = std::min<size_t>(text.size(), begin + 1 + random_.below(9));
  while (!is_character_border(text, end)) ++end;
  return text.substr(begin, end - begin);
}

recipe::parser_options output_grammar::options_for(const std::string& text) {
  recipe::parser_options options;
  using start = recipe::parser_start;
  constexpr std::array starts = {start::thinking,  start::thinking, start::answer, start::answer,
                                 start::reasoning, start::content,  start::calls,  start::plain};
  options.start = starts[random_.below(starts.size())];
  options.parse_tool_calls = !one_in(6);
  options.json_mode = one_in(5);
  if (options.json_mode && one_in(3)) options.start = start::json_value;
  options.repair_arguments = one_in(2);
  if (one_in(3))
    for (uint32_t left = 1 + random_.below(4); left > 0; --left)
      options.stop.push_back(stop_for(text));
  return options;
}

made_output output_grammar::next() {
  std::string text;
  for (uint32_t left = 1 + random_.below(4); left > 0; --left) {
    switch (random_.below(7)) {
      case 0:
      case 1:
        text += words(8) + damaged(std::string(random_.below(3), '\n') + "</think>");
        break;
      case 2:
      case 3:
        text += block();
        break;
      case 4:
        text += json_answer();
        break;
      case 5:
        text += pick(marks);
        break;
      default:
        text += words(10);
    }
  }
  if (one_in(6)) {
    size_t end = random_.below(static_cast<uint32_t>(text.size() + 1));
    while (!is_character_border(text, end)) --end;
    text.resize(end);
  }
  return {options_for(text), std::move(text)};
}

}  // namespace deepinfer::test
