#pragma once

#include "actors/messages/introspection.hpp"
#include "proto/wire/cluster.capnp.h"
#include "proto/wire/introspect.capnp.h"

namespace deepinfer {

/// One per node; any of them answers for the whole cluster.
using console_actor = caf::typed_actor<
    caf::replies_to<wire::msg<wire::LocalTopologyQuery>>::with<wire::msg<wire::LocalTopology>>,
    caf::replies_to<wire::msg<wire::TopologyQuery>>::with<wire::msg<wire::Topology>>,
    caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

using console_impl_actor = console_actor::extend<caf::reacts_to<track_actor>>;

}  // namespace deepinfer
