#include "runtime/recipe/output_parser.hpp"

#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe {

enum class output_parser::state : uint8_t {
  reasoning_lead,  // "lead": line feeds at the very start are dropped
  reasoning,
  content_lead,
  content,
  json,        // inside the JSON value (JSON mode; before it, the content states)
  json_done,   // behind it
  calls,       // inside the call block, between calls
  name,        // of the called function
  args_first,  // behind the name: no parameter yet
  args_later,  // some parameters are written
  key,         // of a parameter
  type,        // between a key and its value
  value_string,
  value_raw,  // a value that is JSON already
  plain,      // outside any conversation
  finished,
  count
};

/// A mark in the output: what happens where it ends. Of several that end at the same byte, the
/// first in its state's list counts.
struct output_parser::rule {
  enum class effect : uint8_t { skip, stop, keep, call };

  std::string text;
  state next;
  effect does = effect::skip;
  std::string_view fragment = {};       ///< argument text that the mark stands for
  bool newlines = false;                ///< line feeds directly before belong to the mark
  bool at_start = false;                ///< counts as the first byte of the state only (one byte)
  std::vector<uint32_t> fallback = {};  ///< Knuth-Morris-Pratt, from `text`
};

struct output_parser::state_rules {
  std::vector<rule> rules;
  std::array<bool, 256> interesting{};  ///< bytes with which a mark can begin

  void add(rule made) {
    const std::string& text = made.text;
    made.fallback.assign(text.size(), 0);
    for (uint32_t i = 1, k = 0; i < text.size(); ++i) {
      while (k > 0 && text[i] != text[k]) k = made.fallback[k - 1];
      if (text[i] == text[k]) ++k;
      made.fallback[i] = k;
    }
    interesting[static_cast<unsigned char>(text[0])] = true;
    if (made.newlines) interesting['\n'] = true;
    rules.push_back(std::move(made));
  }
};

struct output_parser::table {
  std::array<state_rules, static_cast<size_t>(state::count)> states;
  bool json_mode = false;

  explicit table(const parser_options& options) : json_mode(options.json_mode) {
    add_reasoning(options);
    add_content(options);
    add_calls(options);
    add_stops(state::plain, options);
  }

  state_rules& at(state which) { return states[static_cast<size_t>(which)]; }
  [[nodiscard]] const state_rules& at(state which) const {
    return states[static_cast<size_t>(which)];
  }

private:
  static constexpr std::string_view open_mark = "<｜DSML｜";
  static constexpr std::string_view close_mark = "</｜DSML｜";
  static constexpr std::string_view end_think = "</think>";
  static constexpr std::string_view fence = "```";
  using effect = rule::effect;

  void add_tools(state from, const parser_options& options) {
    if (options.parse_tool_calls)
      at(from).add({.text = std::string(open_mark), .next = state::calls, .newlines = true});
  }
  void add_lead(state from, bool lead) {
    if (lead) at(from).add({.text = "\n", .next = from, .at_start = true});
  }
  void add_stops(state from, const parser_options& options) {
    for (const std::string& stop : options.stop)
      at(from).add({.text = stop, .next = state::finished, .does = effect::stop});
  }

  void add_reasoning(const parser_options& options) {
    for (const state from : {state::reasoning_lead, state::reasoning}) {
      add_tools(from, options);
      add_lead(from, from == state::reasoning_lead);
      at(from).add({.text = std::string(end_think), .next = state::content_lead, .newlines = true});
    }
  }

  void add_content(const parser_options& options) {
    for (const state from : {state::content_lead, state::content}) {
      if (options.json_mode) {
        for (const std::string_view language : {"json\n", "\n"})
          at(from).add({.text = std::string(fence).append(language), .next = state::json});
        for (const char* begin : {"{", "["})
          at(from).add({.text = begin, .next = state::json, .does = effect::keep});
      } else {
        add_stops(from, options);
      }
      add_tools(from, options);
      add_lead(from, from == state::content_lead);
      at(from).add({.text = std::string(end_think), .next = state::content});  // a stray one
    }
    add_stops(state::json, options);
    at(state::json).add({.text = std::string("\n").append(fence), .next = state::json_done});
    add_tools(state::json_done, options);
  }

  /// Tag names behind the first mark are not checked, so the spellings of V4 and V4.1 both work.
  void add_calls(const parser_options& options) {
    at(state::calls).add({.text = "invoke name=\"", .next = state::name});
    for (const std::string_view tag : {"tool_calls>", " calls>"})
      at(state::calls).add({.text = std::string(close_mark).append(tag), .next = state::finished});
    at(state::name).add({.text = "\"", .next = state::args_first, .does = effect::call});
    for (const state from : {state::args_first, state::args_later}) {
      const bool first = from == state::args_first;
      at(from).add(
          {.text = "parameter name=\"", .next = state::key, .fragment = first ? "{\"" : ", \""});
      at(from).add(
          {.text = std::string(close_mark), .next = state::calls, .fragment = first ? "{}" : "}"});
    }
    at(state::key).add({.text = "\"", .next = state::type, .fragment = "\": "});
    at(state::type).add({.text = "true\">", .next = state::value_string, .fragment = "\""});
    at(state::type).add({.text = "false\">", .next = state::value_raw});
    if (options.repair_arguments)
      at(state::type).add({.text = ">", .next = state::value_string, .fragment = "\""});
    at(state::value_string)
        .add({.text = std::string(close_mark), .next = state::args_later, .fragment = "\""});
    at(state::value_raw).add({.text = std::string(close_mark), .next = state::args_later});
  }
};

output_parser::output_parser(const parser_options& options)
    : table_(std::make_unique<table>(options)), repair_(options.repair_arguments) {
  constexpr std::array states = {
      state::reasoning_lead, state::reasoning, state::content_lead,
      state::content,        state::calls,     state::plain};  // in the order of parser_start
  enter(states[static_cast<size_t>(options.start)]);
}

output_parser::output_parser(output_parser&&) noexcept = default;
output_parser& output_parser::operator=(output_parser&&) noexcept = default;
output_parser::~output_parser() = default;

void output_parser::enter(state next) {
  state_ = next;
  fresh_ = true;
  space_given_ = false;
  active_ = false;
  progress_.assign(table_->at(next).rules.size(), {});
}

bool output_parser::in_reasoning() const {
  return state_ == state::reasoning_lead || state_ == state::reasoning;
}

bool output_parser::in_markup() const {
  return state_ >= state::calls && state_ != state::plain;
}

const output_parser::rule* output_parser::advance(unsigned char byte) {
  const std::vector<rule>& rules = table_->at(state_).rules;
  const rule* complete = nullptr;
  active_ = false;
  for (size_t i = 0; i < rules.size() && complete == nullptr; ++i) {
    const rule& mark = rules[i];
    progress& now = progress_[i];
    const auto fits = [&mark, &now, byte] {
      return static_cast<unsigned char>(mark.text[now.matched]) == byte;
    };
    if (mark.at_start) {
      if (fresh_ && fits()) complete = &mark;
      continue;
    }
    while (now.matched > 0 && !fits()) now = {0, mark.fallback[now.matched - 1]};
    if (fits()) {
      ++now.matched;
    } else {
      now.newlines = mark.newlines && byte == '\n' ? now.newlines + 1 : 0;
    }
    if (now.matched == mark.text.size()) complete = &mark;
    active_ = active_ || now.matched + now.newlines > 0;
  }
  fresh_ = false;
  return complete;
}

size_t output_parser::undecided() const {
  size_t longest = 0;
  for (const progress& now : progress_)
    longest = std::max<size_t>(longest, now.newlines + now.matched);
  return longest;
}

void output_parser::append(std::vector<output_chunk>& out,
                           output_chunk::kind what,
                           std::string_view text) {
  if (text.empty()) return;
  if (!out.empty() && out.back().what == what && what != output_chunk::kind::call) {
    out.back().text += text;
  } else {
    out.push_back({what, std::string(text)});
  }
}

void output_parser::take_default(std::string_view bytes, std::vector<output_chunk>& out) {
  using kind = output_chunk::kind;
  if (bytes.empty()) return;
  std::string escaped;
  switch (state_) {
    case state::reasoning_lead:
    case state::reasoning:
      return append(out, kind::reasoning, bytes);
    case state::json_done:
    case state::content_lead:
    case state::content:
      if (!table_->json_mode) return append(out, kind::text, bytes);
      // Text around the JSON value is hidden; one space for each stretch keeps clients awake.
      if (!std::exchange(space_given_, true)) append(out, kind::text, " ");
      return;
    case state::json:
    case state::plain:
      return append(out, kind::text, bytes);
    case state::name:
      name_ += bytes;
      return;
    case state::key:
      if (!repair_) return append(out, kind::arguments, bytes);
      [[fallthrough]];
    case state::value_string:
      append_json_escaped(escaped, bytes);
      return append(out, kind::arguments, escaped);
    case state::value_raw:
      return append(out, kind::arguments, bytes);
    case state::calls:
    case state::args_first:
    case state::args_later:
    case state::type:
    case state::finished:
    case state::count:
      return;
  }
}

void output_parser::apply(const rule& mark, std::vector<output_chunk>& out) {
  switch (mark.does) {
    case rule::effect::skip:
      break;
    case rule::effect::stop:
      stop_sequence_ = mark.text;
      break;
    case rule::effect::keep:
      append(out, output_chunk::kind::text, mark.text);
      break;
    case rule::effect::call:
      called_ = true;
      out.push_back({output_chunk::kind::call, std::exchange(name_, {})});
      break;
  }
  append(out, output_chunk::kind::arguments, mark.fragment);
  enter(mark.next);
}

void output_parser::push(std::string_view text, std::vector<output_chunk>& out) {
  if (state_ == state::finished) return;
  size_t at = held_.size();
  size_t done = 0;
  held_ += text;
  const std::string_view all = held_;
  for (; at < all.size() && state_ != state::finished; ++at) {
    const auto byte = static_cast<unsigned char>(all[at]);
    if (!active_ && !table_->at(state_).interesting[byte]) {
      fresh_ = false;
      continue;
    }
    const rule* mark = advance(byte);
    if (mark == nullptr) continue;
    const progress& matched =
        progress_[static_cast<size_t>(mark - table_->at(state_).rules.data())];
    const size_t length = mark->at_start ? 1 : matched.newlines + matched.matched;
    take_default(all.substr(done, at + 1 - length - done), out);
    apply(*mark, out);
    done = at + 1;
  }
  if (state_ == state::finished) return held_.clear();
  const size_t certain = all.size() - undecided();
  take_default(all.substr(done, certain - done), out);
  held_.erase(0, certain);
}

void output_parser::finish(std::vector<output_chunk>& out) {
  take_default(held_, out);
  held_.clear();
}

}  // namespace deepinfer::recipe
