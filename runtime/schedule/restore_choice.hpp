#pragma once

#include "runtime/model/step_model.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

/// What a prompt takes from the cache, and how its window rings come to be: the way whose expected
/// time is the shortest (KV-27, KV-37). Pure.
namespace deepinfer::schedule {

/// Rings that are kept right behind the first `blocks` blocks.
struct ring_offer {
  uint32_t blocks = 0;
  uint64_t bytes = 0;  ///< that have to come from another machine; 0 for those that are here
};

struct restore_offer {
  uint32_t prompt_tokens = 0;
  uint32_t hit_blocks = 0;      ///< from the first on
  uint32_t min_hit_blocks = 0;  ///< shorter hits are computed instead (KV-35)
  uint64_t block_bytes = 0;     ///< of each block that has to be fetched; 0 when they are here
  model::restore_mode replay = model::restore_mode::exact;  ///< without rings
  std::span<const ring_offer> rings;
  uint64_t queued_bytes = 0;  ///< of other hits that are being fetched: they come first
};

/// Per second; 0: not measured, and then it costs nothing: who never tries never learns.
struct restore_rates {
  double computed_tokens = 0;
  double fetched_bytes = 0;
  double ring_bytes = 0;
};

enum class restore_reason : uint8_t {
  none_stored,          ///< no blocks
  too_short,            ///< below the minimum, or too little for the model to save a token
  computing_is_faster,  ///< fetching takes longer than computing (KV-27)
  rings_kept,           ///< they come faster than a replay computes them
  rings_slow,           ///< they are kept, but a replay is faster
  no_rings,             ///< none that fit: a replay
};
/// For counters: "hit_rings_kept", ...
[[nodiscard]] std::string_view to_string(restore_reason reason);

struct restore_choice {
  model::restore_mode mode = model::restore_mode::exact;
  model::restore_plan plan;    ///< hit 0: computed from the first token on
  std::optional<size_t> ring;  ///< index of the offer, for mode `ring`
  restore_reason reason = restore_reason::none_stored;
};

/// What the model can restore; see `step_model::plan_restore`.
using restore_planner = std::function<model::restore_plan(
    uint32_t prompt_tokens, uint32_t blocks, model::restore_mode)>;

[[nodiscard]] restore_choice choose_restore(const restore_offer& offer,
                                            const restore_rates& rates,
                                            const restore_planner& planner);

/// How long computing `tokens` takes; nothing while that was never measured.
[[nodiscard]] std::optional<std::chrono::nanoseconds> computing_time(uint32_t tokens,
                                                                     const restore_rates& rates);

/// Something per second, as it was lately. What was measured long ago counts as not measured, so
/// that one bad minute does not keep everybody from trying again.
class recent_rate {
public:
  explicit recent_rate(std::chrono::nanoseconds forget_after) : forget_after_(forget_after) {}

  void measured(double amount, std::chrono::nanoseconds took, std::chrono::nanoseconds now);
  [[nodiscard]] double at(std::chrono::nanoseconds now) const;

private:
  std::chrono::nanoseconds forget_after_;
  std::chrono::nanoseconds last_{};
  double value_ = 0;
};

}  // namespace deepinfer::schedule
