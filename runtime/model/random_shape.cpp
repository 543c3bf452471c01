#include "runtime/model/random_shape.hpp"

#include "proto/types/check.hpp"
#include "runtime/model/engram_recipe.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::model {
namespace {

using numbers = std::vector<uint32_t>;

struct shape_name {
  random_shape shape;
  std::string_view name;
};

constexpr shape_name names[] = {
    {random_shape::mini, "mini"},     {random_shape::mini8, "mini8"},
    {random_shape::mini12, "mini12"}, {random_shape::tiny, "tiny"},
    {random_shape::small, "small"},   {random_shape::flash_shard, "flash-shard"},
};

// What the layers of a model are.
struct layer_plan {
  numbers ratios, kv_sources, index_sources, engram_layers;
  int64_t candidate_source;
};

// The release's values wherever a shape does not say otherwise.
v41_config with_layers(layer_plan plan) {
  v41_config c;
  c.layers = static_cast<uint32_t>(plan.ratios.size());
  c.ratios = std::move(plan.ratios);
  c.kv_sources = std::move(plan.kv_sources);
  c.index_sources = std::move(plan.index_sources);
  c.candidate_source = plan.candidate_source;
  c.engram.layers = std::move(plan.engram_layers);
  c.stop_tokens = {1};
  c.rope_base = 10000;
  c.compressed_rope_base = 160000;
  c.yarn = {0, 16, 32, 1};
  c.routed_scale = 1.5;
  c.swiglu_limit = 10;
  c.streams = 4;
  c.mix_rounds = 20;
  c.mix_epsilon = 1e-6;
  c.norm_epsilon = 1e-20;
  return c;
}

// `engram` gives everything but the layers, which are known, and the rows, which follow.
void set_engram(v41_config& c, engram_config engram) {
  engram.layers = std::move(c.engram.layers);
  engram.pad_token = 2;
  engram.table_rows = engram_row_counts(engram);
  c.engram = std::move(engram);
}

// The taps are the last three layers, as in the release.
void set_drafter(v41_config& c, drafter_config drafter) {
  for (uint32_t l = c.layers - std::min(c.layers, 3u); l < c.layers; ++l)
    drafter.target_layers.push_back(l);
  c.drafter = std::move(drafter);
}

layer_plan mini_plan(random_shape shape) {
  if (shape == random_shape::mini8) return {{0, 0, 2, 2, 1, 1, 1, 1}, {2, 4}, {2, 4, 6}, {1, 3}, 4};
  if (shape == random_shape::mini12)
    return {{0, 0, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, {2, 4, 6}, {2, 4, 6, 9}, {0, 5}, 6};
  return {{0, 0, 2, 2, 2, 1, 1, 1, 1, 1}, {2, 4, 5}, {2, 4, 5, 7}, {1, 4}, 5};
}

model_shape mini(random_shape shape) {
  v41_config c = with_layers(mini_plan(shape));
  c.vocabulary = 160;
  c.width = 64;
  c.max_positions = 4096;
  c.heads = 4, c.head_width = 64, c.rope_width = 16;
  c.query_rank = 32, c.output_groups = 2, c.output_rank = 32;
  c.window = 16;
  c.yarn.original_positions = 64;
  c.index_heads = 4, c.index_width = 32, c.index_top = 8;
  c.candidate_blocks = 3, c.candidate_block_size = 4;
  c.expert_width = 64, c.experts = 8, c.experts_per_token = 2;
  set_engram(c, {.longest_ngram = 4,
                 .heads = 2,
                 .row_width = 32,
                 .prime_start = 40,
                 .compressed_vocabulary = 96});
  set_drafter(c, {.stages = 3,
                  .block = 5,
                  .noise_token = 150,
                  .markov_rank = 16,
                  .experts = 4,
                  .experts_per_token = 2});
  c.image_token = 151;
  return {std::move(c), vision_config{.layers = 2,
                                      .width = 32,
                                      .heads = 2,
                                      .inner_width = 48,
                                      .patch = 4,
                                      .downsample = 3,
                                      .rope_base = 10000,
                                      .max_image_tokens = 64,
                                      .min_pixels = 256}};
}

model_shape tiny() {
  v41_config c = with_layers(mini_plan(random_shape::mini8));
  c.vocabulary = 4096;
  c.width = 192;
  c.max_positions = 8192;
  c.heads = 4, c.head_width = 64, c.rope_width = 16;
  c.query_rank = 64, c.output_groups = 2, c.output_rank = 64;
  c.window = 128;
  c.yarn.original_positions = 512;
  c.index_heads = 4, c.index_width = 32, c.index_top = 512;
  c.candidate_blocks = 128, c.candidate_block_size = 8;
  c.expert_width = 128, c.experts = 8, c.experts_per_token = 2;
  c.streams = 2;
  set_engram(c, {.longest_ngram = 4,
                 .heads = 2,
                 .row_width = 32,
                 .prime_start = 8192,
                 .compressed_vocabulary = 3441});
  set_drafter(c, {.stages = 2,
                  .block = 5,
                  .noise_token = 4064,
                  .markov_rank = 64,
                  .experts = 4,
                  .experts_per_token = 2});
  c.image_token = 4081;
  return {std::move(c), std::nullopt};
}

// Encoder 0-4, decoder 5-9; window-only, full, reuse and reindex layers as in the release.
model_shape small() {
  v41_config c = with_layers({{0, 0, 2, 2, 2, 1, 1, 1, 1, 1}, {2, 5}, {2, 5, 8}, {1, 4}, 5});
  c.vocabulary = 8192;
  c.width = 1024;
  c.max_positions = 131072;
  c.heads = 8, c.head_width = 128, c.rope_width = 32;
  c.query_rank = 384, c.output_groups = 4, c.output_rank = 256;
  c.window = 128;
  c.yarn.original_positions = 8192;
  c.index_heads = 8, c.index_width = 64, c.index_top = 256;
  c.candidate_blocks = 2048, c.candidate_block_size = 8;
  c.expert_width = 192, c.experts = 48, c.experts_per_token = 3;
  set_engram(c, {.longest_ngram = 3,
                 .heads = 4,
                 .row_width = 64,
                 .prime_start = 16384,
                 .compressed_vocabulary = 6144});
  set_drafter(c, {.stages = 3,
                  .block = 5,
                  .noise_token = 8160,
                  .markov_rank = 64,
                  .experts = 8,
                  .experts_per_token = 2});
  return {std::move(c), std::nullopt};
}

// Everything of a released decoder layer in one: compressor, index source, candidates, experts.
model_shape flash_shard() {
  v41_config c = with_layers({{1}, {0}, {0}, {}, 0});
  c.vocabulary = 4096;
  c.width = 5120;
  c.max_positions = 1u << 20;
  c.heads = 64, c.head_width = 512, c.rope_width = 64;
  c.query_rank = 1280, c.output_groups = 8, c.output_rank = 1024;
  c.window = 128;
  c.yarn.original_positions = 65536;
  c.index_heads = 32, c.index_width = 128, c.index_top = 512;
  c.candidate_blocks = 2048, c.candidate_block_size = 8;
  c.expert_width = 2304, c.experts = 24, c.experts_per_token = 6;
  return {std::move(c), std::nullopt};
}

}  // namespace

result<random_shape> parse_random_shape(std::string_view name) {
  const auto found = std::ranges::find(names, name, &shape_name::name);
  if (found != std::end(names)) return found->shape;
  return failure{error_code::invalid_argument,
                 "shape must be mini, mini8, mini12, tiny, small or flash-shard"};
}

std::string_view to_string(random_shape shape) {
  return std::ranges::find(names, shape, &shape_name::shape)->name;
}

model_shape shape_of(random_shape shape) {
  switch (shape) {
    case random_shape::tiny:
      return tiny();
    case random_shape::small:
      return small();
    case random_shape::flash_shard:
      return flash_shard();
    case random_shape::mini:
    case random_shape::mini8:
    case random_shape::mini12:
      break;
  }
  return mini(shape);
}

model_size size_of_shape(random_shape shape) {
  const model_shape model = shape_of(shape);
  const auto table = make_tensor_table(model.text, model.vision);
  DEEPINFER_CHECK(table.has_value());  // the shapes above are far below the limit
  return size_of(model.text, *table);
}

}  // namespace deepinfer::model
