#pragma once

#include "proto/types/result.hpp"
#include "storage/block/chain_hasher.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer {

/// What tenants and organizations may store, in bytes, from texts like "acme=10GiB",
/// "organization:acme=1TiB" and "anonymous=0". `invalid_argument` names the text that is none.
[[nodiscard]] result<std::vector<std::pair<storage::scope_id, uint64_t>>> read_store_quotas(
    const std::vector<std::string>& texts);

}  // namespace deepinfer
