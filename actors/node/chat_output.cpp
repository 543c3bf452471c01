#include "actors/node/chat_output.hpp"

namespace deepinfer::chat {

std::string output_text::shown(std::string_view text, view::tone how) {
  if (text.empty()) return {};
  is_line_open_ = !text.ends_with('\n');
  if (!style_.is_terminal) return std::string{text};
  return style_.colours.paint(how, view::printable_lines(text));
}

std::string output_text::end_reasoning() {
  if (!is_in_reasoning_) return {};
  is_in_reasoning_ = false;
  std::string out = is_line_open_ ? "\n" : "";
  is_line_open_ = false;
  return out + (style_.is_terminal ? "\n" : "</think>\n\n");
}

std::string output_text::add(const piece& part) {
  std::string out;
  if (!part.reasoning.empty()) {
    if (!is_in_reasoning_) out += style_.is_terminal ? "" : "<think>\n";
    is_in_reasoning_ = true;
    out += shown(part.reasoning, view::tone::dim);
  }
  if (!part.content.empty()) {
    out += end_reasoning();
    out += shown(part.content, view::tone::plain);
  }
  return out;
}

std::string output_text::end() {
  std::string out = end_reasoning();
  if (is_line_open_) out += '\n';
  is_line_open_ = false;
  return out;
}

}  // namespace deepinfer::chat
