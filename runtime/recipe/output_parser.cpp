#include "runtime/recipe/output_parser.hpp"

#include "runtime/recipe/json_value.hpp"
#include "runtime/recipe/output_marks.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe {
namespace {

using kind = output_chunk::kind;
using state = output_state;

/// Where text of this kind goes on: the latest chunk, or a new one.
std::string& tail(std::vector<output_chunk>& out, kind what) {
  if (out.empty() || out.back().what != what) out.push_back({what, {}});
  return out.back().text;
}

void append(std::vector<output_chunk>& out, kind what, std::string_view text) {
  if (!text.empty()) tail(out, what) += text;
}

bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

output_parser::output_parser(const parser_options& options)
    : marks_(&output_marks::shared(options)),
      stops_(stop_marks::make(options, *marks_)),
      begins_(stops_ != nullptr ? &stops_->begins : &marks_->begins),
      repair_(options.repair_arguments),
      json_mode_(options.json_mode) {
  constexpr std::array states = {
      state::reasoning_lead, state::reasoning, state::content_lead, state::content,
      state::calls,          state::plain,     state::json};  // in the order of parser_start
  enter(states[static_cast<size_t>(options.start)]);
}

output_parser::output_parser(output_parser&&) noexcept = default;
output_parser& output_parser::operator=(output_parser&&) noexcept = default;
output_parser::~output_parser() = default;

void output_parser::enter(state next) {
  state_ = next;
  fresh_ = true;
  active_ = false;
  space_given_ = false;
  value_given_ = false;
  progress_.assign(marks_->at(next).size() + (has_stops() ? stops_->marks.size() : 0), {});
}

bool output_parser::has_stops() const {
  return stops_ != nullptr && (stops_->states & bit_of(state_)) != 0;
}

output_section output_parser::section() const {
  switch (state_) {
    case state::reasoning_lead:
    case state::reasoning:
      return output_section::reasoning;
    case state::content_lead:
    case state::content:
    case state::json_done:
      return json_mode_ ? output_section::hidden : output_section::answer;
    case state::plain:
    case state::json:
      return output_section::answer;
    case state::finished:
      return output_section::finished;
    default:
      return output_section::calls;
  }
}

bool output_parser::step(const output_mark& mark, progress& now, unsigned char byte) {
  const auto fits = [&mark, &now, byte] {
    return static_cast<unsigned char>(mark.text[now.matched]) == byte;
  };
  while (now.matched > 0 && !fits()) now = {0, mark.fallback[now.matched - 1]};
  if (fits()) return ++now.matched == mark.text.size();
  now.newlines = mark.newlines && byte == '\n' ? now.newlines + 1 : 0;
  return false;
}

output_parser::completed output_parser::advance(unsigned char byte) {
  const bool fresh = std::exchange(fresh_, false);
  active_ = false;
  auto now = progress_.begin();
  if (has_stops())
    for (const char first : stops_->first_bytes) {
      progress& stop = *now++;
      // Most of many stop sequences have not begun and do not begin here.
      if (stop.matched == 0 && static_cast<unsigned char>(first) != byte) continue;
      const output_mark& mark = stops_->marks[static_cast<size_t>(&stop - progress_.data())];
      if (step(mark, stop, byte)) return {&mark, mark.text.size()};
      active_ = active_ || stop.matched > 0;
    }
  for (const output_mark& mark : marks_->at(state_)) {
    if (mark.at_start) {
      if (fresh && byte == static_cast<unsigned char>(mark.text[0])) return {&mark, 1};
    } else if (step(mark, *now, byte)) {
      return {&mark, now->newlines + now->matched};
    }
    active_ = active_ || now->matched + now->newlines > 0;
    ++now;
  }
  return {};
}

output_parser::held_back output_parser::undecided() const {
  held_back longest;
  if (!active_) return longest;
  auto now = progress_.begin();
  const auto look_at = [&longest, &now](const std::vector<output_mark>& marks) {
    for (const output_mark& mark : marks) {
      const held_back here{&mark, *now++};
      if (here.size() > longest.size()) longest = here;
    }
  };
  if (has_stops()) look_at(stops_->marks);
  look_at(marks_->at(state_));
  return longest;
}

void output_parser::push(std::string_view text, std::vector<output_chunk>& out) {
  uint16_t here = bit_of(state_);
  const size_t before = held_.size();
  size_t done = 0;  // bytes, those held back included, that are dealt with
  for (size_t i = 0; i < text.size() && state_ != state::finished; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (!active_ && ((*begins_)[byte] & here) == 0) {
      fresh_ = false;
      continue;
    }
    const completed found = advance(byte);
    if (found.mark == nullptr) continue;
    const size_t end = before + i + 1;
    release(done, end - found.bytes, text, out);
    apply(*found.mark, out);
    here = bit_of(state_);
    done = end;
  }
  const held_back next = undecided();
  release(done, before + text.size() - next.size(), text, out);
  held_ = next;
}

void output_parser::finish(std::vector<output_chunk>& out) {
  release(0, held_.size(), {}, out);
  held_ = {};
}

void output_parser::release(size_t begin,
                            size_t end,
                            std::string_view text,
                            std::vector<output_chunk>& out) {
  const size_t held = held_.size();
  if (begin < held) {  // then all of it is still to do: a mark ends in `text`
    const size_t newlines = std::min(end, held_.begun.newlines);
    if (newlines > 0) take_default(std::string(newlines, '\n'), out);
    take_default(held_.mark->text.substr(0, std::min(end, held) - newlines), out);
    begin = std::min(end, held);
  }
  if (begin < end) take_default(text.substr(begin - held, end - begin), out);
}

void output_parser::take_default(std::string_view bytes, std::vector<output_chunk>& out) {
  if (bytes.empty()) return;
  switch (state_) {
    case state::reasoning_lead:
    case state::reasoning:
      return append(out, kind::reasoning, bytes);
    case state::json_done:
    case state::content_lead:
    case state::content:
      if (!json_mode_) return append(out, kind::text, bytes);
      // Text around the JSON value is hidden; one space for each stretch keeps clients awake.
      if (!std::exchange(space_given_, true)) append(out, kind::text, " ");
      return;
    case state::json:
    case state::plain:
      return append(out, kind::text, bytes);
    case state::name:
      return take_name(bytes);
    case state::key:
      if (!repair_) return append(out, kind::arguments, bytes);
      [[fallthrough]];
    case state::value_string:
      return append_json_escaped(tail(out, kind::arguments), bytes);
    case state::value_raw:
      value_given_ = value_given_ || !std::all_of(bytes.begin(), bytes.end(), is_json_space);
      return append(out, kind::arguments, bytes);
    case state::calls:
    case state::args_first:
    case state::args_later:
    case state::type:
    case state::finished:
      return;
  }
}

void output_parser::take_name(std::string_view bytes) {
  name_ +=
      bytes.substr(0, max_name_bytes + 1 - name_.size());  // one more shows that it is too long
}

void output_parser::announce_call(std::vector<output_chunk>& out) {
  called_ = true;
  if (name_.size() > max_name_bytes) {
    size_t end = max_name_bytes;
    while (end > 0 && (static_cast<unsigned char>(name_[end]) & 0xC0) == 0x80) --end;
    name_.resize(end);  // between characters
  }
  out.push_back({kind::call, std::exchange(name_, {})});
}

void output_parser::apply(const output_mark& mark, std::vector<output_chunk>& out) {
  switch (mark.does) {
    case output_mark::effect::skip:
      break;
    case output_mark::effect::stop:
      stop_sequence_ = mark.text;
      break;
    case output_mark::effect::keep:
      append(out, kind::text, mark.text);
      break;
    case output_mark::effect::call:
      announce_call(out);
      break;
    case output_mark::effect::end_raw:
      if (repair_ && !value_given_) append(out, kind::arguments, "null");
      break;
  }
  append(out, kind::arguments, mark.fragment);
  enter(mark.next);
}

}  // namespace deepinfer::recipe
