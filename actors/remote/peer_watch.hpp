#pragma once

#include <caf/attachable.hpp>

#include <cstdint>
#include <memory>

namespace deepinfer::remote {

class hub_core;
class peer_link;

/// Attached to a local actor that a peer monitors: tells the peer when the actor ends.
class peer_watch final : public caf::attachable {
public:
  /// Names one watch, to detach it.
  struct token {
    static constexpr size_t token_type = 0x6469;  // none of CAF's own
    const peer_link* link;
    uint64_t number;
  };

  peer_watch(std::weak_ptr<hub_core> core, std::weak_ptr<peer_link> link, uint64_t number);

  void actor_exited(const caf::error& reason, caf::execution_unit* host) override;
  using caf::attachable::matches;
  bool matches(const caf::attachable::token& what) override;

private:
  const std::weak_ptr<hub_core> core_;
  const std::weak_ptr<peer_link> link_;
  const peer_link* const which_;  ///< compared only
  const uint64_t number_;
};

}  // namespace deepinfer::remote
