#pragma once

#include "actors/messages/introspection.hpp"
#include "actors/messages/order_report.hpp"
#include "storage/block/chain_hasher.hpp"

#include <chrono>

/// What an operator orders of the caches of a whole cluster; inside one process.
namespace deepinfer {

/// Nothing of the scope is offered any more when this is answered, unless an outcome says that
/// somebody could not be asked. Sequences that run meanwhile may store again.
struct purge_scope {
  storage::cache_scope scope;
  std::chrono::milliseconds within{60'000};
};

/// Stores whose clock jumped let blocks end again (KV-15).
struct acknowledge_clocks {
  std::chrono::milliseconds within{60'000};
};

using kv_orders_actor =
    caf::typed_actor<caf::replies_to<purge_scope>::with<order_report>,
                     caf::replies_to<acknowledge_clocks>::with<order_report>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::purge_scope)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::acknowledge_clocks)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::order_report)
