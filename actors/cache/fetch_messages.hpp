#pragma once

#include "actors/cache/fetch_types.hpp"
#include "actors/messages/cache.hpp"

#include <functional>

/// Talk inside a fetch process.
namespace deepinfer {

/// Something that waits for a device or computes for long: done by a thread of its own.
struct fetch_work {
  std::function<void()> run;
};

using fetch_io_actor =
    caf::typed_actor<caf::reacts_to<fetch_work>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// A one-sided read is over.
struct fetch_pulled {
  uint64_t batch = 0;
  fetch::run part;
  bool good = false;
};

/// Blocks of a batch from `first` on were verified.
struct fetch_verified {
  uint64_t batch = 0;
  uint32_t first = 0;
  std::vector<fetch::block_done> done;
};

/// A batch was read from files, and verified.
struct fetch_read_over {
  uint64_t batch = 0;
  std::vector<fetch::block_done> done;
};

/// A worker has nothing to do.
struct fetch_io_over {
  uint32_t worker = 0;
};

struct fetch_tick {};

using kv_fetch_impl_actor = kv_fetch_actor::extend<caf::reacts_to<wire::msg<wire::Members>>,
                                                   caf::reacts_to<fetch_pulled>,
                                                   caf::reacts_to<fetch_verified>,
                                                   caf::reacts_to<fetch_read_over>,
                                                   caf::reacts_to<fetch_io_over>,
                                                   caf::reacts_to<fetch_tick>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_work)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_pulled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_verified)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_read_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_io_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_tick)
