#pragma once

#include "actors/messages/introspection.hpp"
#include "proto/wire/cluster.capnp.h"
#include "proto/wire/request.capnp.h"

namespace deepinfer {

/// One per role and gateway node.
using balancer_actor = caf::typed_actor<
    // `no_capacity`: no engine of the role in the cluster, or all are full.
    caf::replies_to<wire::msg<wire::RouteQuery>>::with<wire::msg<wire::RouteReply>>,
    caf::reacts_to<wire::msg<wire::LoadReport>>,
    caf::reacts_to<wire::msg<wire::Members>>,
    caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// How many engines a balancer can route to; sent to the gateway after a change.
struct engines_available {
  std::string role;
  uint32_t accepting = 0;
};

using availability_sink_actor = caf::typed_actor<caf::reacts_to<engines_available>>;

struct balancer_tick {};

using balancer_impl_actor = balancer_actor::extend<caf::reacts_to<balancer_tick>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::engines_available)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::balancer_tick)
