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
      test::check_layers(want, "image", model->config(), got->layers, {}, 1e-5);
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
