#include "runtime/model/random_config.hpp"

#include "runtime/model/engram_recipe.hpp"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

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
  void put(std::string_view key, uint64_t value) { name(key), json_.Uint64(value); }
  void put(std::string_view key, std::string_view value) { name(key), text(value); }
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, bool value) { name(key), json_.Bool(value); }
  // Whole numbers without a point, as the release writes them.
  void real(std::string_view key, double value) {
    name(key);
    if (value >= 1 && value < 1e15 && value == static_cast<double>(static_cast<uint64_t>(value)))
      json_.Uint64(static_cast<uint64_t>(value));
    else
      json_.Double(value);
  }
  template <class Number>
  void put(std::string_view key, const std::vector<Number>& values) {
    name(key);
    put_array(values);
  }
  template <class Number>
  void put_array(const std::vector<Number>& values) {
    json_.SetFormatOptions(rapidjson::kFormatSingleLineArray);
    json_.StartArray();
    for (const Number v : values) json_.Uint64(v);
    json_.EndArray();
    json_.SetFormatOptions(rapidjson::kFormatDefault);
  }
  rapidjson::PrettyWriter<rapidjson::StringBuffer>& raw() { return json_; }
  [[nodiscard]] std::string take() const { return {text_.GetString(), text_.GetSize()}; }

private:
  void name(std::string_view key) {
    json_.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
  }
  void text(std::string_view value) {
    json_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }

  rapidjson::StringBuffer text_;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> json_{text_};
};

void put_attention(json_text& json, const v41_config& c) {
  json.put("num_attention_heads", uint64_t{c.heads});
  json.put("num_key_value_heads", uint64_t{1});
  json.put("head_dim", uint64_t{c.head_width});
  json.put("qk_rope_head_dim", uint64_t{c.rope_width});
  json.put("q_lora_rank", uint64_t{c.query_rank});
  json.put("o_lora_rank", uint64_t{c.output_rank});
  json.put("o_groups", uint64_t{c.output_groups});
  json.put("attention_bias", false);
  json.put("sliding_window", uint64_t{c.window});
  json.real("rope_theta", c.rope_base);
  json.real("compress_rope_theta", c.compressed_rope_base);
  json.open("rope_scaling");
  json.put("rope_type", "yarn");
  json.real("factor", c.yarn.factor);
  json.real("beta_fast", c.yarn.fast_turns);
  json.real("beta_slow", c.yarn.slow_turns);
  json.put("original_max_position_embeddings", uint64_t{c.yarn.original_positions});
  json.close();
}

void put_experts(json_text& json, const v41_config& c) {
  json.put("hidden_act", "silu");
  json.real("swiglu_limit", c.swiglu_limit);
  json.put("moe_intermediate_size", uint64_t{c.expert_width});
  json.put("n_routed_experts", uint64_t{c.experts});
  json.put("n_shared_experts", uint64_t{1});
  json.put("num_experts_per_tok", uint64_t{c.experts_per_token});
  json.put("scoring_func", "sqrtsoftplus");
  json.put("topk_method", "noaux_tc");
  json.put("norm_topk_prob", true);
  json.real("routed_scaling_factor", c.routed_scale);
}

void put_sparse(json_text& json, const v41_config& c) {
  std::vector<uint32_t> ratios = c.ratios;
  ratios.resize(ratios.size() + c.drafter.stages);  // the drafter's layers have ratio 0
  json.put("compress_ratios", ratios);
  json.put("kv_source_layer_ids", c.kv_sources);
  json.put("index_source_layer_ids", c.index_sources);
  json.put("index_n_heads", uint64_t{c.index_heads});
  json.put("index_head_dim", uint64_t{c.index_width});
  json.put("index_topk", uint64_t{c.index_top});
  if (c.candidate_source < 0) return;
  json.put("candidate_source_layer_id", static_cast<uint64_t>(c.candidate_source));
  json.put("candidate_topk_blocks", uint64_t{c.candidate_blocks});
  json.put("candidate_block_size", uint64_t{c.candidate_block_size});
}

void put_engram(json_text& json, const engram_config& e) {
  json.put("engram_layer_ids", e.layers);
  if (e.layers.empty()) return;
  json.put("engram_num_embeddings", e.table_rows);
  json.put("engram_max_ngram_size", uint64_t{e.longest_ngram});
  json.put("engram_n_heads", uint64_t{e.heads});
  json.put("engram_head_dim", uint64_t{e.row_width});
  json.put("engram_vocab_size", uint64_t{e.prime_start});
  json.put("engram_pad_token_id", uint64_t{e.pad_token});
  json.put("engram_compressed_vocab_size", uint64_t{e.compressed_vocabulary});
}

void put_drafter(json_text& json, const drafter_config& d) {
  json.put("num_nextn_predict_layers", uint64_t{d.stages});
  if (d.stages == 0) return;
  json.put("dspark_block_size", uint64_t{d.block});
  json.put("dspark_noise_token_id", uint64_t{d.noise_token});
  json.put("dspark_target_layer_ids", d.target_layers);
  json.put("dspark_markov_rank", uint64_t{d.markov_rank});
  json.put("dspark_n_routed_experts", uint64_t{d.experts});
  json.put("dspark_num_experts_per_tok", uint64_t{d.experts_per_token});
}

void put_quantisation(json_text& json) {
  json.open("quantization_config");
  json.put("quant_method", "fp8");
  json.put("activation_scheme", "dynamic");
  json.put("weight_block_size", std::vector<uint32_t>{32, 32});
  json.put("scale_fmt", "ue8m0");
  json.put("expert_dtype", "fp4");
  json.close();
}

void put_vision(json_text& json, const vision_config& v) {
  json.open("vision_config");
  json.put("model_type", "deepseek_v41_vision");
  json.put("num_hidden_layers", uint64_t{v.layers});
  json.put("hidden_size", uint64_t{v.width});
  json.put("num_attention_heads", uint64_t{v.heads});
  json.put("intermediate_size", uint64_t{v.inner_width});
  json.put("patch_size", uint64_t{v.patch});
  json.put("downsample_ratio", uint64_t{v.downsample});
  json.real("rope_theta", v.rope_base);
  json.put("max_image_tokens", uint64_t{v.max_image_tokens});
  json.put("min_pixels", v.min_pixels);
  if (v.max_aspect > 0) json.real("max_wh_ratio", v.max_aspect);
  json.close();
}

void put_text(json_text& json, const v41_config& c) {
  json.open("text_config");
  json.put("model_type", "deepseek_v41_text");
  json.put("vocab_size", uint64_t{c.vocabulary});
  json.put("hidden_size", uint64_t{c.width});
  json.put("num_hidden_layers", uint64_t{c.layers});
  json.put("max_position_embeddings", uint64_t{c.max_positions});
  json.real("rms_norm_eps", c.norm_epsilon);
  json.put("hc_mult", uint64_t{c.streams});
  json.put("hc_sinkhorn_iters", uint64_t{c.mix_rounds});
  json.real("hc_eps", c.mix_epsilon);
  put_attention(json, c);
  put_experts(json, c);
  put_sparse(json, c);
  put_engram(json, c.engram);
  put_drafter(json, c.drafter);
  json.close();
}

}  // namespace

std::string config_text(const model_shape& shape) {
  json_text json;
  json.open();
  json.raw().Key("architectures");
  json.raw().StartArray();
  json.raw().String("DeepseekV41ForCausalLM");
  json.raw().EndArray();
  json.put("model_type", "deepseek_v41");
  json.put("dtype", "bfloat16");
  json.put("bos_token_id", uint64_t{0});
  json.put("eos_token_id", uint64_t{1});
  json.put("pad_token_id", uint64_t{2});
  if (shape.text.image_token >= 0)
    json.put("image_token_id", static_cast<uint64_t>(shape.text.image_token));
  put_quantisation(json);
  put_text(json, shape.text);
  if (shape.vision) put_vision(json, *shape.vision);
  json.close();
  return json.take();
}

std::string engram_meta_text(const engram_config& config, const std::vector<uint64_t>& token_map) {
  json_text json;
  json.open();
  json.put("compressed_vocab_size", uint64_t{config.compressed_vocabulary});
  json.put("token_map", token_map);
  json.raw().Key("multipliers");
  json.raw().StartArray();
  for (const auto& layer : engram_multipliers(config)) json.put_array(layer);
  json.raw().EndArray();
  json.close();
  return json.take();
}

std::string index_text(std::span<const tensor_place> places, uint64_t total_bytes) {
  json_text json;
  json.open();
  json.open("metadata");
  json.put("total_size", total_bytes);
  json.close();
  json.open("weight_map");
  for (const tensor_place& place : places) json.put(place.tensor, place.shard);
  json.close();
  json.close();
  return json.take();
}

std::string generation_config_text() {
  json_text json;
  json.open();
  json.put("bos_token_id", uint64_t{0});
  json.put("eos_token_id", uint64_t{1});
  json.put("do_sample", true);
  json.real("temperature", 1);
  json.real("top_p", 0.95);
  json.close();
  return json.take();
}

}  // namespace deepinfer::model
