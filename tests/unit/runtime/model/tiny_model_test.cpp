#include "runtime/model/v41_model.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/tiny_samples.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;
using test::read_samples;
using test::sample;

namespace {

std::unique_ptr<v41_model> load_tiny(numeric_level level) {
  v41_options options;
  options.level = level;
  auto model = v41_model::load(test::source_path("examples/models/tiny-v41"), options);
  REQUIRE(model);
  return *std::move(model);
}

}  // namespace

TEST_SUITE("runtime/model") {
  // One forward over prompt and output gives the logits before every output token at once, which
  // is what greedy decoding sees (chunking changes no bit, shown elsewhere).
  TEST_CASE("the bundled model continues its recorded prompts token for token") {
    const auto model = load_tiny(numeric_level::L0);
    const uint32_t vocabulary = model->info().vocabulary;
    size_t tokens = 0, ties = 0;
    for (const sample& s : read_samples()) {
      CAPTURE(s.name);
      std::vector<int32_t> all = s.prompt;
      all.insert(all.end(), s.output.begin(), s.output.end());
      const auto forward = model->forward(all, {});
      REQUIRE(forward);
      for (size_t i = 0; i < s.output.size(); ++i, ++tokens) {
        const float* row = forward->logits.data() + (s.prompt.size() + i - 1) * vocabulary;
        const float best = *std::max_element(row, row + vocabulary);
        // Two best logits this close may fall either way in another summation order.
        CAPTURE(i);
        CHECK(row[s.output[i]] >= best - 1e-3f);
        ties += row[s.output[i]] != best;
      }
    }
    CHECK(tokens > 500);
    CHECK(ties <= tokens / 100);
  }

  TEST_CASE("steps sample the recorded tokens, several sequences at once") {
    const auto model = load_tiny(numeric_level::L0);
    const auto samples = read_samples();
    std::vector<std::unique_ptr<sequence>> sequences;
    std::vector<step_item> items;
    for (size_t i = 0; i < 4; ++i) {
      sequences.push_back(model->make_sequence());
      items.push_back(test::sampling(*sequences.back(), samples[i].prompt));
    }
    for (size_t t = 0; t < 12; ++t) {
      model->step(items);
      for (size_t i = 0; i < items.size(); ++i) {
        if (t < samples[i].output.size()) CHECK(items[i].sampled == samples[i].output[t]);
        items[i].tokens = {};
      }
    }
  }

  TEST_CASE("the checkpoint's facts are those of its configuration") {
    const auto model = load_tiny(numeric_level::L1);
    const model_info& info = model->info();
    CHECK(info.name == "tiny-v41");
    CHECK(info.vocabulary == 4096);
    CHECK(info.context_limit == 8192);
    CHECK(info.stop_tokens == std::vector<int32_t>{1});
    CHECK(info.state_bytes_per_token == (36 + 17) / 2.0 + (36 + 17) + 0.5);  // packed, rounded up
    CHECK(info.layout != load_tiny(numeric_level::L0)->info().layout);
    CHECK(info.layout == load_tiny(numeric_level::L1)->info().layout);
  }
}
