#include "runtime/model/tensor_table.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::model {
namespace {

using shape_list = std::vector<uint64_t>;

// Products stay far below 2^64: the configuration's widths are bounded by 2^18.
constexpr uint64_t tiles(uint64_t n) {
  return (n + 31) / 32;
}

class table_builder {
public:
  explicit table_builder(const v41_config& config) : c_(config) {}

  [[nodiscard]] std::vector<table_entry> take() {
    std::ranges::sort(entries_, {}, &table_entry::name);
    return std::move(entries_);
  }

  void backbone() {
    in(tensor_group::embedding).bf16("embed.weight", {c_.vocabulary, c_.width});
    in(tensor_group::head).bf16("head.weight", {c_.vocabulary, c_.width});
    bf16("norm.weight", {c_.width});
    for (uint32_t layer = 0; layer < c_.layers; ++layer) {
      const std::string p = "layers." + std::to_string(layer) + ".";
      in(layer < c_.decoder_start() ? tensor_group::encoder : tensor_group::decoder);
      block(p, c_.experts);
      sources(p + "attn.", layer);
      engram(p + "engram.", layer);
    }
  }

  void drafter() {
    const drafter_config& d = c_.drafter;
    in(tensor_group::drafter);
    for (uint32_t stage = 0; stage < d.stages; ++stage) {
      const std::string p = "mtp." + std::to_string(stage) + ".";
      block(p, d.experts);
      if (stage == 0) {
        fp8(p + "main_proj", {c_.width, c_.width * d.target_layers.size()});
        bf16(p + "main_norm.weight", {c_.width});
      }
      if (stage + 1 < d.stages) continue;
      bf16(p + "norm.weight", {c_.width});
      bf16(p + "markov_head.embed.weight", {c_.vocabulary, d.markov_rank});
      bf16(p + "markov_head.head.weight", {c_.vocabulary, d.markov_rank});
      bf16(p + "confidence_head.proj.weight", {1, uint64_t{c_.width} + d.markov_rank});
    }
  }

  void vision(const vision_config& v) {
    in(tensor_group::vision);
    biased("vision.patch_embed.proj", {v.width, v.patch_values()});
    for (uint32_t b = 0; b < v.layers; ++b) {
      const std::string p = "vision.blocks." + std::to_string(b) + ".";
      for (const char* norm : {"norm1.weight", "norm2.weight"}) bf16(p + norm, {v.width});
      biased(p + "attn.wqkv", {uint64_t{3} * v.width, v.width});
      biased(p + "attn.wo", {v.width, v.width});
      bf16(p + "mlp.w1.weight", {uint64_t{2} * v.inner_width, v.width});
      bf16(p + "mlp.w2.weight", {v.width, v.inner_width});
    }
    bf16("vision.norm.weight", {v.width});
    biased("aligner.w1", {c_.width, v.cell_width()});
    biased("aligner.w2", {c_.width, c_.width});
    for (const char* name : {"image_start", "image_end", "image_newline"}) bf16(name, {c_.width});
  }

private:
  table_builder& in(tensor_group group) {
    group_ = group;
    return *this;
  }
  void add(std::string name, tensor_type type, shape_list shape) {
    entries_.push_back({std::move(name), type, std::move(shape), group_});
  }
  void bf16(std::string name, shape_list s) {
    add(std::move(name), tensor_type::bf16, std::move(s));
  }
  void f32(std::string name, shape_list s) { add(std::move(name), tensor_type::f32, std::move(s)); }
  void biased(const std::string& name, const shape_list& s) {
    bf16(name + ".weight", s);
    bf16(name + ".bias", {s[0]});
  }
  // One scale per tile of 32 x 32.
  void fp8(const std::string& name, const shape_list& s) {
    add(name + ".weight", tensor_type::f8_e4m3, s);
    add(name + ".scale", tensor_type::f8_e8m0, {tiles(s[0]), tiles(s[1])});
  }
  // Two values a byte, one scale per row and 32 columns.
  void fp4(const std::string& name, const shape_list& s) {
    add(name + ".weight", tensor_type::i8, {s[0], s[1] / 2});
    add(name + ".scale", tensor_type::f8_e8m0, {s[0], s[1] / 32});
  }

  // What a layer and a drafter stage have in common.
  void block(const std::string& p, uint32_t experts) {
    attention(p + "attn.");
    moe(p + "ffn.", experts);
    const uint64_t mixes = (2 + uint64_t{c_.streams}) * c_.streams;
    for (const char* name : {"attn", "ffn"}) {
      bf16(p + name + "_norm.weight", {c_.width});
      f32(p + "hc_" + name + "_fn", {mixes, uint64_t{c_.streams} * c_.width});
      f32(p + "hc_" + name + "_base", {mixes});
      f32(p + "hc_" + name + "_scale", {3});
    }
  }
  void attention(const std::string& p) {
    const uint64_t all_heads = uint64_t{c_.heads} * c_.head_width;
    const uint64_t low = uint64_t{c_.output_groups} * c_.output_rank;
    fp8(p + "wq_a", {c_.query_rank, c_.width});
    bf16(p + "q_norm.weight", {c_.query_rank});
    fp8(p + "wq_b", {all_heads, c_.query_rank});
    fp8(p + "wkv", {c_.head_width, c_.width});
    bf16(p + "kv_norm.weight", {c_.head_width});
    fp8(p + "wo_a", {low, all_heads / c_.output_groups});
    fp8(p + "wo_b", {c_.width, low});
    f32(p + "attn_sink", {c_.heads});
  }
  void moe(const std::string& p, uint32_t experts) {
    bf16(p + "gate.weight", {experts, c_.width});
    f32(p + "gate.bias", {experts});
    f32(p + "gate.bias_vl", {experts});
    const shape_list up{c_.expert_width, c_.width}, down{c_.width, c_.expert_width};
    for (const auto& [name, shape] : {std::pair(".w1", &up), {".w2", &down}, {".w3", &up}}) {
      for (uint32_t e = 0; e < experts; ++e) fp4(p + "experts." + std::to_string(e) + name, *shape);
      fp8(p + "shared_experts" + name, *shape);
    }
  }
  void sources(const std::string& p, uint32_t layer) {
    if (std::ranges::binary_search(c_.kv_sources, layer)) {
      bf16(p + "compressor.wkv.weight", {c_.head_width, c_.width});
      if (c_.ratios[layer] > 1) bf16(p + "compressor.wgate.weight", {c_.head_width, c_.width});
      bf16(p + "compressor.norm.weight", {c_.head_width});
      bf16(p + "indexer.wk.weight", {c_.index_width, c_.head_width});
      bf16(p + "indexer.k_norm.weight", {c_.index_width});
    }
    if (std::ranges::binary_search(c_.index_sources, layer)) {
      fp8(p + "indexer.wq_b", {uint64_t{c_.index_heads} * c_.index_width, c_.query_rank});
      bf16(p + "indexer.weights_proj.weight", {c_.index_heads, c_.width});
    }
  }
  void engram(const std::string& p, uint32_t layer) {
    const engram_config& e = c_.engram;
    const auto at = std::ranges::find(e.layers, layer);
    if (at == e.layers.end()) return;
    const uint64_t rows = e.table_rows[at - e.layers.begin()];
    in(tensor_group::engram_tables);
    add(p + "embed.weight", tensor_type::f8_e4m3, {rows, e.row_width});
    add(p + "embed.scale", tensor_type::f8_e8m0, {rows, e.row_width / 32});
    in(tensor_group::engram_projections);
    fp8(p + "wkv", {(uint64_t{c_.streams} + 1) * c_.width, uint64_t{e.columns()} * e.row_width});
    bf16(p + "q_weight", {c_.streams, c_.width});
    bf16(p + "k_weight", {c_.streams, c_.width});
  }

  const v41_config& c_;
  tensor_group group_ = tensor_group::encoder;
  std::vector<table_entry> entries_;
};

// An upper bound, before anything is built for a configuration that may be hostile.
uint64_t tensor_bound(const v41_config& c, const std::optional<vision_config>& vision) {
  constexpr uint64_t besides_experts = 64;
  uint64_t sum = besides_experts + c.layers * (besides_experts + uint64_t{6} * c.experts) +
                 c.drafter.stages * (besides_experts + uint64_t{6} * c.drafter.experts);
  if (vision) sum += uint64_t{8} * vision->layers;
  return sum;
}

}  // namespace

uint64_t table_entry::elements() const {
  uint64_t count = 1;
  for (const uint64_t n : shape) count *= n;
  return count;
}

std::string to_string(const table_entry& entry) {
  return to_string(tensor_view{{}, entry.type, entry.shape, {}});
}

result<std::vector<table_entry>> make_tensor_table(const v41_config& config,
                                                   const std::optional<vision_config>& vision) {
  if (tensor_bound(config, vision) > most_table_tensors)
    return failure{error_code::too_large,
                   "config.json describes more than " + std::to_string(most_table_tensors) +
                       " tensors; check num_hidden_layers and n_routed_experts"};
  table_builder build(config);
  build.backbone();
  build.drafter();
  if (vision) build.vision(*vision);
  return build.take();
}

const table_entry* find_entry(std::span<const table_entry> table, std::string_view name) {
  const auto at = std::ranges::lower_bound(table, name, {}, &table_entry::name);
  return at != table.end() && at->name == name ? &*at : nullptr;
}

group_totals totals_of(std::span<const table_entry> table) {
  group_totals out;
  for (const table_entry& entry : table) {
    group_total& sum = out[static_cast<size_t>(entry.group)];
    ++sum.tensors;
    sum.bytes += entry.bytes();
  }
  return out;
}

group_total sum_of(const group_totals& totals) {
  group_total sum;
  for (const group_total& t : totals) {
    sum.tensors += t.tensors;
    sum.bytes += t.bytes;
  }
  return sum;
}

std::string group_name(tensor_group group, const v41_config& config) {
  const auto layers = [](uint32_t from, uint32_t end) {
    if (from >= end) return std::string("no layers");
    return "layers " + std::to_string(from) + "-" + std::to_string(end - 1);
  };
  switch (group) {
    case tensor_group::encoder:
      return layers(0, config.decoder_start()) + " without Engram";
    case tensor_group::decoder:
      return layers(config.decoder_start(), config.layers);
    case tensor_group::embedding:
      return "embed";
    case tensor_group::head:
      return "head, norm";
    case tensor_group::engram_projections:
      return "Engram projections and gates";
    case tensor_group::engram_tables:
      return "Engram tables + scales";
    case tensor_group::drafter:
      return "mtp.*";
    case tensor_group::vision:
      return "vision, aligner, delimiters";
  }
  return {};
}

}  // namespace deepinfer::model
