#include "runtime/model/prefix_restore.hpp"

#include "runtime/model/v41_sequence.hpp"

#include <algorithm>
#include <numeric>

namespace deepinfer::model {
namespace {

// Where every source begins a group of tokens.
uint64_t group_tokens(const v41_config& config) {
  uint64_t tokens = 1;
  for (const uint32_t layer : config.kv_sources)
    tokens = std::lcm(tokens, uint64_t{config.ratios[layer]});
  return tokens;
}

}  // namespace

uint32_t restore_start(const v41_config& config,
                       replay_setting replay,
                       const prefix_hit& at,
                       restore_mode mode) {
  const uint32_t kept = kept_from(at.prompt, replay);
  uint64_t back = 0, from = at.hit;
  switch (mode) {
    case restore_mode::ring:
      return at.hit;
    case restore_mode::bounded:
      back = config.window;
      // No row of a group that the hit leaves open may be missing.
      for (const uint32_t layer : config.kv_sources)
        back = std::max<uint64_t>(back, at.hit % config.ratios[layer]);
      break;
    case restore_mode::exact: {
      const uint64_t depth = kept == 0 ? config.layers : uint64_t{config.decoder_start()} + 1;
      back = depth * (config.window - 1);
      if (kept != 0) from = std::min<uint64_t>(from, kept);
      break;
    }
  }
  const uint64_t start = from - std::min(from, back);
  const bool exact = mode == restore_mode::exact;
  return static_cast<uint32_t>(exact ? start - start % group_tokens(config) : start);
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
