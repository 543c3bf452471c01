#pragma once

#include "actors/messages/caf_messages.hpp"
#include "actors/serve/staging_area.hpp"
#include "proto/types/result.hpp"
#include "proto/wire/cache.capnp.h"
#include "storage/block_store.hpp"
#include "storage/folder/store_folder.hpp"

#include <span>
#include <vector>

/// Between `proto/wire/cache.capnp` and what stores take and give.
namespace deepinfer {

[[nodiscard]] storage::block_key read_block_key(wire::Id128::Reader in);
void write_block_key(wire::Id128::Builder out, const storage::block_key& key);

/// Keys behind one another. `invalid_argument` for a part of one or none at all, `too_large` for
/// more than `limit`.
[[nodiscard]] result<std::vector<storage::block_key>> read_keys(capnp::Data::Reader in,
                                                                size_t limit);
[[nodiscard]] std::vector<std::byte> keys_as_data(std::span<const storage::block_key> keys);

[[nodiscard]] result<storage::traffic_class> read_traffic(uint8_t in);

/// From a store, and back where an index is fed, which needs no parents. Lists are as long as the
/// store made them; `corrupt` for columns of different lengths.
[[nodiscard]] wire::msg<wire::KvChanges> to_wire(const storage::change_batch& batch);
[[nodiscard]] wire::msg<wire::KvSnapshotPage> to_wire(const storage::snapshot_page& page);
[[nodiscard]] result<storage::change_batch> read_changes(wire::KvChanges::Reader in);
[[nodiscard]] result<storage::snapshot_page> read_page(wire::KvSnapshotPage::Reader in);

/// The tokens of a question about blocks; a copy, since messages are not aligned for them.
[[nodiscard]] result<std::vector<int32_t>> read_block_tokens(capnp::Data::Reader in, size_t blocks);

}  // namespace deepinfer
