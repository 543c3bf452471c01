#pragma once

#include "actors/cache/kv_backing.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/kv_store.hpp"
#include "runtime/base/config.hpp"

#include <caf/stateful_actor.hpp>

#include <chrono>
#include <functional>

namespace deepinfer {

/// Section `[kvsweep]`: how much of its time a store spends on itself.
struct kv_sweep_config {
  std::chrono::milliseconds every{1000};
  uint64_t blocks = 8192;
  uint64_t compact_bytes = uint64_t{64} << 20;
  std::chrono::milliseconds scrub_pass = std::chrono::hours{24 * 7};
  uint64_t scrub_bytes = uint64_t{64} << 20;

  template <class V>
  void describe(V& v) {
    v.field("every", every, between(10, 3600000), "Pause between two rounds of upkeep.");
    v.field("blocks", blocks, between(1, 10000000),
            "Most blocks that one round removes because they ended, or for space.");
    v.bytes("compact_bytes", compact_bytes, between(4096, int64_t{1} << 40),
            "Most bytes of files that one round rewrites to win space back.");
    v.field("scrub_pass", scrub_pass, between(1000, int64_t{7} * 24 * 3600000),
            "Time in which every block is read and verified once.");
    v.bytes("scrub_bytes", scrub_bytes, between(4096, int64_t{1} << 40),
            "Most bytes that one round verifies.");
  }
};

struct kv_sweep_setup {
  kv_sweep_config config;
  kv_backing backing;
  const remote_hub* hub = nullptr;  ///< outlives the actor
  kv_store_impl_actor store;        ///< told that there is news for those who wait
  std::function<std::chrono::milliseconds()> wall;
  std::function<kv_io_actor()> spawn_io;
};

struct sweep_tick {};

using kv_sweep_actor =
    caf::typed_actor<caf::reacts_to<sweep_tick>,
                     caf::reacts_to<io_done>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// What one round did; the I/O actor's until `io_done`.
struct sweep_round {
  uint64_t expired = 0, evicted = 0, compacted_bytes = 0, scrubbed_bytes = 0;
  uint64_t failures = 0;
};

/// Bytes to verify in a round, so that a pass over `live_bytes` ends in the set time, a tenth
/// earlier for rounds that come late. `owed` carries what is less than a whole block.
[[nodiscard]] uint64_t scrub_budget(const kv_sweep_config& config,
                                    uint64_t live_bytes,
                                    std::chrono::milliseconds passed,
                                    double& owed);

struct kv_sweep_state {
  actor_card card;
  kv_sweep_setup setup;
  kv_io_actor io;
  std::shared_ptr<sweep_round> round;  ///< null between two
  sweep_round last;
  std::chrono::nanoseconds last_begun{};
  double scrub_owed = 0;
};

/// Upkeep of a store beside its readers and writers: expiry, space, rewriting, scrubbing, each
/// with a budget a round, and at most one round at a time however slow the device is.
kv_sweep_actor::behavior_type kv_sweep(kv_sweep_actor::stateful_pointer<kv_sweep_state> self,
                                       const kv_sweep_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::sweep_tick)
