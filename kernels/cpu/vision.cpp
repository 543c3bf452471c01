#include "kernels/api/vision.hpp"

#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/shuffle.hpp"
#include "kernels/cpu/vec16_math.hpp"

#include <algorithm>
#include <cstddef>

/// The order of all sums of the attention: a score as one chain of fused multiply-adds over the
/// channels; a denominator in sixteen lanes over the keys (`vec16.hpp`); an output channel as one
/// chain over the keys. No tile below changes it, so how rows are cut is free.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr size_t tile_rows = many_registers ? 8 : 4;
constexpr size_t tile_vectors = many_registers ? 2 : 1;
constexpr size_t most_queries = 16;  // of a unit of work: their scores stay in the cache
constexpr size_t chunk_keys = 64;    // values that stay in the first-level cache
constexpr size_t elements_per_piece = 4096;

constexpr size_t blocks_of(size_t rows) {
  return (rows + lane_count - 1) / lane_count;
}

/// The scores of some queries of one head, and where their sums gather.
struct query_block {
  const full_attention_args& args;
  size_t head;
  size_t first;
  size_t count;
  float* score;   // [count][blocks * 16]
  float* gather;  // [count][whole vectors of width]

  [[nodiscard]] size_t score_stride() const { return blocks_of(args.rows) * lane_count; }
  [[nodiscard]] size_t out_stride() const { return blocks_of(args.width) * lane_count; }
  [[nodiscard]] const float* query(size_t i) const {
    return args.query + (first + i) * args.stride + head * args.width;
  }
};

// Keys as panels of sixteen: [head][block][channel][16 keys], zeros behind the last key.
void make_panel(const full_attention_args& a, size_t head, size_t block) {
  float* panel = a.key_columns + (head * blocks_of(a.rows) + block) * lane_count * a.width;
  const size_t first = block * lane_count;
  const size_t count = std::min<size_t>(lane_count, a.rows - first);
  for (size_t c = 0; c < a.width; c += lane_count) {
    const size_t held = std::min<size_t>(lane_count, a.width - c);
    ivec16 tile[lane_count];
    for (size_t i = 0; i < lane_count; ++i) {
      const float* key = a.key + (first + i) * a.stride + head * a.width + c;
      tile[i] = bits_of(i < count ? load_first(key, held) : all(0.0f));
    }
    transpose(tile);
    for (size_t k = 0; k < held; ++k) store(panel + (c + k) * lane_count, floats_of(tile[k]));
  }
}

// Rows queries against Vectors panels.
template <size_t Rows, size_t Vectors>
DEEPINFER_INLINE void score_tile(const query_block& q, size_t row, size_t block) {
  const size_t width = q.args.width;
  const float* panel =
      q.args.key_columns + (q.head * blocks_of(q.args.rows) + block) * lane_count * width;
  const float* query[Rows];
  for (size_t r = 0; r < Rows; ++r) query[r] = q.query(row + r);
  vec16 total[Rows][Vectors];
  for (auto& sums : total)
    for (vec16& t : sums) t = all(0.0f);
  for (size_t c = 0; c < width; ++c) {
    vec16 key[Vectors];
    for (size_t v = 0; v < Vectors; ++v) key[v] = load(panel + (v * width + c) * lane_count);
    for (size_t r = 0; r < Rows; ++r) {
      const vec16 x = all(query[r][c]);
      for (size_t v = 0; v < Vectors; ++v) total[r][v] = fma(x, key[v], total[r][v]);
    }
  }
  const vec16 scale = all(q.args.scale);
  for (size_t r = 0; r < Rows; ++r)
    for (size_t v = 0; v < Vectors; ++v)
      store(q.score + (row + r) * q.score_stride() + (block + v) * lane_count, total[r][v] * scale);
}

template <size_t Vectors>
void score_blocks(const query_block& q, size_t block) {
  size_t row = 0;
  for (; row + tile_rows <= q.count; row += tile_rows)
    score_tile<tile_rows, Vectors>(q, row, block);
  for (; row < q.count; ++row) score_tile<1, Vectors>(q, row, block);
}

// Turns a row of scores into exp(score - m) and returns their sum.
float soften(float* score, size_t keys, size_t padded) {
  for (size_t i = keys; i < padded; ++i) score[i] = minus_infinity;
  vec16 most = all(minus_infinity);
  for (size_t i = 0; i < padded; i += lane_count) most = max(load(score + i), most);
  const vec16 shift = all(largest(most));
  vec16 total = all(0.0f);
  for (size_t i = 0; i < padded; i += lane_count) {
    const vec16 e = exp(load(score + i) - shift);
    total = total + e;
    store(score + i, e);
  }
  return sum(total);
}

/// Keys [first, last) and 16 * Vectors channels of them.
struct value_range {
  size_t first;
  size_t last;
  size_t channel;
};

template <size_t Rows, size_t Vectors>
DEEPINFER_INLINE void value_tile(const query_block& q, size_t row, const value_range& range) {
  const full_attention_args& a = q.args;
  const float* value = a.value + q.head * a.width + range.channel;
  const size_t tail = a.width - range.channel;  // channels left; the last vector may be short
  float* gather = q.gather + row * q.out_stride() + range.channel;
  const float* weight = q.score + row * q.score_stride();
  vec16 total[Rows][Vectors];
  for (size_t r = 0; r < Rows; ++r)
    for (size_t v = 0; v < Vectors; ++v)
      total[r][v] = load(gather + r * q.out_stride() + v * lane_count);
  for (size_t i = range.first; i < range.last; ++i) {
    vec16 x[Vectors];
    for (size_t v = 0; v < Vectors; ++v)
      x[v] = tail >= Vectors * lane_count ? load(value + i * a.stride + v * lane_count)
                                          : load_first(value + i * a.stride, tail);
    for (size_t r = 0; r < Rows; ++r) {
      const vec16 w = all(weight[r * q.score_stride() + i]);
      for (size_t v = 0; v < Vectors; ++v) total[r][v] = fma(w, x[v], total[r][v]);
    }
  }
  for (size_t r = 0; r < Rows; ++r)
    for (size_t v = 0; v < Vectors; ++v)
      store(gather + r * q.out_stride() + v * lane_count, total[r][v]);
}

template <size_t Vectors>
void value_rows(const query_block& q, const value_range& range) {
  size_t row = 0;
  for (; row + tile_rows <= q.count; row += tile_rows)
    value_tile<tile_rows, Vectors>(q, row, range);
  for (; row < q.count; ++row) value_tile<1, Vectors>(q, row, range);
}

void attend(const query_block& q) {
  const full_attention_args& a = q.args;
  const size_t blocks = blocks_of(a.rows);
  size_t block = 0;
  for (; block + tile_vectors <= blocks; block += tile_vectors)
    score_blocks<tile_vectors>(q, block);
  for (; block < blocks; ++block) score_blocks<1>(q, block);
  float total[most_queries];
  for (size_t i = 0; i < q.count; ++i)
    total[i] = soften(q.score + i * q.score_stride(), a.rows, q.score_stride());
  std::fill_n(q.gather, q.count * q.out_stride(), 0.0f);
  for (size_t first = 0; first < a.rows; first += chunk_keys) {
    const size_t last = std::min<size_t>(a.rows, first + chunk_keys);
    size_t c = 0;
    for (; c + tile_vectors * lane_count <= a.width; c += tile_vectors * lane_count)
      value_rows<tile_vectors>(q, {first, last, c});
    for (; c < a.width; c += lane_count) value_rows<1>(q, {first, last, c});
  }
  for (size_t i = 0; i < q.count; ++i) {
    float* out = a.out + ((q.first + i) * a.heads + q.head) * a.width;
    const vec16 divisor = all(total[i]);
    for (size_t c = 0; c < a.width; c += lane_count)
      store_first(out + c, round_to(load(q.gather + i * q.out_stride() + c) / divisor, a.round),
                  a.width - c);
  }
}

// Queries whose scores fit into the scratch memory. Any number gives the same bits.
size_t queries_of(const full_attention_args& a) {
  const size_t of_one = (blocks_of(a.rows) + blocks_of(a.width)) * lane_count;
  return std::clamp<size_t>(scratch_minimum / sizeof(float) / of_one, 1, most_queries);
}

void turn_head(
    float* head, const float* cos, const float* sin, size_t pairs, size_t half, rounding round) {
  for (size_t i = 0; i < pairs; ++i) {
    const float x = head[i], y = head[i + half];
    head[i] = rounded(x * cos[i] - y * sin[i], round);
    head[i + half] = rounded(y * cos[i] + x * sin[i], round);
  }
}

void turn_patch(const grid_rope_args& a, size_t patch) {
  const size_t quarter = a.head_width / 4, half = a.head_width / 2;
  const size_t down = patch / a.grid_columns * quarter, across = patch % a.grid_columns * quarter;
  for (size_t h = 0; h < a.heads; ++h) {
    float* head = a.data + patch * a.stride + h * a.head_width;
    turn_head(head, a.cos + down, a.sin + down, quarter, half, a.round);
    turn_head(head + quarter, a.cos + across, a.sin + across, quarter, half, a.round);
  }
}

void merge_cell(const merge_cells_args& a, size_t cell) {
  const size_t area = size_t{a.side} * a.side;
  const size_t across = (a.grid_columns + a.side - 1) / a.side;
  float* out = a.out + cell * a.width * area;
  for (size_t y = 0; y < a.side; ++y)
    for (size_t x = 0; x < a.side; ++x) {
      const size_t row = cell / across * a.side + y, column = cell % across * a.side + x;
      float* to = out + y * a.side + x;
      if (row < a.grid_rows && column < a.grid_columns) {
        const float* in = a.in + (row * a.grid_columns + column) * a.width;
        for (size_t c = 0; c < a.width; ++c) to[c * area] = in[c];
      } else {
        for (size_t c = 0; c < a.width; ++c) to[c * area] = 0;
      }
    }
}

}  // namespace

void grid_rope(stream& queue, const grid_rope_args& a) {
  parallel(queue, size_t{a.grid_rows} * a.grid_columns, 64,
           [&a](const worker&, size_t first, size_t last) {
             for (size_t i = first; i < last; ++i) turn_patch(a, i);
           });
}

void full_attention(stream& queue, const full_attention_args& a) {
  const size_t blocks = blocks_of(a.rows);
  parallel(queue, blocks * a.heads, 16, [&a, blocks](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) make_panel(a, i / blocks, i % blocks);
  });
  const size_t queries = queries_of(a), parts = (a.rows + queries - 1) / queries;
  parallel(queue, parts * a.heads, 1,
           [&a, queries, parts](const worker& self, size_t begin, size_t end) {
             auto* scratch = reinterpret_cast<float*>(self.scratch);
             for (size_t i = begin; i < end; ++i) {
               const size_t first = i % parts * queries;
               const size_t count = std::min<size_t>(queries, a.rows - first);
               attend({a, i / parts, first, count, scratch,
                       scratch + queries * blocks_of(a.rows) * lane_count});
             }
           });
}

void add(stream& queue, const add_args& a) {
  parallel(queue, a.count, elements_per_piece, [&a](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < last; i += lane_count) {
      const size_t count = std::min(lane_count, last - i);
      const vec16 sum = load_first(a.a + i, count) + load_first(a.b + i, count);
      store_first(a.out + i, round_to(sum, a.round), count);
    }
  });
}

// In double: a few of a thousand operations that follow, and the last bit is right.
void gelu(stream& queue, const gelu_args& a) {
  constexpr double half_root = 0.70710678118654752;
  parallel(queue, a.count, elements_per_piece, [&a](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const double x = a.in[i];
      const double y = 0.5 * x * (1 + portable_erf(x * half_root));
      a.out[i] = rounded(static_cast<float>(y), a.round);
    }
  });
}

void merge_cells(stream& queue, const merge_cells_args& a) {
  const size_t down = (a.grid_rows + a.side - 1) / a.side;
  const size_t across = (a.grid_columns + a.side - 1) / a.side;
  parallel(queue, down * across, 4, [&a](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) merge_cell(a, i);
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
