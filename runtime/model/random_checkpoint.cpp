#include "runtime/model/random_checkpoint.hpp"

#include "kernels/api/number_formats.hpp"
#include "proto/types/check.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/random_config.hpp"
#include "runtime/model/safetensors.hpp"
#include "runtime/model/v41_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer::model {
namespace {

struct made_tensor {
  tensor_view view;  ///< `bytes` is set when the tensor is written
  std::vector<std::byte> bytes;
};

struct matrix_shape {
  uint32_t rows;
  uint32_t width;
};

// Draws tensors one after another. Values are sums of twelve uniform numbers, close to normal: no
// library function is involved, so the bytes are the same on every machine.
class tensor_maker {
public:
  explicit tensor_maker(uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::vector<made_tensor> take() { return std::move(made_); }

  void bf16(const std::string& name, std::vector<uint64_t> shape, float spread, float mean = 0) {
    std::vector<uint16_t> values(count_of(shape));
    for (uint16_t& v : values) v = kernels::bf16_bits(mean + spread * normal());
    add(name, tensor_type::bf16, std::move(shape), values);
  }
  void f32(const std::string& name, std::vector<uint64_t> shape, float spread, float mean = 0) {
    std::vector<float> values(count_of(shape));
    for (float& v : values) v = mean + spread * normal();
    add(name, tensor_type::f32, std::move(shape), values);
  }
  void gain(const std::string& name, uint64_t width) { bf16(name, {width}, 0.1f, 1); }

  /// E4M3 with one scale per tile of 32 x 32.
  void fp8(const std::string& name, matrix_shape s, float gain_factor = 1) {
    const std::vector<float> w = normals(s, gain_factor);
    const uint32_t tile_rows = (s.rows + 31) / 32, tiles = (s.width + 31) / 32;
    std::vector<float> amax(size_t{tile_rows} * tiles, 0.0f);
    const auto tile_of = [&](size_t i) { return i / s.width / 32 * tiles + i % s.width / 32; };
    for (size_t i = 0; i < w.size(); ++i)
      amax[tile_of(i)] = std::max(amax[tile_of(i)], std::fabs(w[i]));
    std::vector<uint8_t> scales(amax.size()), codes(w.size());
    for (size_t t = 0; t < amax.size(); ++t) scales[t] = kernels::ue8m0_above(amax[t] / 448);
    for (size_t i = 0; i < w.size(); ++i)
      codes[i] = kernels::e4m3_code(w[i] / kernels::ue8m0_value(scales[tile_of(i)]));
    add(name + ".weight", tensor_type::f8_e4m3, {s.rows, s.width}, codes);
    add(name + ".scale", tensor_type::f8_e8m0, {tile_rows, tiles}, scales);
  }

  /// Two E2M1 a byte with one scale per row and 32 columns.
  void fp4(const std::string& name, matrix_shape s) {
    const std::vector<float> w = normals(s, 1);
    std::vector<uint8_t> scales(w.size() / 32), codes(w.size() / 2);
    for (size_t g = 0; g < scales.size(); ++g) {
      float amax = 0;
      for (size_t i = 32 * g; i < 32 * (g + 1); ++i) amax = std::max(amax, std::fabs(w[i]));
      scales[g] = kernels::ue8m0_above(amax / 6);
      const float scale = kernels::ue8m0_value(scales[g]);
      for (size_t i = 32 * g; i < 32 * (g + 1); i += 2)
        codes[i / 2] = static_cast<uint8_t>(kernels::e2m1_code(w[i] / scale) |
                                            kernels::e2m1_code(w[i + 1] / scale) << 4);
    }
    add(name + ".weight", tensor_type::i8, {s.rows, s.width / 2}, codes);
    add(name + ".scale", tensor_type::f8_e8m0, {s.rows, s.width / 32}, scales);
  }

  /// An Engram table: E4M3 rows of values around 1, one scale per 32 channels.
  void table(const std::string& name, matrix_shape s) {
    std::vector<uint8_t> codes(size_t{s.rows} * s.width), scales(codes.size() / 32, 119);
    for (uint8_t& code : codes) code = kernels::e4m3_code(normal() * 64);
    for (uint8_t& scale : scales) scale = static_cast<uint8_t>(scale + random_.below(4));
    add(name + ".weight", tensor_type::f8_e4m3, {s.rows, s.width}, codes);
    add(name + ".scale", tensor_type::f8_e8m0, {s.rows, s.width / 32}, scales);
  }

  [[nodiscard]] rng& random() { return random_; }

private:
  float normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random_.next() >> 11) * 0x1.0p-53;
    return static_cast<float>(sum);
  }
  std::vector<float> normals(matrix_shape s, float gain_factor) {
    std::vector<float> out(size_t{s.rows} * s.width);
    const float spread = gain_factor / std::sqrt(static_cast<float>(s.width));
    for (float& v : out) v = spread * normal();
    return out;
  }
  static size_t count_of(const std::vector<uint64_t>& shape) {
    size_t count = 1;
    for (const uint64_t n : shape) count *= n;
    return count;
  }
  template <class T>
  void add(const std::string& name,
           tensor_type type,
           std::vector<uint64_t> shape,
           const std::vector<T>& values) {
    made_tensor t{{name, type, std::move(shape), {}}, {}};
    t.bytes.resize(values.size() * sizeof(T));
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    made_.push_back(std::move(t));
  }

  rng random_;
  std::vector<made_tensor> made_;
};

void make_attention(tensor_maker& make, const v41_config& c, const std::string& p) {
  const uint32_t all_heads = c.heads * c.head_width, low = c.output_groups * c.output_rank;
  make.fp8(p + "wq_a", {c.query_rank, c.width});
  make.gain(p + "q_norm.weight", c.query_rank);
  make.fp8(p + "wq_b", {all_heads, c.query_rank}, 1.5f);
  make.fp8(p + "wkv", {c.head_width, c.width});
  make.gain(p + "kv_norm.weight", c.head_width);
  make.fp8(p + "wo_a", {low, all_heads / c.output_groups});
  make.fp8(p + "wo_b", {c.width, low});
  make.f32(p + "attn_sink", {c.heads}, 1);
}

void make_sources(tensor_maker& make, const v41_config& c, const std::string& p, uint32_t layer) {
  const float spread = 1 / std::sqrt(static_cast<float>(c.width));
  if (std::ranges::binary_search(c.kv_sources, layer)) {
    make.bf16(p + "compressor.wkv.weight", {c.head_width, c.width}, spread);
    if (c.ratios[layer] > 1)
      make.bf16(p + "compressor.wgate.weight", {c.head_width, c.width}, spread);
    make.gain(p + "compressor.norm.weight", c.head_width);
    make.bf16(p + "indexer.wk.weight", {c.index_width, c.head_width}, spread);
    make.gain(p + "indexer.k_norm.weight", c.index_width);
  }
  if (std::ranges::binary_search(c.index_sources, layer)) {
    make.fp8(p + "indexer.wq_b", {c.index_heads * c.index_width, c.query_rank});
    make.bf16(p + "indexer.weights_proj.weight", {c.index_heads, c.width}, spread);
  }
}

void make_experts(tensor_maker& make, const v41_config& c, const std::string& p) {
  make.bf16(p + "gate.weight", {c.experts, c.width}, 1.5f / std::sqrt(float(c.width)));
  make.f32(p + "gate.bias", {c.experts}, 0.2f);
  make.f32(p + "gate.bias_vl", {c.experts}, 0.2f);
  const matrix_shape in{c.expert_width, c.width}, out{c.width, c.expert_width};
  for (uint32_t e = 0; e < c.experts; ++e) {
    const std::string expert = p + "experts." + std::to_string(e);
    make.fp4(expert + ".w1", in);
    make.fp4(expert + ".w2", out);
    make.fp4(expert + ".w3", in);
  }
  make.fp8(p + "shared_experts.w1", in);
  make.fp8(p + "shared_experts.w2", out);
  make.fp8(p + "shared_experts.w3", in);
}

void make_engram(tensor_maker& make, const v41_config& c, const std::string& p, uint32_t layer) {
  const engram_config& e = c.engram;
  const auto at = std::ranges::find(e.layers, layer);
  if (at == e.layers.end()) return;
  const uint64_t rows = e.table_rows[at - e.layers.begin()];
  make.table(p + "embed", {static_cast<uint32_t>(rows), e.row_width});
  make.fp8(p + "wkv", {(c.streams + 1) * c.width, e.columns() * e.row_width});
  make.bf16(p + "q_weight", {c.streams, c.width}, 0.1f, 1);
  make.bf16(p + "k_weight", {c.streams, c.width}, 0.1f, 1);
}

void make_layer(tensor_maker& make, const v41_config& c, uint32_t layer) {
  const std::string p = "layers." + std::to_string(layer) + ".";
  make_attention(make, c, p + "attn.");
  make_sources(make, c, p + "attn.", layer);
  make_experts(make, c, p + "ffn.");
  make_engram(make, c, p + "engram.", layer);
  make.gain(p + "attn_norm.weight", c.width);
  make.gain(p + "ffn_norm.weight", c.width);
  const uint64_t mixes = uint64_t{2 + c.streams} * c.streams, all = uint64_t{c.streams} * c.width;
  for (const char* name : {"hc_attn", "hc_ffn"}) {
    make.f32(p + name + "_fn", {mixes, all}, 1 / std::sqrt(static_cast<float>(all)));
    make.f32(p + name + "_base", {mixes}, 0.5f);
    make.f32(p + name + "_scale", {3}, 0.2f, 1);
  }
}

result<void> write_text(const std::filesystem::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) return failure{error_code::no_capacity, "cannot write " + file.string()};
  return {};
}

constexpr const char* shard_names[] = {"model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors"};

// Two shards, so that every test of a checkpoint goes through the index.
result<void> write_shards(const std::filesystem::path& folder, std::vector<made_tensor>& tensors) {
  std::ranges::sort(tensors, {}, [](const made_tensor& t) { return t.view.name; });
  std::vector<tensor_view> views;
  std::vector<std::pair<std::string, const char*>> places;
  for (made_tensor& t : tensors) {
    t.view.bytes = t.bytes;
    places.emplace_back(t.view.name, shard_names[views.size() < tensors.size() / 2 ? 0 : 1]);
    views.push_back(t.view);
  }
  const auto first = std::span(views).first(views.size() / 2);
  if (auto done = write_safetensors(folder / shard_names[0], first); !done) return done;
  const auto second = std::span(views).subspan(views.size() / 2);
  if (auto done = write_safetensors(folder / shard_names[1], second); !done) return done;
  return write_text(folder / "model.safetensors.index.json", index_text(places));
}

}  // namespace

result<random_shape> parse_random_shape(std::string_view name) {
  if (name == "mini") return random_shape::mini;
  if (name == "mini8") return random_shape::mini8;
  if (name == "mini12") return random_shape::mini12;
  return failure{error_code::invalid_argument, "shape must be mini, mini8 or mini12"};
}

result<void> make_random_checkpoint(const std::filesystem::path& folder,
                                    random_shape shape,
                                    uint64_t seed) {
  const std::string config_text = random_config_text(shape);
  const auto config = parse_v41_config(config_text);
  DEEPINFER_CHECK(config.has_value());
  const v41_config& c = *config;
  tensor_maker make(seed);
  make.bf16("embed.weight", {c.vocabulary, c.width}, 1);
  make.gain("norm.weight", c.width);
  make.bf16("head.weight", {c.vocabulary, c.width}, 2 / std::sqrt(static_cast<float>(c.width)));
  for (uint32_t layer = 0; layer < c.layers; ++layer) make_layer(make, c, layer);
  std::vector<uint64_t> token_map(c.vocabulary);
  for (uint64_t& id : token_map) id = make.random().below(c.engram.compressed_vocabulary);

  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure{error_code::no_capacity, "cannot make " + folder.string()};
  if (auto done = write_text(folder / "config.json", config_text); !done) return done;
  if (auto done = write_text(folder / "engram_meta.json", engram_meta_text(c.engram, token_map));
      !done)
    return done;
  std::vector<made_tensor> tensors = make.take();
  return write_shards(folder, tensors);
}

}  // namespace deepinfer::model
