#pragma once

#include "storage/rocks/rocks_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

#include <string>

/// What the writer process and the test that kills it agree on.
namespace deepinfer::test {

inline constexpr uint32_t killed_chain_blocks = 12;

inline storage::rocks_store_options killed_store(const std::string& folder) {
  auto config = small_store();
  config.capacity_bytes = uint64_t{4} << 30;
  return {folder, {}, {}, config};
}

/// Kept for good.
inline block_chain kept_chain(uint64_t number) {
  return make_chain("kept", number, killed_chain_blocks,
                    500 + static_cast<uint32_t>(number % 7) * 900);
}
/// Purged again and again, so that segments are rewritten all the time.
inline block_chain passing_chain(uint64_t number) {
  return make_chain("passing", number, killed_chain_blocks);
}

}  // namespace deepinfer::test
