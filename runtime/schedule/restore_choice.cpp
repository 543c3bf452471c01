#include "runtime/schedule/restore_choice.hpp"

#include <algorithm>

namespace deepinfer::schedule {
namespace {

using model::cache_block_tokens;
using model::restore_mode;

double seconds(double amount, double per_second) {
  return per_second > 0 ? amount / per_second : 0;
}

// One way to start a prompt: what it costs in time, then in tokens where no time was measured.
struct way {
  restore_choice choice;
  double time = 0;
  uint32_t computed = 0;

  [[nodiscard]] bool better_than(const way& other) const {
    if (time != other.time) return time < other.time;
    return computed < other.computed;
  }
};

way way_of(const restore_offer& offer,
           const restore_rates& rates,
           const restore_choice& choice,
           uint64_t ring_bytes) {
  const uint64_t bytes =
      offer.queued_bytes + offer.block_bytes * (choice.plan.hit / cache_block_tokens);
  way w{choice, 0, offer.prompt_tokens - choice.plan.start};
  // Blocks and rings come at the same time, by different ways.
  const double arrives = std::max(seconds(static_cast<double>(bytes), rates.fetched_bytes),
                                  seconds(static_cast<double>(ring_bytes), rates.ring_bytes));
  w.time = arrives + seconds(w.computed, rates.computed_tokens);
  // Without a measured speed of computing, times of transfers cannot be weighed against it.
  if (rates.computed_tokens == 0) w.time = 0;
  return w;
}

// Rings belong to exactly their blocks: a plan that can use fewer of those cannot use them.
std::optional<way> ring_way(const restore_offer& offer,
                            const restore_rates& rates,
                            const restore_planner& planner,
                            size_t index) {
  const ring_offer& ring = offer.rings[index];
  if (ring.blocks < offer.min_hit_blocks || ring.blocks > offer.hit_blocks) return std::nullopt;
  const auto plan = planner(offer.prompt_tokens, ring.blocks, restore_mode::ring);
  if (plan.hit != uint64_t{ring.blocks} * cache_block_tokens) return std::nullopt;
  return way_of(offer, rates, {restore_mode::ring, plan, index, restore_reason::rings_kept},
                ring.bytes);
}

}  // namespace

std::string_view to_string(restore_reason reason) {
  switch (reason) {
    case restore_reason::none_stored:
      return "none_stored";
    case restore_reason::too_short:
      return "too_short";
    case restore_reason::computing_is_faster:
      return "computing_is_faster";
    case restore_reason::rings_kept:
      return "rings_kept";
    case restore_reason::rings_slow:
      return "rings_slow";
    case restore_reason::no_rings:
      return "no_rings";
  }
  return "?";
}

restore_choice choose_restore(const restore_offer& offer,
                              const restore_rates& rates,
                              const restore_planner& planner) {
  const auto nothing = [](restore_reason why) {
    restore_choice none;
    none.reason = why;
    return none;
  };
  const auto replay = planner(offer.prompt_tokens, offer.hit_blocks, offer.replay);
  // Rings of the shorter hit come second: at equal cost the bits of the cold run are worth more.
  std::optional<way> best;
  bool rings_fit = false;
  for (size_t i = 0; i < offer.rings.size(); ++i) {
    const auto ring = ring_way(offer, rates, planner, i);
    if (!ring) continue;
    rings_fit = true;
    if (!best || ring->better_than(*best)) best = ring;
  }
  const uint64_t shortest = uint64_t{offer.min_hit_blocks} * cache_block_tokens;
  // An exact replay of a short hit begins at 0: nothing is saved then.
  if (replay.hit > 0 && replay.hit >= shortest && replay.start > 0) {
    const way again = way_of(offer, rates,
                             {offer.replay,
                              replay,
                              {},
                              rings_fit ? restore_reason::rings_slow : restore_reason::no_rings},
                             0);
    if (!best || again.better_than(*best)) best = again;
  }
  if (!best)
    return nothing(offer.hit_blocks == 0 ? restore_reason::none_stored : restore_reason::too_short);
  const double cold = seconds(offer.prompt_tokens, rates.computed_tokens);
  if (rates.computed_tokens > 0 && best->time >= cold)
    return nothing(restore_reason::computing_is_faster);
  return best->choice;
}

std::optional<std::chrono::nanoseconds> computing_time(uint32_t tokens,
                                                       const restore_rates& rates) {
  if (rates.computed_tokens <= 0) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(tokens / rates.computed_tokens));
}

void recent_rate::measured(double amount,
                           std::chrono::nanoseconds took,
                           std::chrono::nanoseconds now) {
  if (took <= std::chrono::nanoseconds::zero() || amount <= 0) return;
  const double sample = amount / std::chrono::duration<double>(took).count();
  constexpr double weight = 0.25;  // of the newest: four samples outweigh all that were before
  const double before = at(now);
  value_ = before == 0 ? sample : before + weight * (sample - before);
  last_ = now;
}

double recent_rate::at(std::chrono::nanoseconds now) const {
  return value_ == 0 || now - last_ > forget_after_ ? 0 : value_;
}

}  // namespace deepinfer::schedule
