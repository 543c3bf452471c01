#pragma once

#include "storage/block/block_key.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Keys of blocks (KV-3 to KV-7). A message is hashed with SHA-256, its first 16 bytes are the key:
///
///   root   = SHA-256("deepinfer kv chain v1" . model . weights . layout . block size . scope . 0)
///   key(i) = SHA-256(tokens of block i as u32 LE . media marks in block i . key(i-1) . 1)
///
/// with key(-1) = root, texts led by their length (u32 LE), a mark as offset in the block (u32 LE)
/// and 32 bytes of digest. Both are injective: the block size, hence the length of the tokens, is
/// in the root; marks have one length; the last byte tells roots from blocks. The parent stands
/// behind the tokens, so all but the last 64 bytes of a block's message do not wait for it.
///
/// Blocks behind some of another scope are a chain of their own, whose root knows what is in front:
///
///   root behind = SHA-256(root of the own scope . last key of the other scope . 2)
namespace deepinfer::storage {

/// Who may share a block (KV-4).
enum class scope_kind : uint8_t {
  tenant = 0,        ///< the tenant alone (policy `private`, the default)
  organization = 1,  ///< all tenants of an organization (`org`)
  everybody = 2,     ///< prompts that the operator listed (`public`); the id may be empty
};

/// A scope as the stores count, limit and purge it.
enum class scope_id : uint64_t {};

struct cache_scope {
  scope_kind kind = scope_kind::tenant;
  std::string id;

  friend bool operator==(const cache_scope&, const cache_scope&) = default;
};

/// The scope of all prompts that operators list.
[[nodiscard]] inline cache_scope public_scope() {
  return {scope_kind::everybody, {}};
}

[[nodiscard]] scope_id id_of(const cache_scope& scope);

/// What a block's bytes depend on besides its tokens. A difference in any field is a miss.
struct chain_domain {
  std::string model;    ///< id of the model, with its release
  std::string weights;  ///< digest of the weights
  uint64_t layout = 0;  ///< fingerprint of formats, shapes, packing and codec (KV-5)
  uint32_t block_tokens = 128;
  cache_scope scope;
};

inline constexpr uint32_t max_block_tokens = 4096;
inline constexpr size_t max_marks_in_block = 64;

[[nodiscard]] block_key root_key(const chain_domain& domain);

/// The first blocks of a sequence that are everybody's (KV-4): a chain of their own, with its root.
/// Those behind are the sequence's own; their root is `root_behind`, so that nobody else has it.
struct shared_prefix {
  block_key root;
  uint32_t blocks = 0;
};

[[nodiscard]] block_key root_behind(const block_key& own_root, const block_key& last_shared);

/// An image or other medium that begins at a position of the sequence: what it is, not the
/// placeholder tokens that stand for it.
struct media_mark {
  uint32_t position = 0;
  std::array<std::byte, 32> digest{};
};

/// What a block's key is made of besides its parent: tokens and marks as they are hashed. Records
/// keep it, and a lookup compares it (KV-7).
using block_content = std::vector<std::byte>;

inline constexpr size_t max_content_bytes = max_block_tokens * 4 + max_marks_in_block * 36;

/// The content of block `index` of a sequence; `tokens` are those of this block, `media` all marks
/// of the sequence, ascending.
[[nodiscard]] block_content content_of(std::span<const int32_t> tokens,
                                       uint64_t index,
                                       std::span<const media_mark> media);

/// The key of one block; what a store uses to check that a writer told the truth.
[[nodiscard]] block_key key_of(const block_key& parent, std::span<const std::byte> content);

/// A short fingerprint of a content, of another kind than the key (XXH3): what an index without
/// room for tokens compares.
[[nodiscard]] uint64_t content_digest(std::span<const std::byte> content);

/// Keys of all full blocks of a sequence that grows. A tail shorter than a block has no key.
class chain_hasher {
public:
  /// `block_tokens` as in the domain that gave `root`.
  chain_hasher(const block_key& root, uint32_t block_tokens);

  /// More tokens of the sequence, and the media that begin among them (absolute positions,
  /// ascending). Appends the keys of the blocks that became full to `keys`. `invalid_argument`
  /// for marks that are out of order or not among these tokens, `too_large` for too many in a
  /// block; nothing is taken then.
  result<void> append(std::span<const int32_t> tokens,
                      std::span<const media_mark> media,
                      std::vector<block_key>& keys);

  /// What follows is of the scope that `root` is of; no block is open here. `last` is the root of
  /// its chain then.
  void continue_in(const block_key& root);

  [[nodiscard]] uint64_t blocks() const { return blocks_; }
  /// The key of the last full block, or the root.
  [[nodiscard]] const block_key& last() const { return last_; }

private:
  void hash_full(std::span<const int32_t> tokens, std::vector<block_key>& keys);
  result<void> check(std::span<const int32_t> tokens, std::span<const media_mark> media) const;

  block_key last_;
  uint32_t block_tokens_;
  uint64_t blocks_ = 0;
  std::vector<int32_t> tail_;
  std::vector<media_mark> marks_;  // of blocks that are not full yet
};

}  // namespace deepinfer::storage
