#include "tests/unit/runtime/model/parity.hpp"

#include "kernels/api/quant.hpp"
#include "kernels/api/table.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/v41_model.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

// The whole model against the reference: end to end at L0 and L1, layer by layer at every level.

using namespace deepinfer;
using namespace deepinfer::model;
using test::golden_tensors;
using test::relative_error;

namespace {

constexpr const char* shapes[] = {"mini", "mini8", "mini12"};
constexpr const char* layered_shapes[] = {"mini", "mini12"};

// Bounds of end-to-end comparisons. At L1 one cache value on a rounding border may fall to the
// other side in another order of additions: that moves the logits by about 1e-3.
constexpr double close_l0 = 1e-5, close_l1 = 4e-3;

std::string file_of(std::string_view shape, std::string_view level) {
  return std::string(shape) + "_" + std::string(level);
}

// FNV-1a over both shards: the expected tensors belong to exactly these bytes.
int64_t checkpoint_digest(const std::filesystem::path& folder) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const char* shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    for (const char c : test::file_text(folder / shard))
      value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return static_cast<int64_t>(value);
}

std::vector<int32_t> greedy(v41_model& model, std::span<const int32_t> prompt, size_t count) {
  const auto target = model.make_sequence();
  step_item item = test::sampling(*target, prompt, {});
  std::vector<int32_t> out;
  while (out.size() < count) {
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.push_back(item.sampled);
    item.tokens = {};
  }
  return out;
}

std::vector<uint8_t> packed(const std::vector<float>& rows,
                            uint32_t width,
                            kernels::row_format format) {
  kernels::op_table ops;
  kernels::register_cpu(ops);
  kernels::stream queue;
  const auto count = static_cast<uint32_t>(rows.size() / width);
  std::vector<uint8_t> out(count * kernels::packed_row_bytes(format, width));
  ops.pack_rows(queue, {out.data(), rows.data(), count, width, format});
  return out;
}

// Entries and index keys of every source: nearly all stored bytes are the reference's.
void check_packed_rows(const golden_tensors& want,
                       std::string_view part,
                       const v41_config& c,
                       const forward_result& got,
                       double least) {
  for (uint32_t i = 0; i < c.kv_sources.size(); ++i) {
    const std::string prefix = test::layer_prefix(part, c.kv_sources[i]);
    CAPTURE(prefix);
    using kernels::row_format;
    CHECK(test::equal_share(packed(got.entries[i], c.head_width, row_format::fp4_16),
                            want.bytes(prefix + "ckv")) > least);
    CHECK(test::equal_share(packed(got.index_keys[i], c.index_width, row_format::fp4_32),
                            want.bytes(prefix + "ikey")) > least);
  }
}

// What every layer of the `given` runs starts from.
std::vector<layer_record> given_streams(std::string_view shape, uint32_t layers) {
  const golden_tensors file(file_of(shape, "L2"));
  std::vector<layer_record> out(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    out[layer].stream = file.floats(test::layer_prefix("given", layer) + "stream");
    out[layer].pre = file.floats(test::layer_prefix("given", layer) + "pre");
  }
  return out;
}

forward_result run_given(v41_model& model, const golden_tensors& want, std::string_view shape) {
  const auto teacher = given_streams(shape, model.config().layers);
  auto got = model.forward(want.ints("given.prompt"),
                           {.per_layer = true, .taps = true, .teacher = teacher});
  REQUIRE(got);
  return *std::move(got);
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("a random checkpoint has the same bytes as the one the reference saw") {
    for (const char* shape : shapes)
      for (const char* level : {"L0", "L1", "L2"}) {
        if (std::string_view(shape) == "mini8" && std::string_view(level) == "L2") continue;
        const std::string name = file_of(shape, level);
        CAPTURE(name);
        const golden_tensors want(name);
        CHECK(checkpoint_digest(test::mini_checkpoint(shape)) == want.wide("checkpoint")[0]);
      }
  }

  TEST_CASE("every layer agrees with the reference at L0, on both backends") {
    for (const std::string shape : shapes)
      for (const kernel_backend backend : {kernel_backend::cpu, kernel_backend::reference}) {
        CAPTURE(shape);
        const golden_tensors want(file_of(shape, "L0"));
        const auto model = test::load_mini(shape, {.level = numeric_level::L0, .backend = backend});
        const auto got = model->forward(want.ints("prompt"), {.per_layer = true, .taps = true});
        REQUIRE(got);
        CHECK(relative_error(got->logits, want.floats("full.logits")) < close_l0);
        CHECK(relative_error(got->taps, want.floats("full.taps")) < close_l0);
        CHECK(greedy(*model, want.ints("prompt"), 24) == want.ints("greedy"));
        if (!want.has("full.rows")) continue;
        const v41_config& c = model->config();
        test::check_layers(want, "full", c, got->layers, want.ints("full.rows"), close_l0);
        for (uint32_t i = 0; i < c.kv_sources.size(); ++i) {
          const std::string prefix = test::layer_prefix("full", c.kv_sources[i]);
          CHECK(relative_error(got->entries[i], want.floats(prefix + "ckv")) < close_l0);
          CHECK(relative_error(got->index_keys[i], want.floats(prefix + "ikey")) < close_l0);
        }
      }
  }

  TEST_CASE("Engram table rows are those of the reference") {
    for (const char* shape : layered_shapes) {
      const golden_tensors want(file_of(shape, "L0"));
      const auto folder = test::mini_checkpoint(shape);
      const auto config = *parse_v41_config(test::file_text(folder / "config.json"));
      const auto hash = engram_hash::make(config.engram, config.vocabulary,
                                          test::file_text(folder / "engram_meta.json"));
      REQUIRE(hash);
      const auto prompt = want.ints("prompt");
      std::vector<int64_t> got;
      for (size_t p = 0; p < prompt.size(); ++p)
        for (uint32_t layer = 0; layer < config.engram.layers.size(); ++layer) {
          std::vector<int64_t> recent, rows(hash->columns());
          for (size_t i = 0; i <= hash->look_back(); ++i)
            recent.push_back(i <= p ? hash->compressed(prompt[p - i]) : engram_hash::no_token);
          hash->rows(layer, recent, rows);
          got.insert(got.end(), rows.begin(), rows.end());
        }
      CHECK(got == want.wide("full.engram_ids"));
    }
  }

  TEST_CASE("cache quantisers give the reference's rows, logits and tokens at L1") {
    for (const std::string shape : shapes) {
      CAPTURE(shape);
      const golden_tensors want(file_of(shape, "L1"));
      const auto model = test::load_mini(shape);
      const auto got = model->forward(want.ints("prompt"), {.taps = true});
      REQUIRE(got);
      CHECK(relative_error(got->logits, want.floats("full.logits")) < close_l1);
      CHECK(relative_error(got->taps, want.floats("full.taps")) < close_l1);
      CHECK(greedy(*model, want.ints("prompt"), 24) == want.ints("greedy"));
      if (shape != "mini8") check_packed_rows(want, "full", model->config(), *got, 0.999);
    }
  }

  TEST_CASE("every layer agrees with the reference at L1 when it starts from the same streams") {
    for (const std::string shape : layered_shapes) {
      CAPTURE(shape);
      const golden_tensors want(file_of(shape, "L1"));
      const auto model = test::load_mini(shape);
      const forward_result got = run_given(*model, want, shape);
      test::check_layers(want, "given", model->config(), got.layers, {}, close_l1);
      check_packed_rows(want, "given", model->config(), got, 0.999);
    }
  }

  TEST_CASE("at L2 nearly all rows of every operator have the reference's bits") {
    for (const std::string shape : layered_shapes)
      for (const kernel_backend backend : {kernel_backend::cpu, kernel_backend::reference}) {
        CAPTURE(shape);
        const golden_tensors want(file_of(shape, "L2"));
        const auto model = test::load_mini(shape, {.level = numeric_level::L2, .backend = backend});
        const forward_result got = run_given(*model, want, shape);
        test::check_rounded_layers(want, "given", model->config(), got.layers);
        check_packed_rows(want, "given", model->config(), got, 0.99);
        const size_t tap_width = want.shape("full.taps")[1];
        CHECK(test::compare_bf16(got.taps, want.floats("full.taps"), tap_width).rows == 1);
        CHECK(relative_error(got.logits, want.floats("given.logits")) < 0.02);
      }
  }
}
