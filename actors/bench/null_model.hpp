#pragma once

#include "runtime/model/step_model.hpp"

#include <chrono>
#include <memory>

namespace deepinfer::bench {

/// A model that computes nothing. The token it "chooses" is the time at which it did, so that
/// whoever sees the token knows how old it is.
struct null_model_options {
  std::chrono::microseconds step{0};  ///< how long a step takes at least; 0: no wait at all
};
[[nodiscard]] std::shared_ptr<model::step_model> make_null_model(const null_model_options& options);

/// The steady clock in microseconds, modulo what a token id holds (2^31, 36 minutes). The same
/// clock in all processes of a machine.
[[nodiscard]] int32_t stamp_now();
/// Microseconds from `then` to `now`, both stamps.
[[nodiscard]] int32_t stamp_age(int32_t then, int32_t now);

}  // namespace deepinfer::bench
