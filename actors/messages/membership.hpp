#pragma once

#include "actors/messages/introspection.hpp"
#include "proto/types/ids.hpp"
#include "proto/types/result.hpp"
#include "proto/wire/cluster.capnp.h"
#include "runtime/policy/membership_table.hpp"

#include <string>

namespace deepinfer {

/// Takes the member table after each change.
using members_sink_actor = caf::typed_actor<caf::reacts_to<wire::msg<wire::Members>>>;

/// What other nodes may say to a node's membership actor.
using membership_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::Gossip>>,
                     caf::replies_to<wire::msg<wire::MembersQuery>>::with<wire::msg<wire::Members>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

// ---- inside one process -------------------------------------------------------------------------

/// From the transport's thread.
struct peer_linked {
  node_id peer;
  uint64_t epoch = 0;
  std::string address;
};
struct peer_lost {
  node_id peer;
  failure why;
};
struct peer_dial_failed {
  std::string address;
  failure why;
};

/// An actor of this node that others may use.
struct offer_service {
  policy::service_record service;
};

/// The member table now and after each change.
struct watch_members {
  members_sink_actor subscriber;
};

/// Tells everybody good-bye; answered when the goodbyes are on their way.
struct leave_cluster {};

struct membership_tick {};

using membership_impl_actor =
    membership_actor::extend<caf::reacts_to<peer_linked>,
                             caf::reacts_to<peer_lost>,
                             caf::reacts_to<peer_dial_failed>,
                             caf::reacts_to<offer_service>,
                             caf::reacts_to<watch_members>,
                             caf::replies_to<leave_cluster>::with<wire::msg<wire::Ack>>,
                             caf::reacts_to<membership_tick>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::peer_linked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::peer_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::peer_dial_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::offer_service)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::watch_members)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::leave_cluster)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::membership_tick)
