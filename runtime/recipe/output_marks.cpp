#include "runtime/recipe/output_marks.hpp"

#include <utility>

namespace deepinfer::recipe {
namespace {

using state = output_state;
using effect = output_mark::effect;

std::vector<uint32_t> fallback_of(std::string_view text) {
  std::vector<uint32_t> fallback(text.size(), 0);
  for (uint32_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = fallback[k - 1];
    if (text[i] == text[k]) ++k;
    fallback[i] = k;
  }
  return fallback;
}

void note_beginning(mark_beginnings& begins, char byte, uint16_t states) {
  begins[static_cast<unsigned char>(byte)] |= states;
}

constexpr std::string_view open_mark = "<｜DSML｜";
constexpr std::string_view close_mark = "</｜DSML｜";
constexpr std::string_view end_think = "</think>";

/// Writes the table down, state by state and in the order that decides between marks.
class table_builder {
public:
  explicit table_builder(const parser_options& options)
      : tools_(options.parse_tool_calls),
        json_(options.json_mode),
        repair_(options.repair_arguments) {}

  output_marks build() && {
    add_reasoning();
    add_content();
    add_calls();
    add_parameters();
    return std::move(made_);
  }

private:
  void add(state from, output_mark mark) {
    mark.fallback = fallback_of(mark.text);
    note_beginning(made_.begins, mark.text[0], bit_of(from));
    if (mark.newlines) note_beginning(made_.begins, '\n', bit_of(from));
    made_.of_state[static_cast<size_t>(from)].push_back(std::move(mark));
  }
  void add_tools(state from) {
    if (tools_) add(from, {.text = open_mark, .next = state::calls, .newlines = true});
  }
  void add_lead(state from) { add(from, {.text = "\n", .next = from, .at_start = true}); }

  void add_reasoning() {
    for (const state from : {state::reasoning_lead, state::reasoning}) {
      add_tools(from);
      if (from == state::reasoning_lead) add_lead(from);
      add(from, {.text = end_think, .next = state::content_lead, .newlines = true});
    }
  }

  void add_content() {
    for (const state from : {state::content_lead, state::content}) {
      if (json_) {
        for (const std::string_view fence : {"```json\n", "```\n"})
          add(from, {.text = fence, .next = state::json});
        for (const std::string_view begin : {"{", "["})
          add(from, {.text = begin, .next = state::json, .does = effect::keep});
      }
      add_tools(from);
      if (from == state::content_lead) add_lead(from);
      add(from, {.text = end_think, .next = state::content});  // a stray one
    }
    add(state::json, {.text = "\n```", .next = state::json_done});
    add_tools(state::json_done);
  }

  /// Tag names behind the first mark are not checked, so the spellings of V4 and V4.1 both work.
  void add_calls() {
    add(state::calls, {.text = "invoke name=\"", .next = state::name});
    for (const std::string_view tag : {"</｜DSML｜tool_calls>", "</｜DSML｜ calls>"})
      add(state::calls, {.text = tag, .next = state::finished});
    add(state::name, {.text = "\"", .next = state::args_first, .does = effect::call});
    for (const state from : {state::args_first, state::args_later}) {
      const bool first = from == state::args_first;
      add(from,
          {.text = "parameter name=\"", .next = state::key, .fragment = first ? "{\"" : ", \""});
      add(from, {.text = close_mark, .next = state::calls, .fragment = first ? "{}" : "}"});
    }
  }

  void add_parameters() {
    add(state::key, {.text = "\"", .next = state::type, .fragment = "\": "});
    add(state::type, {.text = "true\">", .next = state::value_string, .fragment = "\""});
    add(state::type, {.text = "false\">", .next = state::value_raw});
    if (repair_) {
      add(state::key, {.text = close_mark, .next = state::args_later, .fragment = "\": null"});
      add(state::type, {.text = ">", .next = state::value_string, .fragment = "\""});
      add(state::type, {.text = close_mark, .next = state::args_later, .fragment = "null"});
    }
    add(state::value_string, {.text = close_mark, .next = state::args_later, .fragment = "\""});
    add(state::value_raw, {.text = close_mark, .next = state::args_later, .does = effect::end_raw});
  }

  const bool tools_, json_, repair_;
  output_marks made_;
};

}  // namespace

const output_marks& output_marks::shared(const parser_options& options) {
  static const std::array<output_marks, 8> all = [] {
    std::array<output_marks, 8> made;
    for (unsigned i = 0; i < made.size(); ++i) {
      parser_options of;
      of.parse_tool_calls = (i & 1) != 0;
      of.json_mode = (i & 2) != 0;
      of.repair_arguments = (i & 4) != 0;
      made[i] = table_builder(of).build();
    }
    return made;
  }();
  return all[(options.parse_tool_calls ? 1u : 0u) | (options.json_mode ? 2u : 0u) |
             (options.repair_arguments ? 4u : 0u)];
}

std::unique_ptr<const stop_marks> stop_marks::make(const parser_options& options,
                                                   const output_marks& others) {
  auto made = std::make_unique<stop_marks>();
  for (const std::string& text : options.stop)
    if (!text.empty()) made->texts.push_back(text);
  if (made->texts.empty()) return nullptr;
  made->states = bit_of(state::plain) | bit_of(state::json);
  if (!options.json_mode) made->states |= bit_of(state::content_lead) | bit_of(state::content);
  made->begins = others.begins;
  for (const std::string& text : made->texts) {
    made->marks.push_back({.text = text,
                           .next = state::finished,
                           .does = effect::stop,
                           .fallback = fallback_of(text)});
    made->first_bytes += text[0];
    note_beginning(made->begins, text[0], made->states);
  }
  return made;
}

}  // namespace deepinfer::recipe
