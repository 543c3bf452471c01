#pragma once

#include "actors/remote/actor_ref.hpp"
#include "proto/types/result.hpp"
#include "proto/wire/cache.capnp.h"
#include "proto/wire/cluster.capnp.h"
#include "storage/arena/arena_views.hpp"

#include <cstdint>
#include <optional>
#include <vector>

/// How an engine finds the `kv_fetch` of its machine, and the bytes that it was given there.
namespace deepinfer {

/// The kind under which kv_fetch is offered in the member table.
inline constexpr const char* fetch_service_kind = "kv_fetch";

/// Who fetches for the node whose table this is: its own kv_fetch if it has one, else that of the
/// youngest living node with the same machine mark. Nothing: treat hits as misses. Ask again with
/// each change of the table; `remote_hub::resolve<kv_fetch_actor>` gives the handle.
[[nodiscard]] std::optional<actor_ref> choose_fetcher(wire::Members::Reader members);

/// A block in shared memory. Nobody vouches for it: `checksum` is what a copy of `bytes` must have.
struct fetched_block {
  std::span<const std::byte> bytes;
  uint64_t checksum = 0;
};

/// What a `KvFetched` says, mapped. The bytes may be read until the fetch is released; the mapping
/// stays as long as `memory` is held.
struct fetched_prefix {
  std::shared_ptr<const storage::memory_view> memory;  ///< null without blocks
  std::vector<fetched_block> blocks;
  failure why{error_code::ok, {}};  ///< why not all that were asked for
};

/// The failures of `arena_views::memory`; `corrupt` when a block is said to lie outside it.
[[nodiscard]] result<fetched_prefix> open_fetched(storage::arena_views& views,
                                                  wire::KvFetched::Reader fetched);

}  // namespace deepinfer
