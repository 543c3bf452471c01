#pragma once

#include "runtime/model/json_fields.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::test {

/// A recorded prompt of the bundled model and its greedy continuation.
struct sample {
  std::string name;
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
};

inline std::vector<int32_t> ids_of(const model::json_fields& fields, std::string_view key) {
  const auto wide = fields.wholes(key, {0, 4095}, 10000);
  return {wide.begin(), wide.end()};
}

inline std::vector<sample> read_samples() {
  std::vector<sample> out;
  for (const std::string& line : read_source_lines("examples/models/tiny-v41/samples.jsonl")) {
    model::json_document document;
    REQUIRE(document.parse(line, "samples.jsonl"));
    model::json_fields::trouble trouble;
    const model::json_fields fields(document.root, "sample", trouble);
    out.push_back(
        {fields.text_or("name", ""), ids_of(fields, "prompt_ids"), ids_of(fields, "output_ids")});
    REQUIRE_FALSE(trouble);
    REQUIRE_FALSE(out.back().output.empty());
  }
  return out;
}

}  // namespace deepinfer::test
