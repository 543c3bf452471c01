#pragma once

#include "runtime/recipe/output_parser.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::test {

/// What an output came to: neighbouring chunks of one kind joined, each call a chunk of its own.
struct parsed_output {
  std::vector<recipe::output_chunk> chunks;
  std::string stop;

  friend bool operator==(const parsed_output&, const parsed_output&) = default;
};

/// Appends `more`, joining what belongs together.
void join_chunks(std::vector<recipe::output_chunk>& into,
                 const std::vector<recipe::output_chunk>& more);

/// The output parser once more, written to be believed: the whole text at once, the table of states
/// as it is in the specification, every pattern looked for at every byte. Shares nothing with the
/// parser but the types of its options and results. `raw_values`, where given, gets the values that
/// the model wrote as JSON.
[[nodiscard]] parsed_output parse_by_the_table(const recipe::parser_options& options,
                                               std::string_view text,
                                               std::vector<std::string>* raw_values = nullptr);

/// All of it as readable text, for messages and for comparing.
[[nodiscard]] std::string shown(const parsed_output& output);

}  // namespace deepinfer::test
