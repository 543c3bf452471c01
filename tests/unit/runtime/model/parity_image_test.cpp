#include "runtime/model/engram_hash.hpp"
#include "runtime/model/v41_model.hpp"
#include "tests/support/golden.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"
#include "tests/unit/runtime/model/parity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

// Prompts with image spans against the reference: replaced embeddings, the router's other bias,
// no Engram. The rows of the spans come from the file, not from the encoder.

using namespace deepinfer;
using namespace deepinfer::model;
using test::golden_tensors;
using test::relative_error;

namespace {

// A prompt and the rows of its spans.
struct pictured_prompt {
  std::vector<int32_t> tokens;
  std::vector<float> rows;
  std::vector<image_rows> images;
};

pictured_prompt read_prompt(const golden_tensors& file, uint32_t width) {
  pictured_prompt out{file.ints("image.prompt"), file.floats("image.rows"), {}};
  const auto types = file.ints("image.types");
  uint32_t row = 0;
  for (uint32_t p = 0; p < types.size(); ++p) {
    if (types[p] < 0) continue;
    if (types[p] == 0) out.images.push_back({p, 0, out.rows.data() + size_t{row} * width});
    ++out.images.back().count;
    ++row;
  }
  REQUIRE(out.images.size() == 2);
  REQUIRE(size_t{row} * width == out.rows.size());
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("a prompt with images agrees with the reference at L0, in any chunks") {
    for (const std::string shape : {"mini", "mini12"}) {
      CAPTURE(shape);
      const golden_tensors want(shape + "_L0");
      const auto model = test::load_mini(shape, {.level = numeric_level::L0});
      const pictured_prompt prompt = read_prompt(want, model->config().width);
      const auto got = model->forward(prompt.tokens, {.per_layer = true, .images = prompt.images});
      REQUIRE(got);
      CHECK(relative_error(got->logits, want.floats("image.logits")) < 1e-5);
      const v41_config& c = model->config();
      test::check_layers(want, "image", c, got->layers, {}, 1e-5);
      for (uint32_t i = 0; i < c.kv_sources.size(); ++i) {
        const std::string prefix = test::layer_prefix("image", c.kv_sources[i]);
        CHECK(relative_error(got->entries[i], want.floats(prefix + "ckv")) < 1e-5);
        CHECK(relative_error(got->index_keys[i], want.floats(prefix + "ikey")) < 1e-5);
      }
      for (const uint32_t chunk : {1u, 5u, 14u, 20u}) {
        CAPTURE(chunk);
        const auto cut = model->forward(prompt.tokens, {.chunk = chunk, .images = prompt.images});
        REQUIRE(cut);
        CHECK(cut->logits == got->logits);
      }
    }
  }

  TEST_CASE("a prompt with images has the reference's bits in nearly all rows at L2") {
    const golden_tensors want("mini_L2");
    const auto model = test::load_mini("mini", {.level = numeric_level::L2});
    const pictured_prompt prompt = read_prompt(want, model->config().width);
    std::vector<layer_record> streams(model->config().layers);
    for (uint32_t layer = 0; layer < streams.size(); ++layer) {
      streams[layer].stream = want.floats(test::layer_prefix("image", layer) + "stream");
      streams[layer].pre = want.floats(test::layer_prefix("image", layer) + "pre");
    }
    const auto got = model->forward(
        prompt.tokens, {.per_layer = true, .images = prompt.images, .teacher = streams});
    REQUIRE(got);
    test::check_rounded_layers(want, "image", model->config(), got->layers);
  }

  TEST_CASE("n-grams of Engram do not reach into or across an image") {
    for (const std::string shape : {"mini", "mini12"}) {
      const golden_tensors want(shape + "_L0");
      const auto folder = test::mini_checkpoint(shape);
      const auto config = *parse_v41_config(test::file_text(folder / "config.json"));
      const auto hash = engram_hash::make(config.engram, config.vocabulary,
                                          test::file_text(folder / "engram_meta.json"));
      REQUIRE(hash);
      const auto tokens = want.ints("image.prompt"), types = want.ints("image.types");
      std::vector<int64_t> got;
      for (size_t p = 0; p < tokens.size(); ++p)
        for (uint32_t layer = 0; layer < config.engram.layers.size(); ++layer) {
          std::vector<int64_t> recent, rows(hash->columns());
          for (size_t i = 0; i <= hash->look_back(); ++i) {
            const bool dead = i > p || types[p - i] >= 0;
            recent.push_back(dead ? engram_hash::no_token : hash->compressed(tokens[p - i]));
          }
          hash->rows(layer, recent, rows);
          got.insert(got.end(), rows.begin(), rows.end());
        }
      CHECK(got == want.wide("image.engram_ids"));
    }
  }

  TEST_CASE("an image's rows change what follows it and nothing before it") {
    const golden_tensors want("mini_L0");
    const auto model = test::load_mini("mini", {.level = numeric_level::L0});
    pictured_prompt prompt = read_prompt(want, model->config().width);
    const auto before = model->forward(prompt.tokens, {.images = prompt.images});
    REQUIRE(before);
    prompt.rows[prompt.rows.size() - 1] += 1;  // the last row of the second image
    const auto after = model->forward(prompt.tokens, {.images = prompt.images});
    REQUIRE(after);
    const image_rows& second = prompt.images[1];
    const size_t changed = size_t{second.position + second.count - 1} * model->config().vocabulary;
    const auto same = std::ranges::mismatch(before->logits, after->logits);
    CHECK(same.in1 - before->logits.begin() >= static_cast<std::ptrdiff_t>(changed));
    CHECK(same.in1 != before->logits.end());
  }
}
