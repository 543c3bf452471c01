#pragma once

#include "runtime/recipe/output_parser.hpp"
#include "tests/support/rng.hpp"

#include <string>
#include <vector>

/// Outputs that a model may write, good and bad, from a seed.
namespace deepinfer::test {

struct made_output {
  recipe::parser_options options;
  std::string text;
};

/// Reasoning, answers, JSON values and call blocks in the spellings of V4 and V4.1, in any order
/// and number, with every kind of damage that the parser has a rule for: marks cut short, kinds and
/// quotes missing, tags of the wrong name, ends in the middle. Stop sequences are often parts of
/// the text itself or of marks. Well-formed UTF-8.
class output_grammar {
public:
  explicit output_grammar(uint64_t seed) : random_(seed) {}

  [[nodiscard]] made_output next();

  /// Options that make something of `text`.
  [[nodiscard]] recipe::parser_options options_for(const std::string& text);

private:
  [[nodiscard]] bool one_in(uint32_t n) { return random_.below(n) == 0; }
  [[nodiscard]] const std::string& pick(const std::vector<std::string>& from);
  [[nodiscard]] std::string words(uint32_t most);
  [[nodiscard]] std::string damaged(std::string mark);
  [[nodiscard]] std::string parameter(const std::string& space);
  [[nodiscard]] std::string call(const std::string& space);
  [[nodiscard]] std::string block();
  [[nodiscard]] std::string json_answer();
  [[nodiscard]] std::string stop_for(const std::string& text);

  rng random_;
};

}  // namespace deepinfer::test
