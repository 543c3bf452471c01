#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// Turns the argument JSON of a custom tool call, `{"input": "..."}`, into the text of `input`
/// while it comes in, in parts of any size; the joined text does not depend on the cuts. It repairs
/// nothing and refuses nothing: a beginning that does not match makes everything pass unchanged, an
/// escape that is none stays as it is written, and what follows the closing quote is dropped.
class custom_input_decoder {
public:
  /// More white space than this before the text is no match: the bytes held back are bounded.
  static constexpr size_t max_start_bytes = 4096;

  /// Appends to `out` what `arguments` decides.
  void push(std::string_view arguments, std::string& out);

  /// The arguments are over: an unfinished beginning or escape passes as it is.
  void finish(std::string& out);

private:
  enum class state : uint8_t { start, text, escape, passing, done };

  void take_start(char c, std::string& out);
  void take_escape(char c, std::string& out);
  /// One complete `\uXXXX`, or two, in `held_`.
  void take_code_units(std::string& out);
  /// The first `bytes` held are no escape after all.
  void pass(size_t bytes, std::string& out);

  state state_ = state::start;
  uint8_t matched_ = 0;  // characters of the beginning, without white space
  std::string held_;     // as written: the beginning, or an escape (at most 12 bytes)
};

}  // namespace deepinfer::recipe
