#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::recipe {

/// One piece of what the model said, the same for every protocol. The first chunks of a `call` and
/// its `arguments` follow each other; arguments belong to the latest call.
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
  plain       ///< text without marks; only stop sequences count
};

struct parser_options {
  parser_start start = parser_start::answer;
  bool parse_tool_calls = false;  ///< else the markup is ordinary text
  bool json_mode = false;         ///< only the first JSON value is shown
  std::vector<std::string> stop;  ///< not empty strings; end the visible answer
  /// Improves on the published behaviour: parameter names are JSON-escaped, and a parameter
  /// without `string="..."` is a string instead of vanishing.
  bool repair_arguments = false;
};

/// Takes the output text of a model in parts of any size and sorts it into reasoning, text and tool
/// calls. What is certain is released at once; what might be the beginning of a mark is held back.
/// The joined output does not depend on how the text was cut.
class output_parser {
public:
  explicit output_parser(const parser_options& options);
  output_parser(output_parser&&) noexcept;
  output_parser& operator=(output_parser&&) noexcept;
  ~output_parser();

  /// Appends what `text` decides. Does nothing after a stop sequence.
  void push(std::string_view text, std::vector<output_chunk>& out);

  /// The output is over: what was held back is what it looks like.
  void finish(std::vector<output_chunk>& out);

  /// A stop sequence ended the answer; generation should be cancelled.
  [[nodiscard]] bool stopped() const { return !stop_sequence_.empty(); }
  [[nodiscard]] const std::string& stop_sequence() const { return stop_sequence_; }

  /// A complete tool call name was seen.
  [[nodiscard]] bool called() const { return called_; }

  /// The next text is reasoning, as far as known.
  [[nodiscard]] bool in_reasoning() const;
  /// The next text is neither reasoning nor visible: inside tool calls, or behind the end.
  [[nodiscard]] bool in_markup() const;

private:
  struct rule;
  struct state_rules;
  struct table;
  enum class state : uint8_t;

  void enter(state next);
  /// Feeds one byte to the marks of this state; the one it completes, or null.
  [[nodiscard]] const rule* advance(unsigned char byte);
  /// Bytes at the end that may yet turn out to be the beginning of a mark.
  [[nodiscard]] size_t undecided() const;
  void take_default(std::string_view bytes, std::vector<output_chunk>& out);
  void apply(const rule& mark, std::vector<output_chunk>& out);
  static void append(std::vector<output_chunk>& out,
                     output_chunk::kind what,
                     std::string_view text);

  struct progress {
    uint32_t newlines = 0;  // line feeds directly before, for rules that swallow them
    uint32_t matched = 0;   // bytes of the rule's text
  };

  std::unique_ptr<const table> table_;
  state state_;
  bool fresh_ = true;         // nothing was read in this state yet
  bool active_ = false;       // some mark has begun
  bool space_given_ = false;  // the space that stands for hidden text was written
  std::vector<progress> progress_;
  std::string held_;
  std::string name_;
  std::string stop_sequence_;
  bool called_ = false;
  bool repair_ = false;
};

}  // namespace deepinfer::recipe
