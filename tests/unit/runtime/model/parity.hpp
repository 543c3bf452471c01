#pragma once

#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_config.hpp"
#include "tests/support/golden.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

/// What a forward pass recorded beside what the reference computed, operator by operator.
namespace deepinfer::test {

struct recorded_field {
  const char* name;  ///< in the golden file
  std::vector<float> model::layer_record::*values;
  uint32_t width;
};

inline std::array<recorded_field, 7> recorded_fields(const model::v41_config& c) {
  using model::layer_record;
  return {{{"attn_in", &layer_record::attention_in, c.width},
           {"attn_out", &layer_record::attention_out, c.width},
           {"ffn_in", &layer_record::expert_in, c.width},
           {"ffn_out", &layer_record::expert_out, c.width},
           {"stream", &layer_record::stream, c.streams * c.width},
           {"pre", &layer_record::pre, c.streams},
           {"expert_w", &layer_record::expert_weight, c.experts_per_token}}};
}

inline std::string layer_prefix(std::string_view part, uint32_t layer) {
  return std::string(part) + ".layer" + std::to_string(layer) + ".";
}

/// All rows, or those of `rows`, within `bound` of the largest value; choices are the same.
inline void check_layers(const golden_tensors& want,
                         std::string_view part,
                         const model::v41_config& c,
                         std::span<const model::layer_record> got,
                         std::span<const int32_t> rows,
                         double bound) {
  REQUIRE(got.size() == c.layers);
  const auto picked = [&](const auto& all, uint32_t width) {
    return rows.empty() ? all : pick_rows(all, rows, width);
  };
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = layer_prefix(part, layer);
    CAPTURE(prefix);
    for (const recorded_field& field : recorded_fields(c)) {
      CAPTURE(field.name);
      if (!want.has(prefix + field.name)) continue;
      const auto values = picked(got[layer].*field.values, field.width);
      CHECK(relative_error(values, want.floats(prefix + field.name)) < bound);
    }
    CHECK(picked(got[layer].experts, c.experts_per_token) == want.ints(prefix + "experts"));
    if (want.has(prefix + "topk"))
      CHECK(picked(got[layer].chosen, c.index_top) == want.ints(prefix + "topk"));
  }
}

/// At L2: nearly all rows have the reference's bits.
struct rounded_bounds {
  double rows = 0.88;     ///< least share of equal rows, per layer and operator
  double error = 0.1;     ///< of any value
  double choices = 0.99;  ///< least share of equal experts and entries
};

inline void check_rounded_layers(const golden_tensors& want,
                                 std::string_view part,
                                 const model::v41_config& c,
                                 std::span<const model::layer_record> got,
                                 const rounded_bounds& bounds = {}) {
  REQUIRE(got.size() == c.layers);
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = layer_prefix(part, layer);
    CAPTURE(prefix);
    for (const recorded_field& field : recorded_fields(c)) {
      CAPTURE(field.name);
      const auto& values = got[layer].*field.values;
      const auto expected = want.floats(prefix + field.name);
      const bf16_agreement agreement = compare_bf16(values, expected, field.width);
      CHECK(agreement.error < bounds.error);
      const bool fp32 = field.values == &model::layer_record::pre ||
                        field.values == &model::layer_record::expert_weight;
      if (!fp32) CHECK(agreement.rows > bounds.rows);
    }
    CHECK(equal_share(got[layer].experts, want.ints(prefix + "experts")) > bounds.choices);
    if (want.has(prefix + "topk"))
      CHECK(equal_share(got[layer].chosen, want.ints(prefix + "topk")) > bounds.choices);
  }
}

}  // namespace deepinfer::test
