#pragma once

#include "runtime/model/step_model.hpp"

#include <span>

namespace deepinfer::test {

/// Computes `tokens` (empty: the last sampled one) and samples behind them.
inline model::step_item sampling(model::sequence& target,
                                 std::span<const int32_t> tokens,
                                 const model::sampling_params& params = {}) {
  model::step_item item;
  item.target = &target;
  item.tokens = tokens;
  item.sample = true;
  item.sampling = params;
  return item;
}

}  // namespace deepinfer::test
