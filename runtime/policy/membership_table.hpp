#pragma once

#include "proto/types/ids.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace deepinfer::policy {

/// Numbers are those of `NodeState` in proto/wire/cluster.capnp.
enum class member_state : uint16_t { alive = 0, suspect = 1, left = 2, dead = 3 };

struct service_record {
  std::string kind;
  node_id node;
  uint64_t actor = 0;
  uint64_t interface = 0;
  std::string model;
  uint64_t layout = 0;                  ///< of the state that an engine computes, 0 for others
  uint64_t store_hi = 0, store_lo = 0;  ///< id of the folder that a kvstore has
  friend bool operator==(const service_record&, const service_record&) = default;
};

/// What the cluster knows of one life of one node.
struct member_record {
  node_id id;
  std::string name;
  std::string address;
  std::vector<std::string> roles;
  uint64_t epoch = 0;
  member_state state = member_state::alive;
  uint64_t version = 0;  ///< raised by the owner with each change
  std::chrono::milliseconds uptime{0};
  std::vector<service_record> services;
  std::string machine;  ///< equal for processes that can map memory of one another
};

/// Whether a node counts where the cluster agrees with itself: processes that only serve their
/// machine (role `fetch`) come and go with it.
[[nodiscard]] bool has_vote(const member_record& record);

struct membership_config {
  std::chrono::milliseconds redial_after{500};
  std::chrono::minutes forget_after{10};  ///< how long a dead node is shown and dialled again
  /// The same for one without a vote: its machine starts a new one, of another address.
  std::chrono::seconds forget_helper_after{10};
  uint32_t max_members = 1024;
};

/// Who is in the cluster, as one node sees it; pure. Life is decided by links: every node links to
/// every other, so the transport's verdict (connection lost, silence) is this node's own
/// observation and is never overruled by gossip. Gossip only brings what a node says about itself
/// (highest version wins) and addresses to dial. A node that comes back on the same address has a
/// new id and a larger epoch, and replaces the old record.
class membership_table {
public:
  using time_point = std::chrono::nanoseconds;

  membership_table(member_record self, const membership_config& config);

  /// Changes our own record (services, state); raises its version.
  void set_services(std::vector<service_record> services);
  void leave();

  void link_up(const node_id& id, uint64_t epoch, const std::string& address, time_point now);
  void link_down(const node_id& id, time_point now);
  /// Proof from outside (the machine's registry holds no lock for it any more) that the node at
  /// this address is gone and not only out of reach: it is not counted as missing any longer.
  /// False while the link still counts as up; ask again then.
  bool confirm_dead(const std::string& address);
  /// `sender` is linked; its own record is believed, others only say whom else to dial.
  void apply(const node_id& sender, const std::vector<member_record>& records, time_point now);
  /// An address the operator named: tried again for ever.
  void add_seed(const std::string& address, time_point now);
  /// An address from a registry or from gossip.
  void learn_address(const std::string& address, time_point now);
  void dial_failed(const std::string& address, time_point now);

  /// Addresses to dial now; counts them as tried.
  [[nodiscard]] std::vector<std::string> due_dials(time_point now);
  /// Forgets what has been dead for too long; those with a vote on the majority side only.
  void sweep(time_point now);

  [[nodiscard]] const member_record& self() const { return self_; }
  /// Self first, then the others by id.
  [[nodiscard]] std::vector<member_record> members() const;
  [[nodiscard]] bool linked(const node_id& id) const;
  [[nodiscard]] std::vector<node_id> links() const;
  /// The oldest living node: smallest epoch, then smallest id.
  [[nodiscard]] node_id coordinator() const;
  /// False on the smaller side of a split of the last agreed table; on an even split the side of
  /// that table's oldest node goes on.
  [[nodiscard]] bool majority() const;
  /// Counts changes that subscribers care about (members, states, services).
  [[nodiscard]] uint64_t changes() const { return changes_; }

private:
  struct peer {
    member_record record;
    bool is_linked = false;
    time_point since{};  ///< of the present state
  };
  struct dial_entry {
    time_point next{};
  };

  void replace_older_life(const member_record& fresh);
  void agree();

  member_record self_;
  membership_config config_;
  std::map<node_id, peer> peers_;
  std::map<std::string, dial_entry> addresses_;
  std::set<std::string> seeds_;
  std::map<node_id, uint64_t>
      agreed_;  ///< id -> epoch of the last table whose members were all alive
  uint64_t changes_ = 1;
};

}  // namespace deepinfer::policy
