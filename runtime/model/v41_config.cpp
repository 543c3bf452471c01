#include "runtime/model/v41_config.hpp"

#include "kernels/api/attention.hpp"
#include "kernels/api/hyper.hpp"
#include "kernels/api/index.hpp"
#include "proto/types/check.hpp"
#include "runtime/model/json_fields.hpp"

#include <algorithm>
#include <string>

namespace deepinfer::model {
namespace {

// Generous bounds: several times the release, small enough that no product of two overflows.
constexpr whole_range widths{1, 1u << 18};
constexpr whole_range layer_ids{0, 1023};
constexpr size_t most_layers = 1024;
// A row attends its window (a draft its block, too) and the entries chosen for it.
constexpr uint32_t most_keys_of_a_part = kernels::most_attended_keys / 2;
static_assert(most_keys_of_a_part <= kernels::most_kept);

std::vector<uint32_t> narrowed(const std::vector<uint64_t>& in) {
  return {in.begin(), in.end()};
}

void read_attention(const json_fields& text, v41_config& c) {
  c.heads = text.whole("num_attention_heads", {1, 4096});
  c.head_width = text.whole("head_dim", {1, kernels::most_attended_width});
  c.rope_width = text.whole("qk_rope_head_dim", {2, 4096});
  c.query_rank = text.whole("q_lora_rank", widths);
  c.output_groups = text.whole("o_groups", {1, 4096});
  c.output_rank = text.whole("o_lora_rank", widths);
  c.window = text.whole("sliding_window", {1, most_keys_of_a_part});
  c.rope_base = text.real("rope_theta", {1, 1e12});
  c.compressed_rope_base = text.real("compress_rope_theta", {1, 1e12});
  if (const auto scaling = text.object("rope_scaling")) {
    const std::string type = scaling->text_or("rope_type", scaling->text_or("type", "yarn"));
    if (type != "yarn") scaling->complain("rope_type", "must be yarn");
    c.yarn.original_positions = scaling->whole("original_max_position_embeddings", {1, 1u << 30});
    c.yarn.factor = scaling->real("factor", {1, 1e6});
    c.yarn.fast_turns = scaling->real_or("beta_fast", {1e-6, 1e6}, 32);
    c.yarn.slow_turns = scaling->real_or("beta_slow", {1e-6, 1e6}, 1);
  }
  if (text.flag_or("attention_bias", false))
    text.complain("attention_bias", "must be false: this family has no biases");
  if (text.whole_or("num_key_value_heads", {1, 4096}, 1) != 1)
    text.complain("num_key_value_heads", "must be 1: all heads share one key");
}

void read_sparse(const json_fields& text, v41_config& c) {
  c.ratios = narrowed(text.wholes("compress_ratios", {0, 64}, 2 * most_layers));
  if (c.ratios.size() < c.layers)
    text.complain("compress_ratios", "must have an entry for each of the layers");
  c.ratios.resize(c.layers);  // what follows belongs to the drafter
  c.kv_sources = narrowed(text.wholes("kv_source_layer_ids", layer_ids, most_layers));
  c.index_sources = narrowed(text.wholes("index_source_layer_ids", layer_ids, most_layers));
  if (c.kv_sources.empty() && c.index_sources.empty()) return;
  c.index_heads = text.whole("index_n_heads", {1, 4096});
  c.index_width = text.whole("index_head_dim", {1, 4096});
  c.index_top = text.whole("index_topk", {1, most_keys_of_a_part});
  if (!text.has("candidate_source_layer_id")) return;
  c.candidate_source = text.whole("candidate_source_layer_id", layer_ids);
  c.candidate_blocks = text.whole("candidate_topk_blocks", {1, kernels::most_kept});
  c.candidate_block_size = text.whole("candidate_block_size", {1, 4096});
}

void read_experts(const json_fields& text, v41_config& c) {
  c.expert_width = text.whole("moe_intermediate_size", widths);
  c.experts = text.whole("n_routed_experts", {1, 65536});
  c.experts_per_token = text.whole("num_experts_per_tok", {1, 64});
  if (text.whole_or("n_shared_experts", {0, 64}, 1) != 1)
    text.complain("n_shared_experts", "must be 1");
  const std::string score = text.text_or("scoring_func", "sqrtsoftplus");
  if (score == "softmax") {
    c.gate = gate_function::softmax;
  } else if (score == "sigmoid") {
    c.gate = gate_function::sigmoid;
  } else if (score != "sqrtsoftplus") {
    text.complain("scoring_func", "must be sqrtsoftplus, sigmoid or softmax");
  }
  c.gate_temperature = text.real_or("gate_temp", {1e-6, 1e6}, 1);
  c.normalize_weights = text.flag_or("norm_topk_prob", true);
  c.routed_scale = text.real_or("routed_scaling_factor", {0, 1e6}, 1);
  c.swiglu_limit = text.real_or("swiglu_limit", {0, 1e6}, 0);
  if (text.text_or("hidden_act", "silu") != "silu") text.complain("hidden_act", "must be silu");
}

void read_engram(const json_fields& text, engram_config& e) {
  e.layers = narrowed(text.wholes("engram_layer_ids", layer_ids, most_layers));
  if (e.layers.empty()) return;
  e.table_rows = text.wholes("engram_num_embeddings", {1, uint64_t{1} << 40}, most_layers);
  e.longest_ngram = text.whole("engram_max_ngram_size", {2, 16});
  e.heads = text.whole("engram_n_heads", {1, 256});
  e.row_width = text.whole("engram_head_dim", {1, 4096});
  e.prime_start = text.whole("engram_vocab_size", {2, 1'000'000'000});
  e.pad_token = text.has("engram_pad_token_id") ? text.whole("engram_pad_token_id", {0, 1u << 24})
                                                : text.whole_or("engram_pad_id", {0, 1u << 24}, 2);
  e.compressed_vocabulary = text.whole("engram_compressed_vocab_size", {1, 1u << 24});
}

void read_drafter(const json_fields& text, drafter_config& d) {
  d.stages = text.whole_or("num_nextn_predict_layers", {0, 16}, 0);
  if (d.stages == 0) return;
  d.block = text.whole("dspark_block_size", {1, 64});
  d.noise_token = text.whole("dspark_noise_token_id", {0, 1u << 24});
  d.target_layers = narrowed(text.wholes("dspark_target_layer_ids", layer_ids, 64));
  d.markov_rank = text.whole("dspark_markov_rank", widths);
  d.experts = text.whole("dspark_n_routed_experts", {1, 65536});
  d.experts_per_token = text.whole("dspark_num_experts_per_tok", {1, 64});
}

void read_image_token(const json_fields& top, v41_config& c) {
  if (!top.has("image_token_id") && !top.has("vision_config")) return;
  const uint32_t id = top.whole("image_token_id", {0, 1u << 24});
  if (id >= c.vocabulary) top.complain("image_token_id", "must lie inside the vocabulary");
  c.image_token = static_cast<int32_t>(id);
}

void read_quantisation(const json_fields& top) {
  const auto quant = top.object("quantization_config");
  if (!quant) return;
  if (quant->text_or("scale_fmt", "ue8m0") != "ue8m0")
    quant->complain("scale_fmt", "must be ue8m0");
  const auto block = quant->wholes("weight_block_size", {1, 4096}, 2);
  if (!block.empty() && block != std::vector<uint64_t>{32, 32})
    quant->complain("weight_block_size", "must be [32, 32]");
}

void read_stop_tokens(const json_fields& top, const json_fields& text, v41_config& c) {
  const json_fields& holder = top.has("eos_token_id") ? top : text;
  if (!holder.has("eos_token_id")) return;
  if (holder.find("eos_token_id")->is_array()) {
    for (const uint64_t id : holder.wholes("eos_token_id", {0, 1u << 24}, 64))
      c.stop_tokens.push_back(static_cast<int32_t>(id));
  } else {
    c.stop_tokens.push_back(static_cast<int32_t>(holder.whole("eos_token_id", {0, 1u << 24})));
  }
  for (const int32_t id : c.stop_tokens)
    if (static_cast<uint32_t>(id) >= c.vocabulary)
      holder.complain("eos_token_id", "must lie inside the vocabulary");
}

bool ascending_below(const std::vector<uint32_t>& ids, uint32_t bound) {
  return std::ranges::adjacent_find(ids, std::greater_equal{}) == ids.end() &&
         (ids.empty() || ids.back() < bound);
}

bool contains(const std::vector<uint32_t>& ids, uint32_t id) {
  return std::ranges::binary_search(ids, id);
}

void check_widths(const json_fields& text, const v41_config& c) {
  const auto blocks_of_32 = [&text](std::string_view key, uint32_t value) {
    if (value % 32 != 0) text.complain(key, "must be a multiple of 32");
  };
  blocks_of_32("hidden_size", c.width);
  blocks_of_32("head_dim", c.head_width);
  blocks_of_32("moe_intermediate_size", c.expert_width);
  blocks_of_32("index_head_dim", c.index_width);
  blocks_of_32("engram_head_dim", c.engram.row_width);
  if (c.rope_width % 2 != 0 || c.rope_width > c.head_width)
    text.complain("qk_rope_head_dim", "must be even and at most head_dim");
  if (!c.kv_sources.empty() && c.rope_width > c.index_width)
    text.complain("qk_rope_head_dim", "must be at most index_head_dim");
  if (c.heads % c.output_groups != 0) text.complain("o_groups", "must divide num_attention_heads");
  if (c.experts_per_token > c.experts)
    text.complain("num_experts_per_tok", "must be at most n_routed_experts");
}

void check_source_list(const json_fields& text,
                       std::string_view key,
                       const v41_config& c,
                       const std::vector<uint32_t>& sources) {
  if (!ascending_below(sources, c.layers)) {
    text.complain(key, "must be ascending layer numbers");
    return;
  }
  for (const uint32_t l : sources)
    if (c.ratios[l] == 0) text.complain(key, "names a layer whose compress ratio is 0");
}

// Every compressed layer needs a KV source of its own ratio at or before it, and an index source
// that chose among that source's entries. The lists themselves are in order.
void check_sources(const json_fields& text, const v41_config& c) {
  for (uint32_t l = 0; l < c.layers; ++l) {
    if (c.ratios[l] == 0) continue;
    const std::string layer = "must give layer " + std::to_string(l);
    if (c.kv_sources.empty() || c.kv_sources[0] > l || c.ratios[c.kv_source_of(l)] != c.ratios[l])
      text.complain("kv_source_layer_ids", layer + " a source of its own compress ratio");
    else if (c.index_sources.empty() || c.index_sources[0] > l ||
             c.index_source_of(l) < c.kv_source_of(l))
      text.complain("index_source_layer_ids", layer + " a choice of its source's entries");
  }
}

void check_candidates(const json_fields& text, const v41_config& c) {
  if (c.candidate_source < 0) return;
  const auto source = static_cast<uint32_t>(c.candidate_source);
  if (source >= c.layers || !contains(c.index_sources, source)) {
    text.complain("candidate_source_layer_id", "must be an index source");
    return;
  }
  for (const uint32_t l : c.index_sources)
    if (l > source && l < c.layers && c.kv_source_of(l) != c.kv_source_of(source))
      text.complain("candidate_source_layer_id",
                    "must have the same KV source as the index sources behind it");
}

void check_engram(const json_fields& text, const v41_config& c) {
  const engram_config& e = c.engram;
  if (!ascending_below(e.layers, c.layers))
    text.complain("engram_layer_ids", "must be ascending layer numbers");
  if (e.table_rows.size() != e.layers.size())
    text.complain("engram_num_embeddings", "must have one entry for each Engram layer");
  if (!e.layers.empty() && e.pad_token >= c.vocabulary)
    text.complain("engram_pad_token_id", "must lie inside the vocabulary");
}

void check_drafter(const json_fields& text, const v41_config& c) {
  const drafter_config& d = c.drafter;
  if (d.stages == 0) return;
  if (d.target_layers.empty() || !ascending_below(d.target_layers, c.layers))
    text.complain("dspark_target_layer_ids", "must be ascending layer numbers, at least one");
  if (d.noise_token >= c.vocabulary)
    text.complain("dspark_noise_token_id", "must lie inside the vocabulary");
  if (d.experts_per_token > d.experts)
    text.complain("dspark_num_experts_per_tok", "must be at most dspark_n_routed_experts");
}

v41_config read_all(const json_fields& top, const json_fields& text) {
  v41_config c;
  c.vocabulary = text.whole("vocab_size", {1, 1u << 24});
  c.width = text.whole("hidden_size", widths);
  c.layers = text.whole("num_hidden_layers", {1, most_layers});
  c.max_positions = text.whole("max_position_embeddings", {1, 1u << 30});
  c.norm_epsilon = text.real("rms_norm_eps", {1e-37, 1});
  c.streams = text.whole("hc_mult", {1, kernels::max_streams});
  c.mix_rounds = text.whole("hc_sinkhorn_iters", {1, 1000});
  c.mix_epsilon = text.real("hc_eps", {0, 1});
  read_attention(text, c);
  read_sparse(text, c);
  read_experts(text, c);
  read_engram(text, c.engram);
  read_drafter(text, c.drafter);
  read_image_token(top, c);
  read_quantisation(top);
  read_stop_tokens(top, text, c);
  return c;
}

uint32_t closest(const std::vector<uint32_t>& sources, uint32_t layer) {
  const auto after = std::ranges::upper_bound(sources, layer);
  DEEPINFER_CHECK(after != sources.begin());
  return *(after - 1);
}

}  // namespace

uint32_t v41_config::kv_source_of(uint32_t layer) const {
  return closest(kv_sources, layer);
}

uint32_t v41_config::index_source_of(uint32_t layer) const {
  return closest(index_sources, layer);
}

uint32_t v41_config::kv_source_number(uint32_t source_layer) const {
  return static_cast<uint32_t>(std::ranges::lower_bound(kv_sources, source_layer) -
                               kv_sources.begin());
}

result<v41_config> parse_v41_config(std::string_view json_text) {
  json_document document;
  if (auto parsed = document.parse(json_text, "config.json"); !parsed) return parsed.error();
  json_fields::trouble trouble;
  const json_fields top(document.root, "config.json", trouble);
  if (trouble) return *trouble;
  const std::string type = top.text_or("model_type", "");
  if (type != "deepseek_v41" && type != "deepseek_v41_text")
    return failure{error_code::unsupported, "config.json: model_type is '" + type.substr(0, 64) +
                                                "'; this build serves deepseek_v41"};
  const auto inner = top.object("text_config");
  const json_fields& text = inner ? *inner : top;
  const v41_config config = read_all(top, text);
  if (trouble) return *trouble;  // the checks below rely on sane single fields
  check_widths(text, config);
  check_source_list(text, "kv_source_layer_ids", config, config.kv_sources);
  check_source_list(text, "index_source_layer_ids", config, config.index_sources);
  check_engram(text, config);
  check_drafter(text, config);
  if (trouble) return *trouble;  // and these on lists in order
  check_sources(text, config);
  if (trouble) return *trouble;
  check_candidates(text, config);
  if (trouble) return *trouble;
  return config;
}

}  // namespace deepinfer::model
