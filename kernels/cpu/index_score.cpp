#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_decode.hpp"

#include <algorithm>
#include <cstddef>

/// Keys lie across the lanes: a score is one chain of fused multiply-adds over the channels, and
/// the heads are added in their order, whatever else is computed beside it.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr size_t tile_vectors = 2;
constexpr size_t tile_keys = tile_vectors * lane_count;
constexpr size_t most_chunk = 512;  // entries of one task

// Up to 32 entries, which need not be neighbours, and their keys as [width][32].
struct key_tile {
  float* channel;
  float* decoded;  // [16][width]: a place to decode into
  uint32_t entry[tile_keys];
  uint32_t count = 0;
};

// ---- keys -----------------------------------------------------------------------------------

using sixteen_rows = const uint8_t* const (&)[lane_count];

// sixteen words of each row, beginning at byte `from`, word w of all rows becoming v[w].
DEEPINFER_INLINE void transposed_words(sixteen_rows row,
                                       size_t from,
                                       size_t words,
                                       ivec16 (&v)[16]) {
  for (size_t i = 0; i < lane_count; ++i) {
    uint32_t word[lane_count] = {};
    if (words == lane_count)
      std::memcpy(word, row[i] + from, sizeof word);
    else
      std::memcpy(word, row[i] + from, words * 4);
    v[i] = load_i(word);
  }
  transpose(v);
}

DEEPINFER_INLINE vec16 group_scales(sixteen_rows row, size_t at) {
  float scale[lane_count];
  for (size_t i = 0; i < lane_count; ++i) scale[i] = ue8m0_value(row[i][at]);
  return load(scale);
}

template <int Nibble>
DEEPINFER_INLINE void store_nibble(ivec16 word, vec16 magnitudes, vec16 scale, float* out) {
  const ivec16 code = Nibble == 0 ? word : shift_right<4 * Nibble>(word);
  store(out + Nibble * tile_keys, e2m1_values_of(code, magnitudes) * scale);
}

// Eight channels lie in a word, 32 in a group: the words are turned, not the numbers.
void decode_fp4_32(sixteen_rows row, size_t width, float* out) {
  const vec16 magnitudes = e2m1_magnitudes();
  for (size_t first = 0; first < width; first += 8 * lane_count) {
    const size_t words = std::min<size_t>(lane_count, (width - first) / 8);
    ivec16 v[16];
    transposed_words(row, first / 2, words, v);
    vec16 scale = all(0.0f);
    for (size_t w = 0; w < words; ++w) {
      if (w % 4 == 0) scale = group_scales(row, width / 2 + (first + 8 * w) / 32);
      float* channel = out + (first + 8 * w) * tile_keys;
      store_nibble<0>(v[w], magnitudes, scale, channel);
      store_nibble<1>(v[w], magnitudes, scale, channel);
      store_nibble<2>(v[w], magnitudes, scale, channel);
      store_nibble<3>(v[w], magnitudes, scale, channel);
      store_nibble<4>(v[w], magnitudes, scale, channel);
      store_nibble<5>(v[w], magnitudes, scale, channel);
      store_nibble<6>(v[w], magnitudes, scale, channel);
      store_nibble<7>(v[w], magnitudes, scale, channel);
    }
  }
}

void turn_floats(sixteen_rows row, size_t width, float* out) {
  for (size_t first = 0; first < width; first += lane_count) {
    const size_t words = std::min(lane_count, width - first);
    ivec16 v[16];
    transposed_words(row, first * 4, words, v);
    for (size_t w = 0; w < words; ++w) store(out + (first + w) * tile_keys, floats_of(v[w]));
  }
}

// Lanes without an entry repeat the last one.
void decode_tile(const paged_rows& keys, uint32_t width, key_tile& tile) {
  const size_t row_bytes = packed_row_bytes(keys.format, width);
  for (size_t part = 0; part < tile_vectors; ++part) {
    const uint8_t* row[lane_count];
    for (size_t i = 0; i < lane_count; ++i) {
      const size_t at = std::min<size_t>(part * lane_count + i, tile.count - 1);
      row[i] = row_of(keys, tile.entry[at], row_bytes);
    }
    float* out = tile.channel + part * lane_count;
    if (keys.format == row_format::fp4_32) {
      decode_fp4_32(row, width, out);
    } else if (keys.format == row_format::f32) {
      turn_floats(row, width, out);
    } else {
      const uint8_t* floats[lane_count];
      for (size_t i = 0; i < lane_count; ++i) {
        decode_row(keys.format, row[i], width, tile.decoded + i * width);
        floats[i] = reinterpret_cast<const uint8_t*>(tile.decoded + i * width);
      }
      turn_floats(floats, width, out);
    }
  }
}

// ---- scores ---------------------------------------------------------------------------------

// total[v] += weight[h] * scale * max(0, query[h] . keys) for `Heads` heads in order.
template <size_t Heads>
DEEPINFER_INLINE void add_heads(const float* query,
                                const float* weight,
                                const index_score_args& a,
                                const float* channel,
                                vec16 (&total)[tile_vectors]) {
  vec16 product[Heads][tile_vectors];
  for (auto& head : product)
    for (vec16& p : head) p = all(0.0f);
  const size_t width = a.width;
  for (size_t c = 0; c < width; ++c) {
    vec16 key[tile_vectors];
    for (size_t v = 0; v < tile_vectors; ++v)
      key[v] = load(channel + c * tile_keys + v * lane_count);
    for (size_t h = 0; h < Heads; ++h) {
      const vec16 q = all(query[h * width + c]);
      for (size_t v = 0; v < tile_vectors; ++v) product[h][v] = fma(q, key[v], product[h][v]);
    }
  }
  for (size_t h = 0; h < Heads; ++h)
    for (size_t v = 0; v < tile_vectors; ++v)
      total[v] = fma(all(weight[h] * a.scale), max(product[h][v], all(0.0f)), total[v]);
}

void score_row(const index_score_args& a, size_t r, const float* channel, float* out) {
  constexpr size_t step = many_registers ? 8 : 2;
  const float* query = a.query + r * a.heads * a.width;
  const float* weight = a.weight + r * a.heads;
  vec16 total[tile_vectors];
  for (vec16& t : total) t = all(0.0f);
  size_t h = 0;
  for (; h + step <= a.heads; h += step)
    add_heads<step>(query + h * a.width, weight + h, a, channel, total);
  for (; h < a.heads; ++h) add_heads<1>(query + h * a.width, weight + h, a, channel, total);
  for (size_t v = 0; v < tile_vectors; ++v) store(out + v * lane_count, total[v]);
}

bool is_wanted(const index_score_args& a, size_t r, uint32_t entry) {
  return entry < a.visible[r] &&
         (a.block_mask == nullptr || a.block_mask[r * a.mask_stride + entry / a.block_size] != 0);
}

void score_tile(const index_score_args& a, key_tile& tile) {
  if (tile.count == 0) return;
  decode_tile(a.keys, a.width, tile);
  for (size_t r = 0; r < a.rows; ++r) {
    bool wanted[tile_keys], any = false;
    for (uint32_t i = 0; i < tile.count; ++i) any |= wanted[i] = is_wanted(a, r, tile.entry[i]);
    if (!any) continue;
    float score[tile_keys];
    score_row(a, r, tile.channel, score);
    for (uint32_t i = 0; i < tile.count; ++i)
      if (wanted[i]) a.score[r * a.score_stride + tile.entry[i]] = score[i];
  }
  tile.count = 0;
}

bool wanted_by_any(const index_score_args& a, uint32_t entry) {
  for (size_t r = 0; r < a.rows; ++r)
    if (is_wanted(a, r, entry)) return true;
  return false;
}

// Entries [first, last). Whether an entry is wanted is the same within a block up to the newest
// visible one, so a block is asked about by its first entry.
void score_entries(const index_score_args& a, uint32_t first, uint32_t last, key_tile& tile) {
  for (size_t r = 0; r < a.rows; ++r)
    std::fill(a.score + r * a.score_stride + first, a.score + r * a.score_stride + last,
              minus_infinity);
  uint32_t visible = 0;
  for (size_t r = 0; r < a.rows; ++r) visible = std::max(visible, a.visible[r]);
  const uint32_t end = std::min(last, visible);
  const uint32_t block = a.block_mask == nullptr ? most_chunk : a.block_size;
  for (uint32_t begin = first; begin < end;) {
    const uint32_t block_end = std::min(end, (begin / block + 1) * block);
    if (a.block_mask == nullptr || wanted_by_any(a, begin))
      for (uint32_t entry = begin; entry < block_end; ++entry) {
        tile.entry[tile.count++] = entry;
        if (tile.count == tile_keys) score_tile(a, tile);
      }
    begin = block_end;
  }
  score_tile(a, tile);
}

// What a hand-over to other threads must be worth, in multiply-adds.
constexpr double worth_a_thread = 3e5;

}  // namespace

void index_score(stream& queue, const index_score_batch_args& batch) {
  double cost = 0;
  size_t entries = 0;
  for (uint32_t i = 0; i < batch.count; ++i) {
    const index_score_args& a = batch.items[i];
    entries += a.entries;
    cost += double{1} * a.rows * a.heads * a.width * a.entries;
  }
  const size_t threads = cost < worth_a_thread ? 1 : thread_count(queue);
  const size_t share = entries / (threads * 4) / 64 * 64;
  const size_t chunk = threads == 1 ? most_chunk : std::clamp<size_t>(share, 64, most_chunk);
  const auto tasks_of = [chunk](const index_score_args& a) {
    return (a.entries + chunk - 1) / chunk;
  };
  size_t tasks = 0;
  for (uint32_t i = 0; i < batch.count; ++i) tasks += tasks_of(batch.items[i]);
  parallel(queue, tasks, threads == 1 ? std::max<size_t>(tasks, 1) : 1,
           [&](const worker& self, size_t first, size_t last) {
             key_tile tile;
             tile.channel = reinterpret_cast<float*>(self.scratch);
             const index_score_args* a = batch.items;
             for (size_t task = first, passed = 0; task < last; ++task) {
               for (; task - passed >= tasks_of(*a); ++a) passed += tasks_of(*a);
               tile.decoded = tile.channel + tile_keys * a->width;
               const auto begin = static_cast<uint32_t>((task - passed) * chunk);
               score_entries(*a, begin,
                             std::min<uint32_t>(a->entries, begin + static_cast<uint32_t>(chunk)),
                             tile);
             }
           });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
