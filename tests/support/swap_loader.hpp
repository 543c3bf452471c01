#pragma once

#include "runtime/model/swap_landing.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

/// Stands for the thread that copies a prefix hit's blocks beside the one that steps.
namespace deepinfer::test {

using block_bytes_list = std::vector<std::vector<std::byte>>;

/// Numbers 0 .. count - 1 in a random order.
inline std::vector<uint32_t> shuffled(uint32_t count, rng& random) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(out[i - 1], out[random.below(i)]);
  return out;
}

/// Until a waiting step has met `count` closed gates.
inline void await_blocked(const model::swap_gate& gate, uint32_t count) {
  for (uint32_t seen = gate.blocked(); seen < count; seen = gate.blocked())
    gate.blocked().wait(seen);
}

inline void load_stage(model::swap_in& to,
                       uint32_t stage,
                       const block_bytes_list& blocks,
                       rng& random) {
  for (const uint32_t block : shuffled(to.blocks(), random))
    REQUIRE(to.load(stage, block, blocks[block]));
}

/// Stages and blocks in random order, racing with the step.
inline void load_racing(model::swap_in& to, const block_bytes_list& blocks, rng& random) {
  for (const uint32_t stage : shuffled(to.stages(), random)) {
    load_stage(to, stage, blocks, random);
    to.ready(stage);
  }
}

/// Poison first, then the right bytes of each stage at the last moment: once the step waits for the
/// first stage that is not ready. A step that reads before an event reads poison.
inline void load_late(model::swap_in& to,
                      const model::swap_gate& gate,
                      const block_bytes_list& blocks,
                      rng& random) {
  block_bytes_list poison = blocks;
  for (auto& block : poison) block.assign(block.size(), std::byte{0xFF});
  for (uint32_t stage = 0; stage < to.stages(); ++stage) load_stage(to, stage, poison, random);
  std::vector<bool> ready(to.stages(), false);
  uint32_t first_shut = 0, met = 1;
  for (const uint32_t stage : shuffled(to.stages(), random)) {
    await_blocked(gate, met);
    load_stage(to, stage, blocks, random);
    to.ready(stage);
    ready[stage] = true;
    if (stage != first_shut) continue;
    while (first_shut < ready.size() && ready[first_shut]) ++first_shut;
    ++met;
  }
}

}  // namespace deepinfer::test
