#include "tests/support/output_reference.hpp"

#include <cstdio>
#include <optional>

namespace deepinfer::test {
namespace {

using recipe::output_chunk;
using recipe::parser_options;
using recipe::parser_start;

const std::string open_tag = "<｜DSML｜";
const std::string close_tag = "</｜DSML｜";

/// One entry of the second column of the table.
struct pattern {
  enum what { skip, stop, emit_itself, announce, end_of_raw };

  std::string text;
  std::string next;
  what action = skip;
  std::string fragment = {};
  bool newlines = false;  // the table's `NL*X`
  bool lead = false;      // only as the very first byte of the state
};

void add_stops(std::vector<pattern>& list, const parser_options& options) {
  for (const std::string& text : options.stop)
    if (!text.empty()) list.push_back({text, "finished", pattern::stop});
}

void add_tools(std::vector<pattern>& list, const parser_options& options) {
  if (options.parse_tool_calls) list.push_back({open_tag, "calls", pattern::skip, "", true});
}

std::vector<pattern> text_patterns(const std::string& state, const parser_options& options) {
  const bool lead = state.ends_with(" lead");
  std::vector<pattern> list;
  if (state.starts_with("reasoning")) {
    add_tools(list, options);
    if (lead) list.push_back({"\n", state, pattern::skip, "", false, true});
    list.push_back({"</think>", "content lead", pattern::skip, "", true});
  } else if (state.starts_with("content")) {
    if (options.json_mode) {
      list.push_back({"```json\n", "json"});
      list.push_back({"```\n", "json"});
      list.push_back({"{", "json", pattern::emit_itself});
      list.push_back({"[", "json", pattern::emit_itself});
    } else {
      add_stops(list, options);
    }
    add_tools(list, options);
    if (lead) list.push_back({"\n", state, pattern::skip, "", false, true});
    list.push_back({"</think>", "content"});
  } else if (state == "json") {
    add_stops(list, options);
    list.push_back({"\n```", "json done"});
  } else if (state == "json done") {
    add_tools(list, options);
  } else if (state == "plain") {
    add_stops(list, options);
  }
  return list;
}

std::vector<pattern> call_patterns(const std::string& state, bool repair) {
  if (state == "calls")
    return {{"invoke name=\"", "name"},
            {close_tag + "tool_calls>", "finished"},
            {close_tag + " calls>", "finished"}};
  if (state == "name") return {{"\"", "args first", pattern::announce}};
  if (state == "args first")
    return {{"parameter name=\"", "key", pattern::skip, "{\""},
            {close_tag, "calls", pattern::skip, "{}"}};
  if (state == "args later")
    return {{"parameter name=\"", "key", pattern::skip, ", \""},
            {close_tag, "calls", pattern::skip, "}"}};
  if (state == "value string") return {{close_tag, "args later", pattern::skip, "\""}};
  if (state == "value raw") return {{close_tag, "args later", pattern::end_of_raw}};
  std::vector<pattern> list;
  if (state == "key") {
    list = {{"\"", "type", pattern::skip, "\": "}};
    if (repair) list.push_back({close_tag, "args later", pattern::skip, "\": null"});
  } else if (state == "type") {
    list = {{"true\">", "value string", pattern::skip, "\""}, {"false\">", "value raw"}};
    if (repair) {
      list.push_back({">", "value string", pattern::skip, "\""});
      list.push_back({close_tag, "args later", pattern::skip, "null"});
    }
  }
  return list;
}

struct match {
  size_t begin, end;
  pattern found;
};

/// The first pattern of the list that ends at the earliest possible byte.
std::optional<match> first_match(std::string_view text,
                                 size_t begin,
                                 const std::vector<pattern>& list) {
  for (size_t end = begin + 1; end <= text.size(); ++end)
    for (const pattern& p : list) {
      if (p.lead && end != begin + 1) continue;
      if (end - begin < p.text.size()) continue;
      size_t at = end - p.text.size();
      if (text.substr(at, p.text.size()) != p.text) continue;
      while (p.newlines && at > begin && text[at - 1] == '\n') --at;
      return match{at, end, p};
    }
  return std::nullopt;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    if (c == '"') {
      out += "\\\"";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c >= 0 && c < ' ') {
      out += code;
    } else {
      out += c;
    }
  }
  return out;
}

/// The third column: what becomes of text that no pattern claims.
output_chunk by_default(const std::string& state, const parser_options& options, std::string text) {
  using kind = output_chunk::kind;
  if (state.starts_with("reasoning")) return {kind::reasoning, text};
  if (state == "json" || state == "plain") return {kind::text, text};
  if (state.starts_with("content") || state == "json done")
    return {kind::text, options.json_mode ? " " : text};
  if (state == "value string") return {kind::arguments, escaped(text)};
  if (state == "key") return {kind::arguments, options.repair_arguments ? escaped(text) : text};
  if (state == "value raw") return {kind::arguments, text};
  return {kind::text, ""};
}

/// At most `recipe::output_parser::max_name_bytes`, without a part of a character at the end.
std::string limited_name(std::string_view name) {
  constexpr size_t most = recipe::output_parser::max_name_bytes;
  if (name.size() <= most) return std::string(name);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return std::string(name.substr(0, end));
}

std::string start_of(parser_start start) {
  switch (start) {
    case parser_start::thinking:
      return "reasoning lead";
    case parser_start::reasoning:
      return "reasoning";
    case parser_start::answer:
      return "content lead";
    case parser_start::content:
      return "content";
    case parser_start::calls:
      return "calls";
    case parser_start::plain:
      return "plain";
    case parser_start::json_value:
      return "json";
  }
  return "";
}

}  // namespace

void join_chunks(std::vector<output_chunk>& into, const std::vector<output_chunk>& more) {
  for (const output_chunk& chunk : more) {
    const bool call = chunk.what == output_chunk::kind::call;
    if (chunk.text.empty() && !call) continue;
    if (!call && !into.empty() && into.back().what == chunk.what) {
      into.back().text += chunk.text;
    } else {
      into.push_back(chunk);
    }
  }
}

parsed_output parse_by_the_table(const parser_options& options,
                                 std::string_view text,
                                 std::vector<std::string>* raw_values) {
  using kind = output_chunk::kind;
  parsed_output out;
  std::string state = start_of(options.start);
  for (size_t begin = 0; state != "finished";) {
    std::vector<pattern> list = text_patterns(state, options);
    if (list.empty()) list = call_patterns(state, options.repair_arguments);
    const auto found = first_match(text, begin, list);
    const size_t end = found ? found->begin : text.size();
    const std::string before(text.substr(begin, end - begin));
    if (!before.empty()) join_chunks(out.chunks, {by_default(state, options, before)});
    if (!found) break;
    const pattern& p = found->found;
    if (p.action == pattern::stop) out.stop = p.text;
    if (p.action == pattern::emit_itself) join_chunks(out.chunks, {{kind::text, p.text}});
    if (p.action == pattern::announce)
      join_chunks(out.chunks, {{kind::call, limited_name(before)}});
    if (p.action == pattern::end_of_raw && raw_values != nullptr) raw_values->push_back(before);
    const bool blank = before.find_first_not_of(" \t\n\r") == std::string::npos;
    if (p.action == pattern::end_of_raw && options.repair_arguments && blank)
      join_chunks(out.chunks, {{kind::arguments, "null"}});
    join_chunks(out.chunks, {{kind::arguments, p.fragment}});
    begin = found->end;
    state = p.next;
  }
  return out;
}

std::string shown(const parsed_output& output) {
  std::string text;
  for (const output_chunk& chunk : output.chunks) {
    constexpr const char* names[] = {"reasoning", "text", "call", "arguments"};
    text.append(names[static_cast<size_t>(chunk.what)])
        .append(": ")
        .append(chunk.text)
        .append("\n");
  }
  return text + "stop: " + output.stop;
}

}  // namespace deepinfer::test
