#pragma once

#include "proto/types/result.hpp"

#include <caf/actor_control_block.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace deepinfer::remote {

/// The actors of this process that peers may name: those whose handle was given away (kept alive
/// until they end, since a remote handle cannot hold a reference), those with a well-known number,
/// and senders of messages (known as long as they live, not kept alive). Thread-safe. An entry goes
/// away when its actor ends.
class local_table : public std::enable_shared_from_this<local_table> {
public:
  /// The number of an actor that sends something.
  uint64_t note(const caf::strong_actor_ptr& actor);

  /// The number of an actor whose handle leaves: `no_capacity` over `max_exports`.
  result<uint64_t> keep(const caf::strong_actor_ptr& actor, uint32_t max_exports);

  /// Gives an actor a well-known number: `invalid_argument` if that is out of range, or taken by
  /// a living actor.
  result<void> publish(uint64_t number, const caf::strong_actor_ptr& actor);

  /// The living actor of that number, or null.
  [[nodiscard]] caf::strong_actor_ptr find(uint64_t number) const;

  /// The number without making an entry.
  [[nodiscard]] uint64_t number_of(caf::actor_id id) const;

  /// Keeps no actor alive any more; those that nobody else holds end.
  void release();

  [[nodiscard]] size_t exports() const;
  [[nodiscard]] size_t size() const;

private:
  struct entry {
    caf::weak_actor_ptr known;
    caf::strong_actor_ptr kept;
    uint64_t number = 0;
  };

  /// Under the lock: the entry, and whether it is new (then `follow` it, without the lock).
  std::pair<entry*, bool> enter(const caf::strong_actor_ptr& actor);
  void follow(const caf::strong_actor_ptr& actor);
  void forget(caf::actor_id id);

  mutable std::mutex mutex_;
  std::unordered_map<caf::actor_id, entry> entries_;
  std::unordered_map<uint64_t, caf::actor_id> well_known_;
  size_t kept_ = 0;
};

}  // namespace deepinfer::remote
