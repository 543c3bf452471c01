#include "kernels/api/logprob.hpp"

#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace deepinfer::kernels::ref {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// All tokens that may be chosen, best first; empty when the row has none.
std::vector<int32_t> ranked(const float* logits, uint32_t width) {
  std::vector<int32_t> ids;
  for (uint32_t v = 0; v < width; ++v) {
    if (std::isnan(logits[v]) || logits[v] == infinity) return {};
    if (std::isfinite(logits[v])) ids.push_back(static_cast<int32_t>(v));
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

}  // namespace

void logprob(stream&, const logprob_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* logits = a.logits + r * a.stride;
    const std::vector<int32_t> ids = ranked(logits, a.width);
    a.chosen[r] = std::numeric_limits<float>::quiet_NaN();
    for (size_t i = 0; i < a.keep; ++i) {
      a.best[r * a.keep + i] = -1;
      a.best_logprob[r * a.keep + i] = -infinity;
    }
    if (ids.empty()) continue;
    const float highest = logits[ids[0]];
    uint64_t total = 0;
    for (const int32_t id : ids) total += token_mass(logits[id], highest, 1);
    const double log_masses = log_of_masses(total);
    a.chosen[r] = logprob_of(logits[a.token[r]], highest, log_masses);
    for (size_t i = 0; i < std::min<size_t>(a.keep, ids.size()); ++i) {
      a.best[r * a.keep + i] = ids[i];
      a.best_logprob[r * a.keep + i] = logprob_of(logits[ids[i]], highest, log_masses);
    }
  }
}

}  // namespace deepinfer::kernels::ref
