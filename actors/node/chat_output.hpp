#pragma once

#include "actors/console/terminal_text.hpp"
#include "actors/node/chat_answer.hpp"

#include <string>
#include <string_view>

namespace deepinfer::chat {

/// How an answer is shown.
struct output_style {
  bool is_terminal = false;  ///< the model's text may not steer it
  view::palette colours;
};

/// Turns the pieces of an answer into what is written to standard output, piece by piece. On a
/// terminal reasoning is dimmed and a blank line stands before the answer; elsewhere it stands
/// between `<think>` and `</think>`, each on a line of its own.
class output_text {
public:
  explicit output_text(const output_style& style) : style_(style) {}

  [[nodiscard]] std::string add(const piece& part);
  /// Closes what is open, and the last line.
  [[nodiscard]] std::string end();

private:
  [[nodiscard]] std::string shown(std::string_view text, view::tone how);
  [[nodiscard]] std::string end_reasoning();

  output_style style_;
  bool is_in_reasoning_ = false;
  bool is_line_open_ = false;
};

}  // namespace deepinfer::chat
