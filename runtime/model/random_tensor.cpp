#include "runtime/model/random_tensor.hpp"

#include "kernels/api/number_formats.hpp"
#include "runtime/model/random_values.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace deepinfer::model {
namespace {

constexpr uint64_t piece_values = uint64_t{1} << 16;

struct distribution {
  float mean = 0;
  float spread = 1;
};

bool ends(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix);
}

// Square roots are exactly rounded by IEEE 754, so this is the same everywhere.
float over_root(uint64_t width) {
  return 1.0f / std::sqrt(static_cast<float>(width));
}

// How the values of a tensor are drawn; the last dimension is what a linear layer sums over.
distribution distribution_of(const table_entry& entry) {
  const std::string_view n = entry.name;
  if (ends(n, "norm.weight") || ends(n, "norm1.weight") || ends(n, "norm2.weight") ||
      ends(n, ".q_weight") || ends(n, ".k_weight"))
    return {1, 0.1f};
  if (ends(n, "_scale")) return {1, 0.2f};
  if (ends(n, "_base")) return {0, 0.5f};
  if (ends(n, ".gate.bias") || ends(n, ".gate.bias_vl")) return {0, 0.2f};
  if (ends(n, ".bias")) return {0, 0.1f};
  if (ends(n, "attn_sink") || n.starts_with("image_") || ends(n, "embed.weight")) return {0, 1};
  if (ends(n, "markov_head.head.weight")) return {0, 0.3f};
  if (ends(n, "confidence_head.proj.weight")) return {0, 0.1f};
  const float scale =
      over_root(entry.shape.back() * (entry.type == tensor_type::i8 ? 2 : 1));  // two a byte
  if (n == "head.weight") return {0, 2 * scale};
  if (ends(n, ".gate.weight")) return {0, 1.5f * scale};
  if (ends(n, ".attn.wq_b.weight")) return {0, 1.5f * scale};
  return {0, scale};
}

// One tensor in pieces.
class tensor_pieces {
public:
  tensor_pieces(const table_entry& entry, uint64_t seed, const piece_sink& sink)
      : entry_(entry),
        rows_(entry.shape.front()),
        width_(entry.shape.back()),
        shape_(distribution_of(entry)),
        draw_(seed, entry.name),
        sink_(sink) {
    if (ends(entry.name, ".weight"))
      scale_name_ = entry.name.substr(0, entry.name.size() - 6) + "scale";
  }

  template <class Value, class Convert>
  result<void> plain(Convert convert) {
    const uint64_t count = entry_.elements();
    std::vector<Value> out;
    for (uint64_t first = 0; first < count; first += out.size()) {
      const std::span<const float> drawn = values(first, std::min(piece_values, count - first));
      out.resize(drawn.size());
      for (size_t i = 0; i < drawn.size(); ++i) out[i] = convert(drawn[i]);
      if (auto done = sink_(entry_.name, first * sizeof(Value), std::as_bytes(std::span(out)));
          !done)
        return done;
    }
    return {};
  }

  /// E4M3 with one scale per tile of 32 x 32, in strips of 32 rows.
  result<void> fp8() {
    const uint64_t tiles = (width_ + 31) / 32;
    std::vector<uint8_t> scales(tiles), codes;
    for (uint64_t row = 0; row < rows_; row += 32) {
      const uint64_t rows = std::min<uint64_t>(32, rows_ - row);
      const std::span<const float> w = values(row * width_, rows * width_);
      codes.resize(w.size());
      for (uint64_t tile = 0; tile < tiles; ++tile) {
        const uint64_t from = 32 * tile, to = std::min(from + 32, width_);
        float amax = 0;
        for (uint64_t r = 0; r < rows; ++r)
          for (uint64_t i = from; i < to; ++i) amax = std::max(amax, std::fabs(w[r * width_ + i]));
        scales[tile] = scale_of(amax, 448);
        const float unit = 1 / kernels::ue8m0_value(scales[tile]);  // a power of two: exact
        for (uint64_t r = 0; r < rows; ++r)
          for (uint64_t i = from; i < to; ++i)
            codes[r * width_ + i] = kernels::e4m3_code(w[r * width_ + i] * unit);
      }
      if (auto done = put(row * width_, codes, row / 32 * tiles, scales); !done) return done;
    }
    return {};
  }

  /// Two E2M1 a byte, one scale per row and 32 columns.
  result<void> fp4() {
    const uint64_t count = rows_ * width_ * 2;
    std::vector<uint8_t> scales, codes;
    for (uint64_t first = 0; first < count; first += piece_values) {
      const std::span<const float> w = values(first, std::min(piece_values, count - first));
      scales.resize(w.size() / 32);
      codes.resize(w.size() / 2);
      for (size_t g = 0; g < scales.size(); ++g) {
        const std::span<const float> group = w.subspan(32 * g, 32);
        float amax = 0;
        for (const float v : group) amax = std::max(amax, std::fabs(v));
        scales[g] = scale_of(amax, 6);
        const float unit = 1 / kernels::ue8m0_value(scales[g]);
        for (size_t i = 0; i < 16; ++i)
          codes[16 * g + i] =
              static_cast<uint8_t>(kernels::e2m1_code(group[2 * i] * unit) |
                                   kernels::e2m1_code(group[2 * i + 1] * unit) << 4);
      }
      if (auto done = put(first / 2, codes, first / 32, scales); !done) return done;
    }
    return {};
  }

  /// An Engram table: values around 1, one scale per 32 channels. Scales differ from group to
  /// group, so that a reader that mixes them up is found out.
  result<void> table() {
    const uint64_t count = rows_ * width_;
    std::vector<uint8_t> scales, codes;
    for (uint64_t first = 0; first < count; first += piece_values) {
      const std::span<const float> w = values(first, std::min(piece_values, count - first));
      scales.resize(w.size() / 32);
      codes.resize(w.size());
      for (size_t g = 0; g < scales.size(); ++g)
        scales[g] = static_cast<uint8_t>(119 + draw_.below(first / 32 + g, 4));
      for (size_t i = 0; i < w.size(); ++i) codes[i] = kernels::e4m3_code(w[i] * 64);
      if (auto done = put(first, codes, first / 32, scales); !done) return done;
    }
    return {};
  }

private:
  // A group of zeros gets the least scale that is used for anything.
  static uint8_t scale_of(float amax, float largest) {
    return kernels::ue8m0_above(std::max(amax, 1e-30f) / largest);
  }
  std::span<const float> values(uint64_t first, uint64_t count) {
    drawn_.resize(count);
    draw_.normals(first, drawn_);
    for (float& v : drawn_) v = shape_.mean + shape_.spread * v;
    return drawn_;
  }
  result<void> put(uint64_t code_offset,
                   const std::vector<uint8_t>& codes,
                   uint64_t scale_offset,
                   const std::vector<uint8_t>& scales) {
    if (auto done = sink_(entry_.name, code_offset, std::as_bytes(std::span(codes))); !done)
      return done;
    return sink_(scale_name_, scale_offset, std::as_bytes(std::span(scales)));
  }

  const table_entry& entry_;
  uint64_t rows_;
  uint64_t width_;  ///< of what is stored: half the columns for FP4
  distribution shape_;
  random_values draw_;
  const piece_sink& sink_;
  std::string scale_name_;
  std::vector<float> drawn_;
};

}  // namespace

result<void> make_random_tensor(const table_entry& entry, uint64_t seed, const piece_sink& sink) {
  if (entry.type == tensor_type::f8_e8m0) return {};
  tensor_pieces make(entry, seed, sink);
  if (entry.name.ends_with(".engram.embed.weight")) return make.table();
  switch (entry.type) {
    case tensor_type::f8_e4m3:
      return make.fp8();
    case tensor_type::i8:
      return make.fp4();
    case tensor_type::bf16:
      return make.plain<uint16_t>([](float v) { return kernels::bf16_bits(v); });
    case tensor_type::f32:
      return make.plain<float>([](float v) { return v; });
    default:
      return failure{error_code::internal, "no random values for " + to_string(entry)};
  }
}

}  // namespace deepinfer::model
