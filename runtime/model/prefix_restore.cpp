#include "runtime/model/prefix_restore.hpp"

#include "runtime/model/v41_sequence.hpp"

#include <algorithm>
#include <numeric>

namespace deepinfer::model {
namespace {

// Where every source begins a group of tokens; not met by any prompt where it is beyond 32 bits.
uint32_t group_tokens(const v41_config& config) {
  uint64_t tokens = 1;
  for (const uint32_t layer : config.kv_sources)
    tokens = std::min<uint64_t>(std::lcm(tokens, uint64_t{config.ratios[layer]}), UINT32_MAX);
  return static_cast<uint32_t>(tokens);
}

}  // namespace

replay_cone exact_cone(const v41_config& config, replay_setting replay, const prefix_hit& at) {
  const uint32_t kept = kept_from(at.prompt, replay);
  replay_cone cone{at.hit, config.layers, config.window - 1, group_tokens(config)};
  if (kept == 0) return cone;
  cone.end = std::min(at.hit, kept);
  cone.layers = config.decoder_start() + 1;
  return cone;
}

uint32_t restore_start(const v41_config& config,
                       replay_setting replay,
                       const prefix_hit& at,
                       restore_mode mode) {
  if (mode == restore_mode::ring) return at.hit;
  if (mode == restore_mode::exact) return exact_cone(config, replay, at).first_key(0);
  // One window, and no row of a group that the hit leaves open may be missing.
  uint32_t back = config.window;
  for (const uint32_t layer : config.kv_sources)
    back = std::max(back, at.hit % config.ratios[layer]);
  return at.hit - std::min(at.hit, back);
}

uint32_t usable_hit(replay_setting replay, const prefix_hit& at, restore_mode mode) {
  const uint32_t kept = kept_from(at.prompt, replay);
  if (mode != restore_mode::ring || kept == 0 || at.hit <= kept) return at.hit;
  return kept / block_tokens * block_tokens;
}

restore_plan plan_prefix(const v41_config& config,
                         replay_setting replay,
                         const stored_prefix& at,
                         restore_mode mode) {
  if (at.prompt == 0 || config.kv_sources.empty()) return {};
  const uint32_t blocks = std::min(at.blocks, (at.prompt - 1) / block_tokens);
  const uint32_t hit = usable_hit(replay, {blocks * block_tokens, at.prompt}, mode);
  const uint32_t start = restore_start(config, replay, {hit, at.prompt}, mode);
  if (start == 0) return {};
  return {hit, start};
}

}  // namespace deepinfer::model
