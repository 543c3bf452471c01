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

// Reads tensors one after another; the first failure is kept and makes the rest empty, so that the
// list of tensors below reads as a list.
class weight_reader {
public:
  weight_reader(const checkpoint& from, const kernels::op_table& ops, uint64_t most_bytes)
      : from_(from), ops_(ops), most_bytes_(most_bytes) {}

  [[nodiscard]] const std::optional<failure>& trouble() const { return trouble_; }
  [[nodiscard]] uint64_t resident_bytes() const { return resident_bytes_; }

  /// `<name>.weight`, in whatever storage format it has.
  matrix linear(const std::string& name, shape wanted) {
    const std::string weight = name + ".weight";
    const tensor_view* stored = from_.find(weight);
    if (stored != nullptr && stored->type == tensor_type::f8_e4m3) return fp8(name, wanted);
    if (stored != nullptr && stored->type == tensor_type::i8) return fp4(name, wanted);
    return {plain(weight, {wanted.rows, wanted.width}), static_cast<uint32_t>(wanted.rows),
            static_cast<uint32_t>(wanted.width)};
  }

  /// BF16 or F32.
  std::vector<float> plain(const std::string& name, std::initializer_list<uint64_t> wanted) {
    const tensor_view* stored = from_.find(name);
    const bool is_f32 = stored != nullptr && stored->type == tensor_type::f32;
    const tensor_view* tensor = need(name, is_f32 ? tensor_type::f32 : tensor_type::bf16, wanted);
    if (tensor == nullptr) return {};
    std::vector<float> out = room(tensor->bytes.size() / element_bytes(tensor->type));
    if (out.empty()) return out;
    if (is_f32) {
      std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    } else {
      std::vector<uint16_t> aligned(out.size());  // the file promises no alignment
      std::memcpy(aligned.data(), tensor->bytes.data(), tensor->bytes.size());
      ops_.dequant_bf16(queue_, {out.data(), aligned.data(), out.size()});
    }
    check_finite(out, name);
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

private:
  matrix fp8(const std::string& name, shape s) {
    const tensor_view* codes = need(name + ".weight", tensor_type::f8_e4m3, {s.rows, s.width});
    const tensor_view* scales =
        need(name + ".scale", tensor_type::f8_e8m0, {(s.rows + 31) / 32, (s.width + 31) / 32});
    matrix out = empty(s);
    if (codes == nullptr || scales == nullptr || out.values.empty()) return out;
    ops_.dequant_fp8(queue_,
                     {out.values.data(), octets(*codes), octets(*scales), out.rows, out.width});
    check_finite(out.values, name);
    return out;
  }

  matrix fp4(const std::string& name, shape s) {
    const tensor_view* codes = need(name + ".weight", tensor_type::i8, {s.rows, s.width / 2});
    const tensor_view* scales = need(name + ".scale", tensor_type::f8_e8m0, {s.rows, s.width / 32});
    matrix out = empty(s);
    if (codes == nullptr || scales == nullptr || out.values.empty()) return out;
    ops_.dequant_fp4(queue_,
                     {out.values.data(), octets(*codes), octets(*scales), out.rows, out.width});
    check_finite(out.values, name);
    return out;
  }

  matrix empty(shape s) {
    return {room(s.rows * s.width), static_cast<uint32_t>(s.rows), static_cast<uint32_t>(s.width)};
  }

  // Memory for `count` floats, or nothing over the limit.
  std::vector<float> room(uint64_t count) {
    if (trouble_) return {};
    if (count * sizeof(float) > most_bytes_ - resident_bytes_) {
      trouble_ = failure{error_code::too_large,
                         from_.name() + ": the weights need more than " +
                             std::to_string(most_bytes_ >> 20) +
                             " MiB as fp32; raise the weight limit or use a smaller model"};
      return {};
    }
    resident_bytes_ += count * sizeof(float);
    return std::vector<float>(count);
  }

  void check_finite(const std::vector<float>& values, const std::string& name) {
    if (trouble_ || std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) return;
    trouble_ = failure{error_code::corrupt,
                       from_.name() + ": '" + name + "' holds a number that is not finite"};
  }

  const checkpoint& from_;
  const kernels::op_table& ops_;
  uint64_t most_bytes_;
  uint64_t resident_bytes_ = 0;
  std::optional<failure> trouble_;
  kernels::stream queue_;
};

hyper_weights read_hyper(weight_reader& in, const std::string& prefix, const v41_config& c) {
  const uint64_t mixes = uint64_t{2 + c.streams} * c.streams;
  return {in.plain(prefix + "_fn", {mixes, uint64_t{c.streams} * c.width}),
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
  const uint64_t rows = e.table_rows[number];
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

layer_weights read_layer(weight_reader& in, const v41_config& c, uint32_t layer) {
  const std::string p = "layers." + std::to_string(layer) + ".";
  layer_weights w;
  w.attention_norm = in.plain(p + "attn_norm.weight", {c.width});
  w.expert_norm = in.plain(p + "ffn_norm.weight", {c.width});
  w.attention_mix = read_hyper(in, p + "hc_attn", c);
  w.expert_mix = read_hyper(in, p + "hc_ffn", c);
  w.attention = read_attention(in, p + "attn.", c);
  if (std::ranges::binary_search(c.kv_sources, layer))
    w.source = read_source(in, p + "attn.", c, c.ratios[layer]);
  if (std::ranges::binary_search(c.index_sources, layer))
    w.chooser = read_chooser(in, p + "attn.", c);
  const auto engram = std::ranges::find(c.engram.layers, layer);
  if (engram != c.engram.layers.end())
    w.engram = read_engram(in, p + "engram.", c, engram - c.engram.layers.begin());
  w.router = in.linear(p + "ffn.gate", {c.experts, c.width});
  w.router_bias = in.plain(p + "ffn.gate.bias", {c.experts});
  for (uint32_t e = 0; e < c.experts && !in.trouble(); ++e)
    w.experts.push_back(read_expert(in, p + "ffn.experts." + std::to_string(e), c));
  w.shared = read_expert(in, p + "ffn.shared_experts", c);
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
                                     const kernels::op_table& ops,
                                     uint64_t most_bytes) {
  weight_reader in(from, ops, most_bytes);
  v41_weights w;
  read_embedding(in, config, w);
  w.norm = in.plain("norm.weight", {config.width});
  w.head = in.linear("head", {config.vocabulary, config.width});
  for (uint32_t layer = 0; layer < config.layers && !in.trouble(); ++layer)
    w.layers.push_back(read_layer(in, config, layer));
  if (in.trouble()) return *in.trouble();
  w.resident_bytes = in.resident_bytes();
  return w;
}

}  // namespace deepinfer::model
