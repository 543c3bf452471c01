#include "actors/console/live_frame.hpp"

#include <algorithm>
#include <array>

namespace deepinfer::view {
namespace {

constexpr std::array<std::string_view, 4> page_names{"cluster", "actors", "requests", "events"};
constexpr size_t frame_lines = 4;  // title, summary, rule, keys
constexpr size_t end_of_page = static_cast<size_t>(-1) / 2;

size_t page_rows(screen_size size) {
  return size.rows > frame_lines ? size.rows - frame_lines : 1;
}

enum class key : uint8_t { none, leave, tab, up, down, page_up, page_down, home, end, digit };

struct key_press {
  key what = key::none;
  size_t bytes = 1;
};

/// The key at the start of `keys`. Escape sequences of terminals: CSI or SS3, then a letter or
/// digits and '~'.
key_press next_key(std::string_view keys) {
  constexpr std::array<std::pair<std::string_view, key>, 16> sequences{{{"\x1b[A", key::up},
                                                                        {"\x1b[B", key::down},
                                                                        {"\x1bOA", key::up},
                                                                        {"\x1bOB", key::down},
                                                                        {"\x1b[5~", key::page_up},
                                                                        {"\x1b[6~", key::page_down},
                                                                        {"\x1b[H", key::home},
                                                                        {"\x1b[F", key::end},
                                                                        {"\x1b[1~", key::home},
                                                                        {"\x1b[4~", key::end},
                                                                        {"k", key::up},
                                                                        {"j", key::down},
                                                                        {" ", key::page_down},
                                                                        {"g", key::home},
                                                                        {"G", key::end},
                                                                        {"\t", key::tab}}};
  for (const auto& [text, what] : sequences)
    if (keys.starts_with(text)) return {what, text.size()};
  const char c = keys.front();
  if (c == 'q' || c == 'Q' || c == '\x03' || c == '\x04') return {key::leave};
  if (c >= '1' && c <= '4') return {key::digit};
  if (c != '\x1b') return {};
  // an unknown sequence: its letters are no keys
  size_t end = 1;
  while (end < keys.size() && !(keys[end] >= '@' && keys[end] <= '~' && keys[end] != '[')) ++end;
  return {key::none, std::min(end + 1, keys.size())};
}

void show(live_state& state, size_t page) {
  state.page = static_cast<live_page>(page % page_names.size());
  state.scroll = 0;
}

void scroll_up(live_state& state, size_t lines) {
  state.scroll -= std::min(state.scroll, lines);
}

std::string title_line(const live_state& state, const look& how) {
  const palette& colours = how.colours;
  const std::string name = state.latest ? printable(state.latest->now.cluster) : "";
  std::string left =
      colours.paint(tone::bold, "deepinfer") + "  " + colours.paint(tone::accent, name);
  std::string right;
  if (state.trouble.empty()) {
    right = colours.paint(tone::good, "●") + " " + printable(state.source);
  } else {
    right = colours.paint(tone::bad,
                          "○ for " + short_duration(state.age_s) + ": " + printable(state.trouble));
  }
  const size_t used = display_width(left) + display_width(right) + 1;
  if (used > how.width) return clip(left + " " + right, how.width);
  return left + std::string(how.width - used + 1, ' ') + right;
}

std::string keys_line(const live_state& state, const look& how, size_t hidden) {
  std::string line;
  for (size_t i = 0; i < page_names.size(); ++i) {
    const std::string entry = std::to_string(i + 1) + " " + std::string{page_names[i]};
    const bool is_shown = static_cast<size_t>(state.page) == i;
    line += how.colours.paint(is_shown ? tone::bold : tone::dim,
                              is_shown && !how.colours.is_on ? "[" + entry + "]" : entry) +
            "  ";
  }
  line += how.colours.paint(tone::dim, "q quit");
  if (hidden > 0)
    line += how.colours.paint(tone::dim, "  ↓ " + std::to_string(hidden) + " more lines");
  return clip(line, how.width);
}

}  // namespace

live_step apply_keys(live_state& state, std::string_view keys, screen_size size) {
  const size_t page = std::max<size_t>(page_rows(size), 2) - 1;  // one line stays for orientation
  live_step step = live_step::stay;
  while (!keys.empty()) {
    const key_press press = next_key(keys);
    const char first = keys.front();
    keys.remove_prefix(press.bytes);
    if (press.what != key::none) step = live_step::redraw;
    switch (press.what) {
      case key::leave:
        return live_step::leave;
      case key::tab:
        show(state, static_cast<size_t>(state.page) + 1);
        break;
      case key::digit:
        show(state, static_cast<size_t>(first - '1'));
        break;
      case key::up:
        scroll_up(state, 1);
        break;
      case key::down:
        state.scroll += 1;
        break;
      case key::page_up:
        scroll_up(state, page);
        break;
      case key::page_down:
        state.scroll += page;
        break;
      case key::home:
        state.scroll = 0;
        break;
      case key::end:
        state.scroll = end_of_page;
        break;
      case key::none:
        break;
    }
  }
  return step;
}

std::vector<std::string> draw_page(const live_state& state, const look& how) {
  if (state.page == live_page::events) return draw_events(state.events, how);
  if (!state.latest) return {"waiting for the first answer"};
  switch (state.page) {
    case live_page::actors:
      return draw_actors(*state.latest, how);
    case live_page::requests:
      return draw_requests(*state.latest, how);
    default:
      return draw_cluster(*state.latest, how);
  }
}

std::vector<std::string> draw_frame(live_state& state, screen_size size, const palette& colours) {
  const look how{size.columns, colours};
  std::vector<std::string> page = draw_page(state, how);
  const size_t rows = page_rows(size);
  state.scroll = std::min(state.scroll, page.size() - std::min(page.size(), rows));
  const size_t shown = std::min(rows, page.size() - state.scroll);
  const size_t hidden = page.size() - state.scroll - shown;

  std::vector<std::string> out;
  out.push_back(title_line(state, how));
  out.push_back(state.latest ? summary_line(*state.latest, how) : "");
  std::string rule;
  for (size_t i = 0; i < size.columns; ++i) rule += "─";
  out.push_back(colours.paint(tone::dim, rule));
  for (size_t i = 0; i < shown; ++i) out.push_back(std::move(page[state.scroll + i]));
  out.resize(std::max<size_t>(size.rows, 1) - 1);  // a terminal of one line shows the keys
  out.push_back(keys_line(state, how, hidden));
  return out;
}

}  // namespace deepinfer::view
