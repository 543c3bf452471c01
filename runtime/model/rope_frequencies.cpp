#include "runtime/model/graph_pass.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace deepinfer::model {

// The roundings to fp32 stand where the released model has them: an angle at a far position shows
// the last bit of the frequency.
std::vector<float> rope_frequencies(const v41_config& config,
                                    double base,
                                    const yarn_config& yarn) {
  const uint32_t width = config.rope_width;
  std::vector<float> f(width / 2);
  for (uint32_t j = 0; j < f.size(); ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(width);
    f[j] = 1.0f / static_cast<float>(std::pow(double{static_cast<float>(base)}, double{exponent}));
  }
  if (yarn.original_positions == 0) return f;
  const auto channel_of = [&](double turns) {
    return width * std::log(yarn.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  const double low = std::max(std::floor(channel_of(yarn.fast_turns)), 0.0);
  const double high = std::min(std::ceil(channel_of(yarn.slow_turns)), width - 1.0);
  const auto span = static_cast<float>(std::max(high - low, 1e-3));
  for (uint32_t j = 0; j < f.size(); ++j) {
    const float ramp =
        std::clamp((static_cast<float>(j) - static_cast<float>(low)) / span, 0.0f, 1.0f);
    const float keep = 1 - ramp;
    f[j] = f[j] / static_cast<float>(yarn.factor) * (1 - keep) + f[j] * keep;
  }
  return f;
}

}  // namespace deepinfer::model
