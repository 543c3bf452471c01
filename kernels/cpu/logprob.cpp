#include "kernels/api/logprob.hpp"

#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/token_cut.hpp"

#include <cmath>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

static_assert(candidate_words(most_alternatives) * sizeof(uint32_t) <= scratch_minimum);

// The list lies in ascending order of index, so of equal ones the first found is the better.
size_t best_place(const candidate_list& list) {
  size_t best = 0;
  for (size_t i = 1; i < list.count; ++i)
    if (static_cast<int32_t>(list.key[i]) > static_cast<int32_t>(list.key[best])) best = i;
  return best;
}

void write_best(
    const worker& self, const logprob_args& a, size_t r, const token_row& row, double log_masses) {
  candidate_list list = make_candidates(reinterpret_cast<uint32_t*>(self.scratch), a.keep);
  select_best(logit_source{row.logits, row.count}, a.keep, list);
  for (size_t i = 0; i < list.count; ++i) {
    const size_t place = best_place(list);
    const uint32_t id = list.index[place];
    list.key[place] = static_cast<uint32_t>(std::numeric_limits<int32_t>::min());  // taken
    a.best[r * a.keep + i] = static_cast<int32_t>(id);
    a.best_logprob[r * a.keep + i] = logprob_of(row.logits[id], row.highest, log_masses);
  }
}

void write_row(const worker& self, const logprob_args& a, size_t r) {
  a.chosen[r] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = r * a.keep; i < (r + 1) * a.keep; ++i) {
    a.best[i] = -1;
    a.best_logprob[i] = minus_infinity;
  }
  token_row row{a.logits + r * a.stride, a.width, 0, 1};
  row.highest = highest_of(row.logits, row.count);
  if (!(row.highest > minus_infinity)) return;
  const double log_masses = log_of_masses(total_mass(row, token_cut{}));
  a.chosen[r] = logprob_of(row.logits[a.token[r]], row.highest, log_masses);
  if (a.keep != 0) write_best(self, a, r, row, log_masses);
}

}  // namespace

void logprob(stream& queue, const logprob_args& a) {
  by_rows(queue, a.rows, size_t{a.width} * 4, [&](const worker& self, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) write_row(self, a, r);
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
