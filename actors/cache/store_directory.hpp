#pragma once

#include "actors/messages/cache.hpp"
#include "actors/remote/remote_hub.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer {

/// The stores that the member table names, each to be asked who it is: for those who send blocks.
/// One actor's; it sends nothing itself.
class store_directory {
public:
  using time_point = std::chrono::nanoseconds;
  using service_key = std::pair<node_id, uint64_t>;

  enum class own_node : uint8_t { listed, left_out };

  explicit store_directory(own_node own = own_node::listed) : own_(own) {}

  /// The stores that a member table names.
  [[nodiscard]] static std::vector<actor_ref> listed_in(wire::Members::Reader members,
                                                        own_node own);

  /// The member table now. Ids of stores that answered and are not in it any more.
  [[nodiscard]] std::vector<storage::block_key> take(wire::Members::Reader members);

  struct question {
    service_key key;
    kv_store_actor store;
  };
  /// Stores to be asked for their `KvInfo` now; each again after `pause`, until it has answered.
  [[nodiscard]] std::vector<question> to_ask(remote_hub& hub,
                                             time_point now,
                                             std::chrono::nanoseconds pause);

  enum class named : uint8_t {
    taken,
    older_life,  ///< a newer one of the same folder is known
    gone,        ///< meanwhile
  };
  /// What one of them answered.
  [[nodiscard]] named name(const service_key& key, wire::KvInfo::Reader info);

  /// Resolved anew, since handles of a link that was lost stay dead. Nothing if no store that can
  /// be reached has said that it is this one.
  [[nodiscard]] std::optional<kv_store_actor> find(remote_hub& hub,
                                                   const storage::block_key& id) const;

private:
  struct entry {
    actor_ref ref;
    std::optional<storage::block_key> id;  ///< once it has answered
    uint64_t epoch = 0;                    ///< of the life that has `id`
    time_point ask_at{};
  };

  own_node own_;
  std::map<service_key, actor_ref> services_;  ///< all that are named
  std::map<service_key, entry> stores_;
  std::map<storage::block_key, service_key> by_id_;
};

}  // namespace deepinfer
