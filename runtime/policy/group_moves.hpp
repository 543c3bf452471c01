#pragma once

#include "runtime/policy/placement.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

/// Which groups a store copies to others or hands over, and when it looks for them: the decisions
/// of a kv_mover. Pure: time comes in.
namespace deepinfer::policy {

/// A store as it describes itself.
struct move_store {
  store_site site;
  uint32_t group_blocks = 0;
  uint32_t replicas = 1;

  [[nodiscard]] storage::block_key id() const { return {site.id_hi, site.id_lo}; }
};

struct move_limits {
  /// Nothing moves before the set of stores has been the same for so long.
  std::chrono::nanoseconds settle = std::chrono::seconds{30};
  /// A store that is gone keeps its place for so long; and so long after its own start nobody
  /// knows who else is only restarting.
  std::chrono::nanoseconds gone_after = std::chrono::minutes{10};
  std::chrono::nanoseconds strays_every = std::chrono::minutes{10};
  std::chrono::nanoseconds copies_every = std::chrono::hours{1};
  /// How long a store that failed is left out; twice as long each time, up to the second.
  std::chrono::nanoseconds left_out = std::chrono::seconds{10};
  std::chrono::nanoseconds left_out_most = std::chrono::minutes{10};
};

enum class walk_kind : uint8_t {
  strays,  ///< groups that others own
  all,     ///< also whether the other owners of one's own groups have them
};

/// The other owners of a group, best first, and whether this store is one.
struct group_owners {
  bool mine = false;
  std::vector<storage::block_key> others;
};

class group_moves {
public:
  using time_point = std::chrono::nanoseconds;

  group_moves(const move_store& self, const move_limits& limits, time_point now);

  /// A store answers, for the first time or again.
  void set_store(const move_store& store, time_point now);
  /// It does not any more. Its place is kept for a while.
  void lose_store(const storage::block_key& id, time_point now);

  /// The walk that should begin now. Forgets stores whose time is over.
  [[nodiscard]] std::optional<walk_kind> due(time_point now);
  /// A walk ended; `waiting` groups could not be done.
  void walked(walk_kind kind, uint64_t waiting, time_point now);
  /// Another number: places have changed, what was decided before does not count.
  [[nodiscard]] uint64_t placement() const { return placement_; }
  /// Equal at all stores that would choose the same owners for every group.
  [[nodiscard]] uint64_t view() const { return placement_digest(sites_, replicas_); }

  [[nodiscard]] group_owners owners(const storage::block_key& head) const;
  /// It is there, and not left out.
  [[nodiscard]] bool answers(const storage::block_key& id, time_point now) const;
  void failed(const storage::block_key& id, time_point now);
  void worked(const storage::block_key& id);

  /// False: stores that answer cut groups or count copies otherwise; nothing moves until an
  /// operator has made them equal.
  [[nodiscard]] bool agree() const;
  /// That have a place, this one among them.
  [[nodiscard]] size_t stores() const { return places_.size(); }

private:
  struct place {
    move_store what;
    bool present = true;
    time_point gone_since{};
    time_point left_out_until{};
    std::chrono::nanoseconds penalty{};
  };

  void arrange(time_point now);

  move_limits limits_;
  storage::block_key self_;
  uint32_t replicas_;
  std::map<storage::block_key, place> places_;
  std::vector<store_site> sites_;  // of all places
  uint64_t placement_ = 1;
  bool all_due_ = true;
  bool retry_all_ = false;  // the last walk over all left groups behind
  time_point quiet_until_{};
  time_point last_walk_{}, last_all_{};
};

}  // namespace deepinfer::policy
