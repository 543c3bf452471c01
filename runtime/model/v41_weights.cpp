#include "runtime/model/v41_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

namespace deepinfer::model {
namespace {

/// A matrix shape, so that rows and width cannot be swapped by accident.
struct shape {
  uint64_t rows;
  uint64_t width;
};

const uint8_t* octets(const tensor_view& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.bytes.data());
}

bool has_nan(kernels::weight_format format, const uint8_t* bytes, uint64_t count) {
  switch (format) {
    case kernels::weight_format::fp8:
      return std::any_of(bytes, bytes + count, [](uint8_t b) { return (b & 127) == 127; });
    case kernels::weight_format::fp4:
      return false;  // every code is a number
    case kernels::weight_format::bf16:
      for (uint64_t i = 0; i + 1 < count; i += 2)
        if ((bytes[i + 1] & 127) == 127 && bytes[i] >= 128) return true;
      return false;
    case kernels::weight_format::f32:
      for (uint64_t i = 0; i + 3 < count; i += 4)
        if ((bytes[i + 3] & 127) == 127 && bytes[i + 2] >= 128) return true;
      return false;
  }
  return false;
}

// Reads tensors one after another; the first failure is kept and makes the rest empty, so that the
// list of tensors below reads as a list.
class weight_reader {
public:
  weight_reader(const checkpoint& from, const kernels::op_table& ops)
      : from_(from), ops_(ops), scans_(from.tensor_bytes() <= scanned_weight_bytes) {}

  [[nodiscard]] const std::optional<failure>& trouble() const { return trouble_; }
  [[nodiscard]] uint64_t resident_bytes() const { return resident_bytes_; }
  [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }

  /// `<name>.weight`, in whatever storage format it has.
  weight_matrix linear(const std::string& name, shape wanted) {
    const tensor_view* stored = from_.find(name + ".weight");
    const tensor_type type = stored == nullptr ? tensor_type::bf16 : stored->type;
    if (type == tensor_type::f8_e4m3)
      return scaled(name, wanted, kernels::weight_format::fp8,
                    {(wanted.rows + 31) / 32, (wanted.width + 31) / 32});
    if (type == tensor_type::i8)
      return scaled(name, wanted, kernels::weight_format::fp4, {wanted.rows, wanted.width / 32});
    return plain_matrix(name + ".weight", wanted);
  }

  /// BF16 or F32, in place.
  weight_matrix plain_matrix(const std::string& name, shape wanted) {
    const tensor_view* stored = from_.find(name);
    const bool is_f32 = stored != nullptr && stored->type == tensor_type::f32;
    const tensor_view* tensor =
        need(name, is_f32 ? tensor_type::f32 : tensor_type::bf16, {wanted.rows, wanted.width});
    if (tensor == nullptr) return {};
    return view(*tensor, nullptr, wanted,
                is_f32 ? kernels::weight_format::f32 : kernels::weight_format::bf16);
  }

  /// BF16 or F32 as an fp32 copy.
  std::vector<float> plain(const std::string& name, std::initializer_list<uint64_t> wanted) {
    const tensor_view* stored = from_.find(name);
    const bool is_f32 = stored != nullptr && stored->type == tensor_type::f32;
    const tensor_view* tensor = need(name, is_f32 ? tensor_type::f32 : tensor_type::bf16, wanted);
    if (tensor == nullptr) return {};
    std::vector<float> out(tensor->bytes.size() / element_bytes(tensor->type));
    resident_bytes_ += out.size() * sizeof(float);
    ops_.dequant(queue_, {out.data(),
                          {octets(*tensor), nullptr, 1, static_cast<uint32_t>(out.size()),
                           is_f32 ? kernels::weight_format::f32 : kernels::weight_format::bf16}});
    if (!std::ranges::all_of(out, [](float v) { return std::isfinite(v); })) not_finite(name);
    return out;
  }

  const tensor_view* need(const std::string& name,
                          tensor_type type,
                          std::initializer_list<uint64_t> wanted) {
    if (trouble_) return nullptr;
    auto found = from_.need(name, type, wanted);
    if (found) return *found;
    trouble_ = failure{found.error().code, from_.name() + ": " + found.error().detail};
    return nullptr;
  }

  [[nodiscard]] bool has(const std::string& name) const { return from_.find(name) != nullptr; }

  void refuse(std::string why) {
    if (!trouble_)
      trouble_ = failure{error_code::unsupported, from_.name() + ": " + std::move(why)};
  }

private:
  weight_matrix scaled(const std::string& name,
                       shape wanted,
                       kernels::weight_format format,
                       shape scale_shape) {
    const bool is_fp4 = format == kernels::weight_format::fp4;
    const tensor_view* codes =
        need(name + ".weight", is_fp4 ? tensor_type::i8 : tensor_type::f8_e4m3,
             {wanted.rows, is_fp4 ? wanted.width / 2 : wanted.width});
    const tensor_view* scales =
        need(name + ".scale", tensor_type::f8_e8m0, {scale_shape.rows, scale_shape.width});
    if (codes == nullptr || scales == nullptr) return {};
    if (std::ranges::find(scales->bytes, std::byte{255}) != scales->bytes.end())
      not_finite(name + ".scale");
    return view(*codes, scales, wanted, format);
  }

  weight_matrix view(const tensor_view& tensor,
                     const tensor_view* scales,
                     shape s,
                     kernels::weight_format format) {
    mapped_bytes_ += tensor.bytes.size() + (scales == nullptr ? 0 : scales->bytes.size());
    if (scans_ && has_nan(format, octets(tensor), tensor.bytes.size())) not_finite(tensor.name);
    return {octets(tensor), scales == nullptr ? nullptr : octets(*scales),
            static_cast<uint32_t>(s.rows), static_cast<uint32_t>(s.width), format};
  }

  void not_finite(const std::string& name) {
    if (!trouble_)
      trouble_ = failure{error_code::corrupt,
                         from_.name() + ": '" + name + "' holds a number that is not finite"};
  }

  const checkpoint& from_;
  const kernels::op_table& ops_;
  bool scans_;
  uint64_t resident_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  std::optional<failure> trouble_;
  kernels::stream queue_;
};

hyper_weights read_hyper(weight_reader& in, const std::string& prefix, const v41_config& c) {
  const uint64_t mixes = uint64_t{2 + c.streams} * c.streams;
  return {in.plain_matrix(prefix + "_fn", {mixes, uint64_t{c.streams} * c.width}),
          in.plain(prefix + "_base", {mixes}), in.plain(prefix + "_scale", {3})};
}

attention_weights read_attention(weight_reader& in, const std::string& p, const v41_config& c) {
  const uint64_t all_heads = uint64_t{c.heads} * c.head_width;
  const uint64_t low = uint64_t{c.output_groups} * c.output_rank;
  attention_weights w;
  w.query_down = in.linear(p + "wq_a", {c.query_rank, c.width});
  w.query_norm = in.plain(p + "q_norm.weight", {c.query_rank});
  w.query_up = in.linear(p + "wq_b", {all_heads, c.query_rank});
  w.key_value = in.linear(p + "wkv", {c.head_width, c.width});
  w.key_value_norm = in.plain(p + "kv_norm.weight", {c.head_width});
  w.output_down = in.linear(p + "wo_a", {low, all_heads / c.output_groups});
  // A group's rows must begin at a row of scale tiles.
  if (w.output_down.format == kernels::weight_format::fp8 && c.output_rank % 32 != 0)
    in.refuse("o_lora_rank must be a multiple of 32 when wo_a is stored in FP8");
  w.output_up = in.linear(p + "wo_b", {c.width, low});
  w.sink = in.plain(p + "attn_sink", {c.heads});
  return w;
}

source_weights read_source(weight_reader& in,
                           const std::string& p,
                           const v41_config& c,
                           uint32_t ratio) {
  source_weights w;
  w.value = in.linear(p + "compressor.wkv", {c.head_width, c.width});
  if (ratio > 1) w.gate = in.linear(p + "compressor.wgate", {c.head_width, c.width});
  w.norm = in.plain(p + "compressor.norm.weight", {c.head_width});
  w.index_key = in.linear(p + "indexer.wk", {c.index_width, c.head_width});
  w.index_key_norm = in.plain(p + "indexer.k_norm.weight", {c.index_width});
  return w;
}

chooser_weights read_chooser(weight_reader& in, const std::string& p, const v41_config& c) {
  return {in.linear(p + "indexer.wq_b", {uint64_t{c.index_heads} * c.index_width, c.query_rank}),
          in.linear(p + "indexer.weights_proj", {c.index_heads, c.width})};
}

expert_weights read_expert(weight_reader& in, const std::string& p, const v41_config& c) {
  return {in.linear(p + ".w1", {c.expert_width, c.width}),
          in.linear(p + ".w2", {c.width, c.expert_width}),
          in.linear(p + ".w3", {c.expert_width, c.width})};
}

engram_weights read_engram(weight_reader& in,
                           const std::string& p,
                           const v41_config& c,
                           size_t number) {
  const engram_config& e = c.engram;
  engram_weights w;
  const uint64_t rows = w.rows = e.table_rows[number];
  if (const auto* table = in.need(p + "embed.weight", tensor_type::f8_e4m3, {rows, e.row_width}))
    w.table = octets(*table);
  if (const auto* s = in.need(p + "embed.scale", tensor_type::f8_e8m0, {rows, e.row_width / 32}))
    w.scales = octets(*s);
  w.key_value = in.linear(p + "wkv",
                          {uint64_t{c.streams + 1} * c.width, uint64_t{e.columns()} * e.row_width});
  w.gain = in.plain(p + "q_weight", {c.streams, c.width});
  const std::vector<float> key_gain = in.plain(p + "k_weight", {c.streams, c.width});
  for (size_t i = 0; i < key_gain.size(); ++i) w.gain[i] *= key_gain[i];
  return w;
}

struct expert_counts {
  uint32_t experts;
  uint32_t per_token;
};

// What backbone layers and drafter stages have in common.
layer_weights read_block(weight_reader& in,
                         const v41_config& c,
                         const std::string& p,
                         expert_counts counts) {
  layer_weights w;
  w.attention_norm = in.plain(p + "attn_norm.weight", {c.width});
  w.expert_norm = in.plain(p + "ffn_norm.weight", {c.width});
  w.attention_mix = read_hyper(in, p + "hc_attn", c);
  w.expert_mix = read_hyper(in, p + "hc_ffn", c);
  w.attention = read_attention(in, p + "attn.", c);
  w.router = in.linear(p + "ffn.gate", {counts.experts, c.width});
  w.router_bias = in.plain(p + "ffn.gate.bias", {counts.experts});
  if (in.has(p + "ffn.gate.bias_vl"))
    w.router_image_bias = in.plain(p + "ffn.gate.bias_vl", {counts.experts});
  w.experts_per_token = counts.per_token;
  for (uint32_t e = 0; e < counts.experts && !in.trouble(); ++e)
    w.experts.push_back(read_expert(in, p + "ffn.experts." + std::to_string(e), c));
  w.shared = read_expert(in, p + "ffn.shared_experts", c);
  return w;
}

layer_weights read_layer(weight_reader& in, const v41_config& c, uint32_t layer) {
  const std::string p = "layers." + std::to_string(layer) + ".";
  layer_weights w = read_block(in, c, p, {c.experts, c.experts_per_token});
  if (std::ranges::binary_search(c.kv_sources, layer))
    w.source = read_source(in, p + "attn.", c, c.ratios[layer]);
  if (std::ranges::binary_search(c.index_sources, layer))
    w.chooser = read_chooser(in, p + "attn.", c);
  const auto engram = std::ranges::find(c.engram.layers, layer);
  if (engram != c.engram.layers.end())
    w.engram = read_engram(in, p + "engram.", c, engram - c.engram.layers.begin());
  return w;
}

drafter_weights read_drafter(weight_reader& in, const v41_config& c) {
  const drafter_config& d = c.drafter;
  const std::string last = "mtp." + std::to_string(d.stages - 1) + ".";
  drafter_weights w;
  w.main = in.linear("mtp.0.main_proj", {c.width, uint64_t{c.width} * d.target_layers.size()});
  w.main_norm = in.plain("mtp.0.main_norm.weight", {c.width});
  for (uint32_t m = 0; m < d.stages && !in.trouble(); ++m)
    w.stages.push_back(
        read_block(in, c, "mtp." + std::to_string(m) + ".", {d.experts, d.experts_per_token}));
  w.norm = in.plain(last + "norm.weight", {c.width});
  if (const auto* table = in.need(last + "markov_head.embed.weight", tensor_type::bf16,
                                  {c.vocabulary, d.markov_rank}))
    w.markov_embedding = octets(*table);
  w.markov_head = in.linear(last + "markov_head.head", {c.vocabulary, d.markov_rank});
  w.confidence = in.linear(last + "confidence_head.proj", {1, uint64_t{c.width} + d.markov_rank});
  return w;
}

void read_embedding(weight_reader& in, const v41_config& c, v41_weights& w) {
  const tensor_view* table = in.need("embed.weight", tensor_type::bf16, {c.vocabulary, c.width});
  if (table == nullptr) return;
  if (reinterpret_cast<uintptr_t>(table->bytes.data()) % alignof(uint16_t) == 0) {
    w.embedding = reinterpret_cast<const uint16_t*>(table->bytes.data());
    return;
  }
  w.embedding_copy.resize(table->bytes.size() / sizeof(uint16_t));
  std::memcpy(w.embedding_copy.data(), table->bytes.data(), table->bytes.size());
  w.embedding = w.embedding_copy.data();
}

}  // namespace

result<v41_weights> load_v41_weights(const checkpoint& from,
                                     const v41_config& config,
                                     const kernels::op_table& ops) {
  weight_reader in(from, ops);
  v41_weights w;
  read_embedding(in, config, w);
  w.norm = in.plain("norm.weight", {config.width});
  w.head = in.linear("head", {config.vocabulary, config.width});
  for (uint32_t layer = 0; layer < config.layers && !in.trouble(); ++layer)
    w.layers.push_back(read_layer(in, config, layer));
  // Exports without the drafter's tensors serve without drafting.
  if (config.drafter.stages != 0 && in.has("mtp.0.main_proj.weight"))
    w.drafter = read_drafter(in, config);
  if (in.trouble()) return *in.trouble();
  w.resident_bytes = in.resident_bytes();
  w.mapped_bytes = in.mapped_bytes();
  return w;
}

}  // namespace deepinfer::model
