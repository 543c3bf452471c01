// The vision tower against the reference, and from the bytes of a picture to a span.
#include "kernels/api/cpu_device.hpp"
#include "runtime/image/decode.hpp"
#include "runtime/image/fit.hpp"
#include "runtime/image/patches.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/vision_encoder.hpp"
#include "tests/support/golden.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace deepinfer;
using namespace deepinfer::model;
using kernels::rounding;

namespace {

kernels::op_table reference_ops() {
  kernels::op_table ops;
  kernels::register_ref(ops);
  return ops;
}

kernels::op_table host_ops() {
  kernels::op_table ops;
  kernels::register_cpu(ops, kernels::best_cpu_isa());
  return ops;
}

// A checkpoint's tower, ready to encode.
struct tower {
  checkpoint files;
  vision_config config;
  kernels::op_table ops;
  vision_weights weights;

  explicit tower(const std::filesystem::path& folder, const kernels::op_table& ops_in)
      : files(*checkpoint::open(folder)),
        config(**parse_vision_config(files.config_text())),
        ops(ops_in),
        weights(load()) {}
  tower() : tower(test::mini_checkpoint("mini"), host_ops()) {}

  [[nodiscard]] vision_encoder encoder(rounding round, kernels::stream queue = {}) const {
    return {config, weights, ops, queue, round};
  }

private:
  [[nodiscard]] vision_weights load() const {
    const auto text = parse_v41_config(files.config_text());
    REQUIRE(text);
    auto loaded = load_vision_weights(files, config, text->width, ops);
    REQUIRE_MESSAGE(loaded, loaded.error().detail);
    return *std::move(loaded);
  }
};

struct grid_size {
  uint32_t rows;
  uint32_t columns;
};
constexpr grid_size golden_grids[] = {{3, 3}, {4, 5}, {7, 2}};

std::string name_of(grid_size g) {
  return "grid" + std::to_string(g.rows) + "x" + std::to_string(g.columns) + ".";
}

image::image_patches patches_of(const test::golden_tensors& golden, grid_size g) {
  image::image_patches out{g.rows, g.columns, 4, {}};
  for (const float v : golden.floats(name_of(g) + "patches"))
    out.values.push_back(kernels::bf16_bits(v));
  return out;
}

image::image_patches random_patches(test::rng& random, grid_size g) {
  image::image_patches out{g.rows, g.columns, 4, {}};
  out.values.resize(size_t{g.rows} * g.columns * 48);
  for (uint16_t& v : out.values) v = kernels::bf16_bits(static_cast<float>(random.real() * 2 - 1));
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("the tower agrees with the reference at L0, on both backends") {
    const test::golden_tensors golden("mini_vision");
    for (const kernels::op_table& ops : {reference_ops(), host_ops()}) {
      CAPTURE(ops.name);
      const tower mini(test::mini_checkpoint("mini"), ops);
      vision_encoder encoder = mini.encoder(rounding::none);
      for (const grid_size g : golden_grids) {
        CAPTURE(name_of(g));
        const auto rows = encoder.encode(patches_of(golden, g));
        REQUIRE(rows);
        CHECK(test::relative_error(*rows, golden.floats(name_of(g) + "L0.rows")) < 1e-5);
      }
    }
  }

  TEST_CASE("the tower agrees with the reference at L2 but for rounded neighbours") {
    const test::golden_tensors golden("mini_vision");
    const tower mini;
    vision_encoder encoder = mini.encoder(rounding::bf16);
    for (const grid_size g : golden_grids) {
      CAPTURE(name_of(g));
      const auto rows = encoder.encode(patches_of(golden, g));
      REQUIRE(rows);
      const auto close = test::compare_bf16(*rows, golden.floats(name_of(g) + "L2.rows"), 64);
      CHECK(close.error < 0.005);
      CHECK(close.one_step == 1);
    }
  }

  TEST_CASE("a span has its delimiters where the reference has them") {
    const test::golden_tensors golden("mini_vision");
    const tower mini;
    const grid_size g{4, 5};
    const auto types = golden.ints("grid4x5.span.types");
    const auto exact = mini.encoder(rounding::none).encode_span(patches_of(golden, g));
    REQUIRE(exact);
    CHECK(std::vector<int32_t>(exact->roles.begin(), exact->roles.end()) == types);
    CHECK(exact->size() == types.size());
    CHECK(test::relative_error(exact->rows, golden.floats("grid4x5.L0.span.rows")) < 1e-5);
    const auto rounded = mini.encoder(rounding::bf16).encode_span(patches_of(golden, g));
    REQUIRE(rounded);
    CHECK(test::relative_error(rounded->rows, golden.floats("grid4x5.L2.span.rows")) < 0.01);
  }

  TEST_CASE("an image's rows do not depend on images before it, nor on threads") {
    test::rng random{71};
    const tower mini;
    const auto large = random_patches(random, {13, 17}), small = random_patches(random, {2, 5});
    vision_encoder used = mini.encoder(rounding::none);
    const auto device = kernels::make_cpu_device({.threads = 3});
    REQUIRE(device);
    vision_encoder threaded = mini.encoder(rounding::none, kernels::stream_of(*device));
    for (const auto* patches : {&small, &large, &small}) {
      const auto alone = mini.encoder(rounding::none).encode(*patches);
      REQUIRE(alone);
      CHECK(*used.encode(*patches) == *alone);
      CHECK(*threaded.encode(*patches) == *alone);
    }
  }

  TEST_CASE("a decoded picture becomes a span of the tokens that its fit announced") {
    test::rng random{72};
    const tower mini;
    const image::fit_rules rules = fit_rules_of(mini.config);
    vision_encoder encoder = mini.encoder(rounding::bf16);
    for (int round = 0; round < 8; ++round) {
      image::rgb_image picture{{1 + random.below(80), 1 + random.below(80)}, {}};
      picture.pixels.resize(size_t{picture.size.width} * picture.size.height * 3);
      for (uint8_t& v : picture.pixels) v = static_cast<uint8_t>(random.below(256));
      const image::image_fit fit = image::fit_image(picture.size, rules);
      const auto span = encoder.encode_span(image::prepare_image(picture, fit, rules));
      REQUIRE(span);
      CHECK(span->size() == fit.tokens());
      CHECK(span->rows.size() == fit.tokens() * mini.weights.text_width());
      CHECK(std::ranges::count(span->roles, static_cast<int8_t>(image_role::image)) ==
            fit.token_rows * fit.token_columns);
    }
  }

  TEST_CASE("patches of another size and images over the token limit are refused") {
    test::rng random{73};
    const tower mini;
    vision_encoder encoder = mini.encoder(rounding::none);
    auto wrong = random_patches(random, {2, 2});
    wrong.side = 2;
    CHECK(encoder.encode(wrong).error().code == error_code::invalid_argument);
    auto short_of_one = random_patches(random, {2, 2});
    short_of_one.values.pop_back();
    CHECK(encoder.encode(short_of_one).error().code == error_code::invalid_argument);
    CHECK(encoder.encode({0, 0, 4, {}}).error().code == error_code::invalid_argument);
    // 64 tokens: 61 columns in one row fit, 62 do not
    CHECK(encoder.encode(random_patches(random, {1, 3 * 61})));
    CHECK(encoder.encode(random_patches(random, {1, 3 * 61 + 1})).error().code ==
          error_code::too_large);
  }

  TEST_CASE("a checkpoint without a tensor of the tower, or with another shape, is refused") {
    const tower mini;
    const auto wider = load_vision_weights(mini.files, mini.config, 65, mini.ops);
    REQUIRE_FALSE(wider);
    CHECK(wider.error().code == error_code::corrupt);
    vision_config deeper = mini.config;
    ++deeper.layers;
    const auto missing = load_vision_weights(mini.files, deeper, 64, mini.ops);
    REQUIRE_FALSE(missing);
    CHECK(missing.error().code == error_code::not_found);
    CHECK(missing.error().detail.find("vision.blocks.2.") != std::string::npos);
    CHECK(mini.weights.mapped_bytes > 0);
  }

  TEST_CASE("weights that are not finite are an error, not a prompt of nonsense") {
    test::rng random{74};
    tower mini;
    std::vector<uint16_t> broken(size_t{64} * 64, 0x7FC0);
    mini.weights.aligner_out.weight.values = reinterpret_cast<const uint8_t*>(broken.data());
    const auto rows = mini.encoder(rounding::none).encode(random_patches(random, {3, 3}));
    REQUIRE_FALSE(rows);
    CHECK(rows.error().code == error_code::corrupt);
  }
}
