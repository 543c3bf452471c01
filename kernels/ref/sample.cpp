#include "kernels/api/sample.hpp"

#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace deepinfer::kernels::ref {
namespace {

// The tokens that the filters keep, best first; empty when there is none to choose.
std::vector<uint32_t> kept_tokens(const float* logits, uint32_t width, const sample_rule& rule) {
  std::vector<uint32_t> kept;
  for (uint32_t v = 0; v < width; ++v) {
    if (std::isnan(logits[v]) || logits[v] == std::numeric_limits<float>::infinity()) return {};
    if (std::isfinite(logits[v])) kept.push_back(v);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  if (rule.temperature == 0) return {kept.begin(), kept.empty() ? kept.end() : kept.begin() + 1};
  if (rule.top_k != 0 && rule.top_k < kept.size()) kept.resize(rule.top_k);
  if (rule.top_p >= 1 || kept.size() < 2) return kept;
  uint64_t total = 0, seen = 0;
  for (const uint32_t v : kept) total += token_mass(logits[v], logits[kept[0]], rule.temperature);
  const uint64_t needed = std::max<uint64_t>(1, nucleus_mass(rule.top_p, total));
  size_t length = 0;
  while (seen < needed)
    seen += token_mass(logits[kept[length++]], logits[kept[0]], rule.temperature);
  kept.resize(length);
  return kept;
}

}  // namespace

void sample(stream&, const sample_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* logits = a.logits + r * a.stride;
    const sample_rule& rule = a.rule[r];
    const std::vector<uint32_t> kept = kept_tokens(logits, a.width, rule);
    int32_t chosen = kept.empty() ? -1 : static_cast<int32_t>(kept[0]);
    double best = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; kept.size() > 1 && i < kept.size(); ++i) {
      const auto token = static_cast<int32_t>(kept[i]);
      const double score = token_score(rule, logits[kept[i]], logits[kept[0]], kept[i]);
      if (score > best || (score == best && token < chosen)) {
        best = score;
        chosen = token;
      }
    }
    a.token[r] = chosen;
  }
}

}  // namespace deepinfer::kernels::ref
