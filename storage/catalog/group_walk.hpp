#pragma once

#include "storage/catalog/catalogue.hpp"
#include "storage/group_types.hpp"

#include <vector>

/// Groups of a catalogue and the trees below their heads, piece by piece: a group has as many
/// branches as prompts share its beginning. Pure; as fresh as the catalogue is at each call.
namespace deepinfer::storage {

/// Looks at `entries` numbers of entries from the cursor on (0: the first).
[[nodiscard]] head_page heads_from(const catalogue& all, uint64_t cursor, size_t entries);

/// Committed entries of a group. Nothing if the head is not stored, or `after` not in its group.
[[nodiscard]] std::vector<uint32_t> entries_of(const catalogue& all, const group_query& query);

}  // namespace deepinfer::storage
