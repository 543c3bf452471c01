#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::recipe {

struct output_mark;
struct output_marks;
struct stop_marks;
enum class output_state : uint8_t;

/// One piece of what the model said, the same for every protocol. A `call` is followed by its
/// `arguments`, which belong to the latest call.
struct output_chunk {
  enum class kind : uint8_t { reasoning, text, call, arguments };

  kind what = kind::text;
  std::string text;  ///< for `call` the name; for `arguments` the next part of the JSON text

  friend bool operator==(const output_chunk&, const output_chunk&) = default;
};

/// Where in a turn the output begins.
enum class parser_start : uint8_t {
  thinking,   ///< behind `<think>`
  reasoning,  ///< inside reasoning that the prompt began
  answer,     ///< behind `</think>`
  content,    ///< inside an answer that the prompt began
  calls,      ///< inside a call block that the prompt opened
  plain,      ///< no turn at all: text without any marks but the stop sequences
  json_value  ///< JSON mode, inside a value that the prompt began
};

struct parser_options {
  parser_start start = parser_start::answer;
  bool parse_tool_calls = false;  ///< else the markup is ordinary text
  bool json_mode = false;         ///< only the first JSON value is shown
  std::vector<std::string> stop;  ///< end the visible answer; empty ones do not count
  /// Improves on the published behaviour, so that the arguments of every finished call are valid
  /// JSON if the values are that the model wrote as JSON: parameter names are escaped; a parameter
  /// whose kind is missing or unknown is a string; one without a value, or without the end of its
  /// name, is null. A cut-off call stays cut off.
  bool repair_arguments = false;
};

/// What the next byte of the output belongs to, as far as known.
enum class output_section : uint8_t {
  reasoning,
  answer,
  hidden,   ///< JSON mode: around the value; a space stands for all of it
  calls,    ///< anything in a call block
  finished  ///< behind a stop sequence or the call block: whatever comes is dropped
};

/// Takes the output text of a model in parts of any size and sorts it into reasoning, text and tool
/// calls. What is certain is released at once; what might be the beginning of a mark is held back.
/// The joined output does not depend on how the text was cut, and parts that are cut between
/// characters give chunks that are. Memory does not grow with the output: of what is held back only
/// the mark it may become is kept.
class output_parser {
public:
  /// Longer than any name that a client may declare; what a call's name has beyond is dropped.
  static constexpr size_t max_name_bytes = 1024;

  explicit output_parser(const parser_options& options);
  output_parser(output_parser&&) noexcept;
  output_parser& operator=(output_parser&&) noexcept;
  ~output_parser();

  /// Appends what `text` decides. Does nothing once finished.
  void push(std::string_view text, std::vector<output_chunk>& out);

  /// The output is over: what was held back is what it looks like.
  void finish(std::vector<output_chunk>& out);

  /// A stop sequence ended the answer; generation should be cancelled.
  [[nodiscard]] bool stopped() const { return !stop_sequence_.empty(); }
  [[nodiscard]] const std::string& stop_sequence() const { return stop_sequence_; }

  /// A complete tool call name was seen.
  [[nodiscard]] bool called() const { return called_; }

  [[nodiscard]] output_section section() const;
  [[nodiscard]] bool in_reasoning() const { return section() == output_section::reasoning; }
  /// The next text is shown as it is, if it is no mark.
  [[nodiscard]] bool is_shown() const { return section() <= output_section::answer; }

private:
  struct progress {
    size_t newlines = 0;   // line feeds directly before, for marks that swallow them
    uint32_t matched = 0;  // bytes of the mark's text
  };
  /// The last bytes of what was pushed: they are known, since they are how a mark begins.
  struct held_back {
    const output_mark* mark = nullptr;
    progress begun;
    [[nodiscard]] size_t size() const { return begun.newlines + begun.matched; }
  };
  struct completed {
    const output_mark* mark = nullptr;
    size_t bytes = 0;  // swallowed line feeds included
  };

  void enter(output_state next);
  [[nodiscard]] bool has_stops() const;
  /// Feeds one byte to the marks of this state; the first in their list that it completes.
  [[nodiscard]] completed advance(unsigned char byte);
  [[nodiscard]] static bool step(const output_mark& mark, progress& now, unsigned char byte);
  /// The longest end of what was read that may yet turn out to be the beginning of a mark.
  [[nodiscard]] held_back undecided() const;
  /// No mark: bytes [begin, end) of those held back and `text` behind them.
  void release(size_t begin, size_t end, std::string_view text, std::vector<output_chunk>& out);
  void take_default(std::string_view bytes, std::vector<output_chunk>& out);
  void take_name(std::string_view bytes);
  void announce_call(std::vector<output_chunk>& out);
  void apply(const output_mark& mark, std::vector<output_chunk>& out);

  const output_marks* marks_;                // of these options; shared by all parsers
  std::unique_ptr<const stop_marks> stops_;  // null without stop sequences
  const std::array<uint16_t, 256>* begins_;  // in which states a byte can begin a mark
  output_state state_;
  bool fresh_ = true;         // nothing was read in this state yet
  bool active_ = false;       // some mark has begun
  bool space_given_ = false;  // the space that stands for hidden text was written
  bool value_given_ = false;  // the raw value is more than white space
  bool called_ = false;
  bool repair_ = false;
  bool json_mode_ = false;
  held_back held_;
  std::vector<progress> progress_;  // of the stop sequences that apply, then of the state's marks
  std::string name_;
  std::string stop_sequence_;
};

}  // namespace deepinfer::recipe
