#pragma once

#include "actors/messages/introspection.hpp"
#include "actors/remote/remote_hub.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/local_actor.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace deepinfer {

/// What an actor keeps about itself for the console; a member of every actor's state. Bounded: the
/// peers beyond the first 256 are counted together.
class actor_card {
public:
  actor_card() = default;
  /// `hub` knows the numbers of actors and outlives them.
  actor_card(std::string kind, const remote_hub& hub) : kind_(std::move(kind)), hub_(&hub) {}

  /// Adds to a named counter.
  void count(std::string_view name, int64_t more = 1);
  /// Sets a named gauge.
  void set(std::string_view name, int64_t value);
  /// One message went to `handle`.
  template <class Handle>
  void sent(const Handle& handle) {
    sent_to(caf::actor_cast<caf::strong_actor_ptr>(handle));
  }
  /// The answer to `Inspect`; `state` is one line, derived from the actor's state now.
  [[nodiscard]] wire::msg<wire::ActorInfo> info(caf::local_actor& self,
                                                std::string_view state) const;

private:
  struct peer {
    actor_ref where;
    uint64_t messages = 0;
  };

  void sent_to(const caf::strong_actor_ptr& to);

  std::string kind_;
  const remote_hub* hub_ = nullptr;
  std::map<std::string, int64_t, std::less<>> counters_;
  std::map<caf::actor_addr, peer> peers_;
  uint64_t to_others_ = 0;
};

}  // namespace deepinfer
