#pragma once

#include "storage/block/block_checksum.hpp"
#include "storage/block_store.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace deepinfer::test {

inline constexpr uint32_t chain_tokens = 16;  // of a block: the rules do not depend on it

/// The bytes that belong to a key: what an honest engine would have computed.
inline std::vector<std::byte> bytes_of(const storage::block_key& key, uint32_t length) {
  rng random{key.hi ^ key.lo};
  std::vector<std::byte> bytes(length);
  for (auto& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

/// A prompt with its blocks. Equal scopes and tokens give equal chains.
struct block_chain {
  storage::scope_id scope{};
  storage::block_key root;
  std::vector<int32_t> tokens;
  std::vector<storage::block_key> keys;
  uint32_t length = 0;  ///< of each block's bytes

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(keys.size()); }
  [[nodiscard]] storage::prefix_query query() const { return {keys, tokens, {}}; }
  [[nodiscard]] storage::block_content content(uint32_t index) const {
    return storage::content_of(
        std::span{tokens}.subspan(size_t{index} * chain_tokens, chain_tokens), index, {});
  }
};

inline block_chain chain_from(const std::string& tenant,
                              std::vector<int32_t> tokens,
                              uint32_t length = 1000) {
  const storage::cache_scope scope{storage::scope_kind::tenant, tenant};
  block_chain chain;
  chain.scope = storage::id_of(scope);
  chain.root = storage::root_key({"model", "weights", 1, chain_tokens, scope});
  storage::chain_hasher hasher{chain.root, chain_tokens};
  REQUIRE(hasher.append(tokens, {}, chain.keys));
  chain.tokens = std::move(tokens);
  chain.length = length;
  return chain;
}

/// `blocks` blocks of tokens that the seed picks.
inline block_chain make_chain(const std::string& tenant,
                              uint64_t seed,
                              uint32_t blocks,
                              uint32_t length = 1000) {
  rng random{seed};
  std::vector<int32_t> tokens(size_t{blocks} * chain_tokens);
  for (auto& t : tokens) t = static_cast<int32_t>(random.below(1000));
  return chain_from(tenant, std::move(tokens), length);
}

/// Hours and minutes of both clocks.
inline storage::clock_reading at(std::chrono::milliseconds since) {
  return {std::chrono::hours{500'000} + since, since};
}

/// Blocks [from, to) of a chain as a writer brings them.
struct chain_writer {
  storage::block_store& store;
  storage::writer_ref writer{1, 1};
  storage::traffic_class use = storage::traffic_class::chat;

  result<std::vector<storage::reservation>> reserve(const block_chain& chain,
                                                    uint32_t from,
                                                    uint32_t to,
                                                    const storage::clock_reading& now) {
    std::vector<storage::block_content> contents;
    for (uint32_t i = from; i < to; ++i) contents.push_back(chain.content(i));
    std::vector<storage::reserve_item> items;
    for (uint32_t i = from; i < to; ++i)
      items.push_back({chain.keys[i], i == 0 ? chain.root : chain.keys[i - 1], i, chain.length,
                       contents[i - from]});
    return store.reserve({chain.scope, writer, use, now}, items);
  }

  /// Everything; returns how many were stored or refreshed.
  uint32_t put(const block_chain& chain,
               uint32_t from,
               uint32_t to,
               const storage::clock_reading& now) {
    const auto reserved = reserve(chain, from, to, now);
    if (!reserved) return 0;
    std::vector<std::vector<std::byte>> bytes;
    std::vector<storage::write_item> writes;
    std::vector<storage::commit_item> commits;
    for (uint32_t i = from; i < to; ++i) {
      bytes.push_back(bytes_of(chain.keys[i], chain.length));
      const auto& r = (*reserved)[i - from];
      if (r.outcome == storage::reserve_outcome::granted)
        writes.push_back({r.ticket, bytes.back()});
      if (r.ticket != storage::ticket_id{})
        commits.push_back({r.ticket, storage::block_checksum(chain.keys[i], bytes.back())});
    }
    if (!store.write(writes, now)) return 0;
    const auto done = store.commit(commits, now);
    if (!done) return 0;
    return static_cast<uint32_t>(std::count_if(done->begin(), done->end(), [](const auto& c) {
      return c == storage::commit_outcome::stored || c == storage::commit_outcome::refreshed;
    }));
  }
};

inline uint32_t stored_blocks(storage::block_store& store,
                              const block_chain& chain,
                              const storage::clock_reading& now) {
  const auto match = store.match(chain.query(), storage::lease_wish::none, now);
  REQUIRE(match);
  return match->blocks;
}

/// Reads the first `blocks` blocks; how many came back, all of them right.
inline uint32_t read_back(storage::block_store& store,
                          const block_chain& chain,
                          uint32_t blocks,
                          const storage::clock_reading& now,
                          const storage::lease_ref& lease = {}) {
  std::vector<std::vector<std::byte>> buffers(blocks, std::vector<std::byte>(chain.length));
  std::vector<storage::read_item> items;
  for (uint32_t i = 0; i < blocks; ++i) items.push_back({chain.keys[i], buffers[i]});
  const auto answers = store.read(items, lease, now);
  REQUIRE(answers);
  uint32_t good = 0;
  for (uint32_t i = 0; i < blocks; ++i) {
    if ((*answers)[i].status != storage::read_status::ok) continue;
    REQUIRE((*answers)[i].length == chain.length);
    REQUIRE(buffers[i] == bytes_of(chain.keys[i], chain.length));  // never a wrong byte
    ++good;
  }
  return good;
}

}  // namespace deepinfer::test
