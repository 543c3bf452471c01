#include "kernels/api/sample.hpp"

#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/token_cut.hpp"

#include <cmath>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// ---- the best token ---------------------------------------------------------------------------

uint32_t first_with(const token_row& row, float logit) {
  for (size_t i = 0; i < row.count; i += lane_count) {
    const uint32_t found = bits_of(row.load_at(i) == all(logit));
    if (found != 0) return static_cast<uint32_t>(i) + static_cast<uint32_t>(__builtin_ctz(found));
  }
  return 0;
}

// ---- noise ------------------------------------------------------------------------------------

// The noise words of 64 tokens beginning at 4 * block, in their order.
DEEPINFER_INLINE void noise_words(const sample_rule& rule, uint32_t block, vec16 (&word)[4]) {
  ivec16 c[4] = {all_i(static_cast<uint32_t>(rule.position)),
                 all_i(static_cast<uint32_t>(rule.position >> 32)), counting_from(block),
                 all_i(rule.purpose)};
  uint32_t key[2] = {static_cast<uint32_t>(rule.seed), static_cast<uint32_t>(rule.seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    ivec16 even_high, even_low, odd_high, odd_low;
    multiply_wide(c[0], all_i(philox_multipliers[0]), even_high, even_low);
    multiply_wide(c[2], all_i(philox_multipliers[1]), odd_high, odd_low);
    c[0] = odd_high ^ c[1] ^ all_i(key[0]);
    c[1] = odd_low;
    c[2] = even_high ^ c[3] ^ all_i(key[1]);
    c[3] = even_low;
    key[0] += philox_key_steps[0];
    key[1] += philox_key_steps[1];
  }
  vec16 even[2], odd[2];
  interleave(floats_of(c[0]), floats_of(c[2]), even[0], even[1]);
  interleave(floats_of(c[1]), floats_of(c[3]), odd[0], odd[1]);
  interleave(even[0], odd[0], word[0], word[1]);
  interleave(even[1], odd[1], word[2], word[3]);
}

// 1 - u, at most 2^-25 too large or small.
DEEPINFER_INLINE vec16 distance_from_one(vec16 word) {
  const ivec16 cell = shift_right<8>(bits_of(word));
  return (to_float(all_i(0xFFFFFF) - cell) + all(0.5f)) * all(0x1p-24f);
}

// ---- the draw ---------------------------------------------------------------------------------

// The noise of a token is at most this.
constexpr double most_noise = 17.34;

/// Looks for the token of the highest score. Since -log(u) > 1 - u, a token whose noise reaches g
/// has 1 - u < e^-g; only tokens that pass this test, a handful, are scored in double.
class drawing {
public:
  drawing(const token_row& row, const sample_rule& rule, const token_cut& cut, uint32_t best)
      : row_(row), rule_(rule), cut_(cut), chosen_(best) {
    raise(token_score(rule, row.highest, row.highest, best));
  }

  uint32_t run() {
    for (size_t first = 0; first < row_.count; first += 4 * lane_count) look_at(first);
    return chosen_;
  }

private:
  void raise(double score) {
    score_ = score;
    needed_ = static_cast<float>(score - most_noise);
    offset_ = static_cast<float>(score - 1e-3);  // room for the rounding of what is compared
  }

  DEEPINFER_INLINE void look_at(size_t first) {
    vec16 logit[4], scaled[4];
    uint32_t any = 0;
    for (size_t k = 0; k < 4; ++k) {
      logit[k] = first + k * lane_count < row_.count ? row_.load_at(first + k * lane_count)
                                                     : all(minus_infinity);
      scaled[k] = row_.scaled(logit[k]);
      any |= bits_of((scaled[k] > all(needed_)) & (logit[k] >= all(cut_.logit)));
    }
    if (any == 0) return;
    vec16 word[4];
    noise_words(rule_, static_cast<uint32_t>(first / 4), word);
    for (size_t k = 0; k < 4; ++k) {
      const vec16 reach = exp(scaled[k] - all(offset_));
      uint32_t promising =
          bits_of((reach >= distance_from_one(word[k])) & (logit[k] >= all(cut_.logit)));
      for (; promising != 0; promising &= promising - 1)
        offer(static_cast<uint32_t>(first + k * lane_count) +
              static_cast<uint32_t>(__builtin_ctz(promising)));
    }
  }

  void offer(uint32_t token) {
    if (!cut_.keeps(row_.logits[token], token)) return;
    const double score = token_score(rule_, row_.logits[token], row_.highest, token);
    if (score < score_ || (score == score_ && token >= chosen_)) return;
    chosen_ = token;
    raise(score);
  }

  const token_row& row_;
  const sample_rule& rule_;
  const token_cut& cut_;
  uint32_t chosen_;
  double score_ = 0;
  float needed_ = 0;
  float offset_ = 0;
};

int32_t choose_token(const worker& self, const sample_args& a, size_t r) {
  const sample_rule& rule = a.rule[r];
  token_row row{a.logits + r * a.stride, a.width, 0, rule.temperature};
  row.highest = highest_of(row.logits, row.count);
  if (!(row.highest > minus_infinity)) return -1;
  const uint32_t best = first_with(row, row.highest);
  if (rule.temperature == 0) return static_cast<int32_t>(best);
  token_cut cut;
  if (rule.top_k != 0 && rule.top_k < a.width) cut = cut_to_count(row, rule.top_k, self.scratch);
  if (rule.top_p < 1) cut = cut_to_mass(row, cut, rule.top_p, self.scratch);
  return static_cast<int32_t>(drawing(row, rule, cut, best).run());
}

}  // namespace

void sample(stream& queue, const sample_args& a) {
  by_rows(queue, a.rows, size_t{a.width} * 4, [&](const worker& self, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) a.token[r] = choose_token(self, a, r);
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
