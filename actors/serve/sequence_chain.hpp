#pragma once

#include "actors/messages/cache.hpp"
#include "storage/block/chain_hasher.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace deepinfer {

/// Which blocks of one sequence are to be stored: the keys of its full blocks, hashed as it grows,
/// and how far they were given to the writer. A chain that was cut stays so, since a store takes no
/// block without its parent.
class sequence_chain {
public:
  sequence_chain() = default;
  explicit sequence_chain(const cache_line& line) : line_(line) {}

  /// The first `blocks` came from the stores.
  void skip(uint32_t blocks) { given_ = std::max(given_, blocks); }
  /// Hashes what `tokens`, the whole sequence so far, has in full blocks more than before.
  void extend(std::span<const int32_t> tokens);

  /// The next message for the writer: blocks out of `parts` that were not given yet and have keys,
  /// at most to the end of their group. Moves their bytes. Nothing: there are none.
  std::optional<persist_blocks> take(std::vector<model::state_part>& parts,
                                     std::span<const int32_t> tokens);

  [[nodiscard]] bool open() const { return static_cast<bool>(line_.root) && !cut_; }
  void cut() { cut_ = true; }
  /// Of a full block that `extend` has seen.
  [[nodiscard]] const storage::block_key& key(uint32_t block) const { return keys_.at(block); }
  /// Whose a block is: everybody's, or the line's scope.
  [[nodiscard]] uint64_t scope_of(uint32_t block) const;
  [[nodiscard]] uint32_t given() const { return given_; }

private:
  cache_line line_;
  std::optional<storage::chain_hasher> hasher_;
  std::vector<storage::block_key> keys_;
  storage::block_key own_root_;  // in front of the first block that is not everybody's
  uint32_t given_ = 0;
  bool cut_ = false;
};

/// Bytes of all blocks of a message.
[[nodiscard]] uint64_t bytes_of(const persist_blocks& blocks);

}  // namespace deepinfer
