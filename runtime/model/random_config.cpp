#include "runtime/model/random_config.hpp"

#include "proto/types/check.hpp"
#include "runtime/model/engram_hash.hpp"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace deepinfer::model {
namespace {

class json_text {
public:
  json_text() { json_.SetIndent(' ', 1); }

  void open(const char* key = nullptr) {
    if (key != nullptr) json_.Key(key);
    json_.StartObject();
  }
  void close() { json_.EndObject(); }
  void put(const char* key, uint64_t value) { json_.Key(key), json_.Uint64(value); }
  void put(const char* key, double value) { json_.Key(key), json_.Double(value); }
  void put(const char* key, const char* value) { json_.Key(key), json_.String(value); }
  void put(const char* key, bool value) { json_.Key(key), json_.Bool(value); }
  void put(const char* key, int value) { put(key, static_cast<uint64_t>(value)); }
  template <class Number>
  void put(const char* key, const std::vector<Number>& values) {
    json_.Key(key);
    put_array(std::span(values));
  }
  template <class Number>
  void put_array(std::span<const Number> values) {
    json_.StartArray();
    for (const Number v : values) json_.Uint64(v);
    json_.EndArray();
  }
  rapidjson::PrettyWriter<rapidjson::StringBuffer>& raw() { return json_; }
  [[nodiscard]] std::string text() const { return {text_.GetString(), text_.GetSize()}; }

private:
  rapidjson::StringBuffer text_;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> json_{text_};
};

using numbers = std::vector<uint32_t>;

// Where the shapes differ: the layers and what they are.
struct layer_plan {
  numbers ratios, kv_sources, index_sources, engram_layers;
  uint32_t candidate_source;
};

layer_plan plan_of(random_shape shape) {
  switch (shape) {
    case random_shape::mini8:
      return {{0, 0, 2, 2, 1, 1, 1, 1}, {2, 4}, {2, 4, 6}, {1, 3}, 4};
    case random_shape::mini12:
      return {{0, 0, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, {2, 4, 6}, {2, 4, 6, 9}, {0, 5}, 6};
    case random_shape::mini:
      break;
  }
  return {{0, 0, 2, 2, 2, 1, 1, 1, 1, 1}, {2, 4, 5}, {2, 4, 5, 7}, {1, 4}, 5};
}

void put_attention(json_text& json) {
  json.put("num_attention_heads", 4);
  json.put("num_key_value_heads", 1);
  json.put("head_dim", 64);
  json.put("qk_rope_head_dim", 16);
  json.put("q_lora_rank", 32);
  json.put("o_lora_rank", 32);
  json.put("o_groups", 2);
  json.put("attention_bias", false);
  json.put("sliding_window", 16);
  json.put("rope_theta", 10000);
  json.put("compress_rope_theta", 160000);
  json.open("rope_scaling");
  json.put("rope_type", "yarn");
  json.put("factor", 16);
  json.put("beta_fast", 32);
  json.put("beta_slow", 1);
  json.put("original_max_position_embeddings", 64);
  json.close();
}

void put_experts(json_text& json) {
  json.put("hidden_act", "silu");
  json.put("swiglu_limit", 10.0);
  json.put("moe_intermediate_size", 64);
  json.put("n_routed_experts", 8);
  json.put("n_shared_experts", 1);
  json.put("num_experts_per_tok", 2);
  json.put("scoring_func", "sqrtsoftplus");
  json.put("topk_method", "noaux_tc");
  json.put("norm_topk_prob", true);
  json.put("routed_scaling_factor", 1.5);
}

void put_sparse(json_text& json, const layer_plan& plan) {
  json.put("compress_ratios", plan.ratios);
  json.put("kv_source_layer_ids", plan.kv_sources);
  json.put("index_source_layer_ids", plan.index_sources);
  json.put("index_n_heads", 4);
  json.put("index_head_dim", 32);
  json.put("index_topk", 8);
  json.put("candidate_source_layer_id", uint64_t{plan.candidate_source});
  json.put("candidate_topk_blocks", 3);
  json.put("candidate_block_size", 4);
}

void put_engram(json_text& json, const layer_plan& plan) {
  engram_config e;
  e.layers = plan.engram_layers;
  e.longest_ngram = 4;
  e.heads = 2;
  e.prime_start = 40;
  std::vector<uint64_t> rows;
  for (const auto& primes : engram_primes(e))
    rows.push_back(std::accumulate(primes.begin(), primes.end(), uint64_t{0}));
  json.put("engram_layer_ids", e.layers);
  json.put("engram_num_embeddings", rows);
  json.put("engram_max_ngram_size", 4);
  json.put("engram_n_heads", 2);
  json.put("engram_head_dim", 32);
  json.put("engram_vocab_size", 40);
  json.put("engram_pad_token_id", 2);
  json.put("engram_compressed_vocab_size", 96);
}

// The recipe: NumPy's default_rng(10007 * layer) draws four numbers v below (2^63 - 1) / 96 / 2
// for the layer; the multiplier is 2 v + 1.
struct layer_multipliers {
  uint32_t layer;
  std::array<uint64_t, 4> values;
};

constexpr layer_multipliers recipe[] = {
    {0, {61197235576963927, 25920241996298185, 3936604738796855, 1587922201762113}},
    {1, {79100288139735761, 4995760435818993, 37117873431968371, 76370346285698179}},
    {3, {28413574069055833, 84289349296363725, 11228291225324585, 72561091212396813}},
    {4, {84909683180830007, 5200050907810939, 76025709422188321, 19565367502298625}},
    {5, {37574089853445943, 31947776800392717, 21022549669182285, 68029267085042053}},
};

}  // namespace

std::string random_config_text(random_shape shape) {
  const layer_plan plan = plan_of(shape);
  json_text json;
  json.open();
  json.put("model_type", "deepseek_v41");
  json.put("dtype", "bfloat16");
  json.put("bos_token_id", 0);
  json.put("eos_token_id", 1);
  json.put("pad_token_id", 2);
  json.open("text_config");
  json.put("model_type", "deepseek_v41_text");
  json.put("vocab_size", 160);
  json.put("hidden_size", 64);
  json.put("num_hidden_layers", uint64_t{plan.ratios.size()});
  json.put("max_position_embeddings", 4096);
  json.put("rms_norm_eps", 1e-20);
  json.put("hc_mult", 4);
  json.put("hc_sinkhorn_iters", 20);
  json.put("hc_eps", 1e-6);
  put_attention(json);
  put_experts(json);
  put_sparse(json, plan);
  put_engram(json, plan);
  json.close();
  json.close();
  return json.text();
}

std::string engram_meta_text(const engram_config& config, const std::vector<uint64_t>& token_map) {
  json_text json;
  json.open();
  json.put("compressed_vocab_size", uint64_t{config.compressed_vocabulary});
  json.put("token_map", token_map);
  json.raw().Key("multipliers");
  json.raw().StartArray();
  for (const uint32_t layer : config.layers) {
    const auto found = std::ranges::find(recipe, layer, &layer_multipliers::layer);
    DEEPINFER_CHECK(found != std::end(recipe));
    json.put_array(std::span<const uint64_t>(found->values));
  }
  json.raw().EndArray();
  json.close();
  return json.text();
}

std::string index_text(const std::vector<std::pair<std::string, const char*>>& places) {
  json_text json;
  json.open();
  json.open("weight_map");
  for (const auto& [tensor, shard] : places) json.put(tensor.c_str(), shard);
  json.close();
  json.close();
  return json.text();
}

}  // namespace deepinfer::model
