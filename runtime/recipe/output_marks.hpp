#pragma once

#include "runtime/recipe/output_parser.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::recipe {

/// What the published format leaves open, and what holds here:
/// * JSON mode writes one space for each stretch of hidden text, however that was cut.
/// * A stray `</think>` ends such a stretch; it is dropped wherever it stands in an answer.
/// * Everything in a call block that is no name, key or value is dropped, the block may begin again
///   inside itself, and any `</｜DSML｜` closes what is innermost: a value, else a call.
/// * A call or a key whose closing quote is missing goes on to the next quote.
/// * Keys may repeat and names may be empty; nothing is compared with the declared tools.
/// * A call counts once its name is complete, though its arguments may be cut off.
/// * Nothing in the text is checked to be UTF-8: the decoder in front replaces what is not.
enum class output_state : uint8_t {
  reasoning_lead,  // "lead": line feeds at the very start are dropped
  reasoning,
  content_lead,
  content,
  plain,       // text without marks
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
  finished,
};
inline constexpr size_t output_state_count = 16;

/// A mark in the output: what happens where it ends. Of several that end at the same byte, the
/// first in its state's list counts.
struct output_mark {
  enum class effect : uint8_t { skip, stop, keep, call, end_raw };

  std::string_view text;
  output_state next;
  effect does = effect::skip;
  std::string_view fragment = {};       ///< argument text that the mark stands for
  bool newlines = false;                ///< line feeds directly before belong to the mark
  bool at_start = false;                ///< counts as the first byte of the state only (one byte)
  std::vector<uint32_t> fallback = {};  ///< Knuth-Morris-Pratt, from `text`
};

/// For every byte, one bit for each state in which a mark can begin with it.
using mark_beginnings = std::array<uint16_t, 256>;

/// The whole table of the machine for one set of options, but for the stop sequences.
struct output_marks {
  std::array<std::vector<output_mark>, output_state_count> of_state;
  mark_beginnings begins{};

  [[nodiscard]] const std::vector<output_mark>& at(output_state state) const {
    return of_state[static_cast<size_t>(state)];
  }

  /// Made once for each of the few combinations of options, and never freed.
  [[nodiscard]] static const output_marks& shared(const parser_options& options);
};

/// The stop sequences of one request. In the states they apply to they come before all other marks.
struct stop_marks {
  std::vector<std::string> texts;
  std::vector<output_mark> marks;  ///< refer to `texts`
  std::string first_bytes;         ///< of each, side by side
  uint16_t states = 0;             ///< bits of the states they apply to
  mark_beginnings begins{};        ///< of these and of all other marks

  /// Null when there are none.
  [[nodiscard]] static std::unique_ptr<const stop_marks> make(const parser_options& options,
                                                              const output_marks& others);
};

[[nodiscard]] constexpr uint16_t bit_of(output_state state) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(state));
}

}  // namespace deepinfer::recipe
