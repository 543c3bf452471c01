#pragma once

#include "actors/messages/cache.hpp"

#include <functional>

/// What a store's actors say to each other inside one process.
namespace deepinfer {

struct io_done {
  uint64_t number = 0;
};
using io_sink_actor = caf::typed_actor<caf::reacts_to<io_done>>;

/// Work that may wait for a device, for as long as that takes. What it touches is nobody else's
/// until `io_done` with its number.
struct io_work {
  uint64_t number = 0;
  std::function<void()> run;
  io_sink_actor reply_to;
};

/// Does one piece of work at a time; blocks meanwhile.
using kv_io_actor =
    caf::typed_actor<caf::reacts_to<io_work>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// All blocks of a `KvPut` were pulled, or could not be.
struct put_pulled {
  uint64_t put = 0;
};
/// The time of a question is over.
struct kv_late {
  uint64_t number = 0;
};
/// Somebody else changed the store: readers of its changes may wait for that.
struct store_changed {};
/// Time to answer those who wait for changes.
struct feed_due {};
struct kv_store_tick {};
/// Ends what is open, flushes, and answers; nothing is taken any more.
struct drain_store {};

using kv_store_impl_actor =
    kv_store_actor::extend<caf::reacts_to<io_done>,
                           caf::reacts_to<put_pulled>,
                           caf::reacts_to<kv_late>,
                           caf::reacts_to<store_changed>,
                           caf::reacts_to<feed_due>,
                           caf::reacts_to<kv_store_tick>,
                           caf::replies_to<drain_store>::with<wire::msg<wire::Ack>>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::io_work)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::io_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::put_pulled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::kv_late)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::store_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::feed_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::kv_store_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::drain_store)
