#include "runtime/model/tensor_table.hpp"

#include "tests/support/source_tree.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr const char* released_config = "tests/golden/model/released_config.json";

struct released_table {
  v41_config config;
  std::vector<table_entry> table;
};

released_table released() {
  const std::string text = test::read_source(released_config);
  const auto config = parse_v41_config(text);
  REQUIRE(config);
  const auto vision = parse_vision_config(text);
  REQUIRE(vision);
  REQUIRE(*vision);
  auto table = make_tensor_table(*config, *vision);
  REQUIRE(table);
  return {*config, *std::move(table)};
}

struct group_row {
  tensor_group group;
  const char* name;
  group_total total;
};

// Published totals of the released checkpoint's owner groups.
constexpr group_row published[] = {
    {tensor_group::encoder, "layers 0-19 without Engram", {46'704, 147'838'599'136}},
    {tensor_group::decoder, "layers 20-39", {46'699, 147'823'271'392}},
    {tensor_group::embedding, "embed", {1, 1'323'827'200}},
    {tensor_group::head, "head, norm", {2, 1'323'837'440}},
    {tensor_group::engram_projections, "Engram projections and gates", {8, 315'043'840}},
    {tensor_group::engram_tables, "Engram tables + scales", {4, 202'758'032'400}},
    {tensor_group::drafter, "mtp.*", {2'401, 7'932'874'632}},
    {tensor_group::vision, "vision, aligner, delimiters", {266, 970'536'960}},
};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("the released configuration's table has the published totals, group by group") {
    const released_table r = released();
    const group_totals totals = totals_of(r.table);
    for (const group_row& row : published) {
      CAPTURE(row.name);
      CHECK(totals[static_cast<size_t>(row.group)] == row.total);
      CHECK(group_name(row.group, r.config) == row.name);
    }
    CHECK(sum_of(totals) == group_total{96'085, 510'286'023'000});
    CHECK(r.table.size() == 96'085);
  }

  TEST_CASE("the released drafter and image token are read") {
    const v41_config c = released().config;
    CHECK(c.image_token == 129264);
    CHECK(c.decoder_start() == 20);
    CHECK(c.drafter.stages == 3);
    CHECK(c.drafter.block == 5);
    CHECK(c.drafter.noise_token == 128799);
    CHECK(c.drafter.target_layers == std::vector<uint32_t>{37, 38, 39});
    CHECK(c.drafter.markov_rank == 256);
    CHECK(c.drafter.experts == 128);
    CHECK(c.drafter.experts_per_token == 3);
  }

  TEST_CASE("entries are found by name and have the published shapes") {
    const std::vector<table_entry> table = released().table;
    const auto shape = [&](std::string_view name) {
      const table_entry* entry = find_entry(table, name);
      return entry == nullptr ? std::string("none") : to_string(*entry);
    };
    CHECK(shape("layers.0.attn.wq_b.scale") == "F8_E8M0 [1024, 40]");
    CHECK(shape("layers.39.ffn.experts.383.w2.weight") == "I8 [5120, 1152]");
    CHECK(shape("layers.14.engram.wkv.weight") == "F8_E4M3 [25600, 6144]");
    CHECK(shape("layers.8.attn.compressor.wgate.weight") == "BF16 [512, 5120]");
    CHECK(shape("layers.20.attn.compressor.wgate.weight") == "none");  // ratio 1 pools nothing
    CHECK(shape("layers.3.attn.indexer.wk.weight") == "none");         // a reuse layer
    CHECK(shape("mtp.0.main_proj.scale") == "F8_E8M0 [160, 480]");
    CHECK(shape("mtp.2.confidence_head.proj.weight") == "BF16 [1, 5376]");
    CHECK(shape("mtp.1.ffn.gate.bias_vl") == "F32 [128]");
    CHECK(shape("vision.patch_embed.proj.weight") == "BF16 [1024, 588]");
    CHECK(shape("aligner.w1.weight") == "BF16 [5120, 9216]");
    CHECK(std::ranges::is_sorted(table, {}, &table_entry::name));
  }

  TEST_CASE("a table of more tensors than the limit is refused before it is built") {
    v41_config c = released().config;
    c.layers = 1000;
    c.ratios.resize(1000);
    const auto table = make_tensor_table(c, {});
    REQUIRE_FALSE(table);
    CHECK(table.error().code == error_code::too_large);
  }

  TEST_CASE("a configuration without vision or drafter has no tensors of theirs") {
    v41_config c = released().config;
    c.drafter = {};
    const group_totals totals = totals_of(*make_tensor_table(c, {}));
    CHECK(totals[static_cast<size_t>(tensor_group::drafter)].tensors == 0);
    CHECK(totals[static_cast<size_t>(tensor_group::vision)].tensors == 0);
    CHECK(sum_of(totals).tensors == 96'085 - 2'401 - 266);
  }

  TEST_CASE("a vision field that is missing or out of range is named") {
    const std::string text = test::read_source(released_config);
    const auto with = [&](const std::string& what, const std::string& now) {
      std::string changed = text;
      const size_t at = changed.find(what, changed.find("vision_config"));
      REQUIRE(at != std::string::npos);
      return parse_vision_config(changed.replace(at, what.size(), now));
    };
    const vision_config good = **parse_vision_config(text);
    CHECK(good.layers == 32);
    CHECK(good.head_width() == 64);
    CHECK(good.patch_values() == 588);
    CHECK(good.cell_width() == 9216);
    CHECK(good.max_image_tokens == 1024);
    CHECK(good.min_pixels == 544 * 544);
    CHECK(good.max_aspect == 0);
    CHECK((*with("\"max_wh_ratio\": null", "\"max_wh_ratio\": 8.5"))->max_aspect == 8.5);
    struct change {
      const char* what;
      const char* now;
      const char* named;
    };
    for (const change& c :
         {change{"\"hidden_size\"", "\"hidden_sice\"", "vision_config.hidden_size"},
          {"\"num_attention_heads\": 16", "\"num_attention_heads\": 15", "num_attention_heads"},
          {"\"num_attention_heads\": 16", "\"num_attention_heads\": 512", "num_attention_heads"},
          {"\"patch_size\": 14", "\"patch_size\": 0", "patch_size"},
          {"\"patch_size\": 14", "\"patch_size\": 65", "patch_size"},
          {"\"downsample_ratio\": 3", "\"downsample_ratio\": 99", "downsample_ratio"},
          {"\"intermediate_size\": 2816", "\"intermediate_size\": -1", "intermediate_size"},
          {"\"max_image_tokens\": 1024", "\"max_image_tokens\": 3", "max_image_tokens"},
          {"\"max_image_tokens\": 1024", "\"max_image_tokens\": 65537", "max_image_tokens"},
          {"\"max_wh_ratio\": null", "\"max_wh_ratio\": \"x\"", "max_wh_ratio"}}) {
      CAPTURE(c.now);
      const auto refused = with(c.what, c.now);
      REQUIRE_FALSE(refused);
      CAPTURE(refused.error().detail);
      CHECK(refused.error().detail.find(c.named) != std::string::npos);
    }
    CHECK_FALSE(*parse_vision_config("{}"));
    CHECK_FALSE(parse_vision_config("{"));
    CHECK_FALSE(parse_vision_config("{\"vision_config\": 3}"));
  }
}
