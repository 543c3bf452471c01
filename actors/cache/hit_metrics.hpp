#pragma once

#include "runtime/base/metrics.hpp"

#include <chrono>
#include <cstdint>

namespace deepinfer {

/// A way that bytes take; members may be null.
struct way_metrics {
  histogram* seconds = nullptr;
  counter* bytes = nullptr;

  void took(std::chrono::nanoseconds time, uint64_t moved) const {
    if (moved == 0) return;
    if (seconds != nullptr) seconds->observe(std::chrono::duration<double>(time).count());
    if (bytes != nullptr) bytes->add(static_cast<double>(moved));
  }
};

/// What prefill engines take from the cache (OB-1). Only what came is measured: what did not is
/// counted by the engine's card.
struct hit_metrics {
  way_metrics fetch;  ///< from the question to the fetch process to its answer
  way_metrics swap;   ///< from the first block's copy to the last stage in the sequence
  way_metrics rings;  ///< from the question to their host until they are here
};

/// What a store does for others (OB-1), from the question to the answer; only what was done.
struct store_metrics {
  way_metrics read;   ///< into memory that readers pull from
  way_metrics write;  ///< pulled, verified and on the medium as the policy says
};

}  // namespace deepinfer
