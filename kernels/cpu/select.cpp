#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/selection.hpp"

#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

static_assert((source_chunk + candidate_words(most_kept)) * sizeof(uint32_t) <= scratch_minimum);

struct row_source {
  const float* score;
  size_t count;
  [[nodiscard]] const float* chunk(size_t first, size_t) const { return score + first; }
};

// The scores of blocks, computed where they are asked for.
struct block_source {
  const select_blocks_args& args;
  const float* score;
  size_t count;   // blocks
  size_t pinned;  // wins whatever its entries say; none when == count
  float* room;    // source_chunk

  [[nodiscard]] const float* chunk(size_t first, size_t n) const {
    size_t done = args.block_size == 8 ? eights(first, n) : 0;
    for (; done < n; ++done) {
      const size_t begin = (first + done) * args.block_size;
      const size_t end = std::min<size_t>(begin + args.block_size, args.entries);
      float most = minus_infinity;
      for (size_t j = begin; j < end; ++j) most = score[j] > most ? score[j] : most;
      room[done] = most;
    }
    if (pinned >= first && pinned < first + n) room[pinned - first] = -minus_infinity;
    return room;
  }

  // 32 blocks of eight at a time: entry k of every second block in one vector.
  [[nodiscard]] size_t eights(size_t first, size_t n) const {
    size_t done = 0;
    for (; done + 32 <= n && (first + done + 32) * 8 <= args.entries; done += 32) {
      const float* in = score + (first + done) * 8;
      ivec16 v[16];
      for (size_t i = 0; i < 16; ++i)
        v[i] = bits_of(max(load(in + i * lane_count), all(minus_infinity)));  // no NaN
      transpose(v);
      vec16 even = floats_of(v[0]), odd = floats_of(v[8]), low, high;
      for (size_t k = 1; k < 8; ++k) {
        even = max(even, floats_of(v[k]));
        odd = max(odd, floats_of(v[8 + k]));
      }
      interleave(even, odd, low, high);
      store(room + done, low);
      store(room + done + lane_count, high);
    }
    return done;
  }
};

uint32_t* words_of(const worker& self) {
  return reinterpret_cast<uint32_t*>(self.scratch);
}

void select_row(const worker& self, const select_top_args& a, size_t r) {
  const float* score = a.score + r * a.score_stride;
  int32_t* out = a.index + r * a.keep;
  uint32_t count = 0;
  if (a.keep >= a.entries) {  // all that are numbers
    for (uint32_t j = 0; j < a.entries; ++j)
      if (score[j] > minus_infinity) out[count++] = static_cast<int32_t>(j);
  } else if (a.keep > 0) {
    candidate_list list = make_candidates(words_of(self), a.keep);
    select_best(row_source{score, a.entries}, a.keep, list);
    count = static_cast<uint32_t>(list.count);
    std::memcpy(out, list.index, count * sizeof *out);
  }
  a.count[r] = count;
}

void select_row_blocks(const worker& self, const select_blocks_args& a, size_t r) {
  const size_t blocks = (size_t{a.entries} + a.block_size - 1) / a.block_size;
  uint8_t* mask = a.mask + r * a.mask_stride;
  const size_t pinned = a.visible[r] > 0 ? (a.visible[r] - 1) / a.block_size : blocks;
  auto* room = reinterpret_cast<float*>(self.scratch);
  const block_source scores{a, a.score + r * a.score_stride, blocks, pinned, room};
  std::memset(mask, 0, blocks);
  if (a.keep >= blocks) {
    for (size_t first = 0; first < blocks; first += source_chunk) {
      const size_t n = std::min(source_chunk, blocks - first);
      const float* score = scores.chunk(first, n);
      for (size_t b = 0; b < n; ++b) mask[first + b] = score[b] > minus_infinity ? 1 : 0;
    }
  } else if (a.keep > 0) {
    candidate_list list = make_candidates(words_of(self) + source_chunk, a.keep);
    select_best(scores, a.keep, list);
    for (size_t i = 0; i < list.count; ++i) mask[list.index[i]] = 1;
  }
}

// Scores that make a hand-over to other threads worth its time.
constexpr size_t worth_a_thread = 32 * 1024;

size_t grain_of(size_t rows, size_t entries) {
  return rows * entries < worth_a_thread ? rows : std::max<size_t>(1, 8192 / entries);
}

}  // namespace

void select_blocks(stream& queue, const select_blocks_args& a) {
  if (a.rows == 0 || a.entries == 0) return;
  parallel(queue, a.rows, grain_of(a.rows, a.entries),
           [&](const worker& self, size_t first, size_t last) {
             for (size_t r = first; r < last; ++r) select_row_blocks(self, a, r);
           });
}

void select_top(stream& queue, const select_top_args& a) {
  if (a.rows == 0) return;
  parallel(queue, a.rows, grain_of(a.rows, std::max(a.entries, 1u)),
           [&](const worker& self, size_t first, size_t last) {
             for (size_t r = first; r < last; ++r) select_row(self, a, r);
           });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
