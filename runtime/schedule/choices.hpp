#pragma once

#include "proto/types/ids.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <algorithm>
#include <cstdint>

/// What tells the answers ("choices") of one request apart. Engines know nothing of choices: to
/// them each is a request.
namespace deepinfer::schedule {

/// The id that engines know a choice by; the request's own for choice 0. Different for all choices
/// of a request, since the step is odd.
[[nodiscard]] constexpr request_id choice_id(const request_id& request, uint32_t choice) noexcept {
  return {request.hi, request.lo + choice * uint64_t{0x9E3779B97F4A7C15}};
}

/// The sampling seed of a choice: the request's own for choice 0, so that one answer is what it
/// would be alone; for choice i the i-th number of splitmix64 from that seed. Part of every
/// recorded run.
[[nodiscard]] constexpr uint64_t choice_seed(uint64_t seed, uint32_t choice) noexcept {
  uint64_t state = seed, out = seed;
  for (uint32_t i = 0; i < choice; ++i) out = splitmix64(state);
  return out;
}

/// The limits of each of `choices` > 0 answers. They share one connection, so they share its credit
/// window, too: what a slow client has not taken stays bounded, however many answers it wanted.
[[nodiscard]] inline request_limits limits_of_choice(request_limits limits, uint32_t choices) {
  limits.credit_window = std::max(1u, limits.credit_window / choices);
  return limits;
}

}  // namespace deepinfer::schedule
