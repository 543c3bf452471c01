#include "storage/block/chain_hasher.hpp"

#include "storage/block/sha256.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace deepinfer::storage {

namespace {

static_assert(std::endian::native == std::endian::little,
              "tokens are hashed as they lie in memory");

constexpr std::string_view chain_label = "deepinfer kv chain v1";
constexpr std::string_view scope_label = "deepinfer kv scope v1";
constexpr std::byte root_tag{0};
constexpr std::byte block_tag{1};
constexpr std::byte behind_tag{2};
constexpr size_t piece = 64;

void put(std::vector<std::byte>& to, const void* bytes, size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  to.insert(to.end(), from, from + count);
}

template <class Number>
void put_number(std::vector<std::byte>& to, Number value) {
  put(to, &value, sizeof value);
}

void put_text(std::vector<std::byte>& to, std::string_view text) {
  put_number(to, static_cast<uint32_t>(text.size()));
  put(to, text.data(), text.size());
}

void put_scope(std::vector<std::byte>& to, const cache_scope& scope) {
  to.push_back(static_cast<std::byte>(scope.kind));
  put_text(to, scope.id);
}

block_key truncated(const sha256::digest& digest) {
  return key_from_bytes(digest.data());
}

/// The last piece of a block's message when its tokens (and no marks) fill whole pieces: parent,
/// tag, and the padding of SHA-256.
block_key finish(sha256::state& state, const block_key& parent, size_t content_bytes) {
  std::array<std::byte, piece> last{};
  const auto parent_bytes = to_bytes(parent);
  std::copy(parent_bytes.begin(), parent_bytes.end(), last.begin());
  last[key_bytes] = block_tag;
  last[key_bytes + 1] = std::byte{0x80};
  const uint64_t bits = 8 * (content_bytes + key_bytes + 1);
  for (size_t i = 0; i < 8; ++i) last[piece - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  sha256::run(state, last.data(), 1);
  return {uint64_t{state.words[0]} << 32 | state.words[1],
          uint64_t{state.words[2]} << 32 | state.words[3]};
}

/// Blocks without marks: two at a time, the chain through their last pieces.
void hash_plain(block_key& last,
                std::span<const int32_t> tokens,
                size_t block_tokens,
                std::vector<block_key>& keys) {
  const size_t bytes = block_tokens * sizeof(int32_t);
  const auto* at = reinterpret_cast<const std::byte*>(tokens.data());
  size_t left = tokens.size() / block_tokens;
  for (; left >= 2; left -= 2, at += 2 * bytes) {
    sha256::state a, b;
    sha256::run_two(a, at, b, at + bytes, bytes / piece);
    keys.push_back(last = finish(a, last, bytes));
    keys.push_back(last = finish(b, last, bytes));
  }
  if (left == 0) return;
  sha256::state a;
  sha256::run(a, at, bytes / piece);
  keys.push_back(last = finish(a, last, bytes));
}

}  // namespace

scope_id id_of(const cache_scope& scope) {
  std::vector<std::byte> message;
  put(message, scope_label.data(), scope_label.size());
  put_scope(message, scope);
  return static_cast<scope_id>(truncated(sha256::hash(message)).hi);
}

block_key root_key(const chain_domain& domain) {
  std::vector<std::byte> message;
  put(message, chain_label.data(), chain_label.size());
  put_text(message, domain.model);
  put_text(message, domain.weights);
  put_number(message, domain.layout);
  put_number(message, domain.block_tokens);
  put_scope(message, domain.scope);
  message.push_back(root_tag);
  return truncated(sha256::hash(message));
}

block_key root_behind(const block_key& own_root, const block_key& last_shared) {
  std::vector<std::byte> message;
  for (const block_key& key : {own_root, last_shared}) {
    const auto bytes = to_bytes(key);
    put(message, bytes.data(), bytes.size());
  }
  message.push_back(behind_tag);
  return truncated(sha256::hash(message));
}

block_content content_of(std::span<const int32_t> tokens,
                         uint64_t index,
                         std::span<const media_mark> media) {
  block_content content;
  put(content, tokens.data(), tokens.size_bytes());
  const uint64_t begin = index * tokens.size();
  for (const media_mark& mark : media) {
    if (mark.position < begin || mark.position >= begin + tokens.size()) continue;
    put_number(content, static_cast<uint32_t>(mark.position - begin));
    put(content, mark.digest.data(), mark.digest.size());
  }
  return content;
}

block_key key_of(const block_key& parent, std::span<const std::byte> content) {
  std::vector<std::byte> message{content.begin(), content.end()};
  message.reserve(content.size() + key_bytes + 1);
  const auto parent_bytes = to_bytes(parent);
  put(message, parent_bytes.data(), parent_bytes.size());
  message.push_back(block_tag);
  return truncated(sha256::hash(message));
}

uint64_t content_digest(std::span<const std::byte> content) {
  return XXH3_64bits(content.data(), content.size());
}

chain_hasher::chain_hasher(const block_key& root, uint32_t block_tokens)
    : last_(root), block_tokens_(block_tokens) {
  DEEPINFER_CHECK(block_tokens > 0 && block_tokens <= max_block_tokens);
}

void chain_hasher::continue_in(const block_key& root) {
  DEEPINFER_CHECK(tail_.empty() && marks_.empty());
  last_ = root_behind(root, last_);
}

result<void> chain_hasher::check(std::span<const int32_t> tokens,
                                 std::span<const media_mark> media) const {
  uint64_t begin = blocks_ * block_tokens_ + tail_.size();
  const uint64_t end = begin + tokens.size();
  uint64_t block = UINT64_MAX;
  size_t in_block = 0;
  if (!marks_.empty()) {
    block = blocks_;
    in_block = marks_.size();
  }
  for (const media_mark& mark : media) {
    if (mark.position < begin || mark.position >= end)
      return failure{error_code::invalid_argument,
                     "media marks ascend and lie among the tokens they come with"};
    begin = mark.position;
    const uint64_t at = mark.position / block_tokens_;
    in_block = at == block ? in_block + 1 : 1;
    block = at;
    if (in_block > max_marks_in_block)
      return failure{error_code::too_large, "more than " + std::to_string(max_marks_in_block) +
                                                " media begin in one block"};
  }
  return {};
}

void chain_hasher::hash_full(std::span<const int32_t> tokens, std::vector<block_key>& keys) {
  const bool whole_pieces = block_tokens_ * sizeof(int32_t) % piece == 0;
  if (marks_.empty() && whole_pieces && sha256::lanes_usable()) {
    hash_plain(last_, tokens, block_tokens_, keys);
    blocks_ += tokens.size() / block_tokens_;
    return;
  }
  for (size_t at = 0; at < tokens.size(); at += block_tokens_) {
    const auto content = content_of(tokens.subspan(at, block_tokens_), blocks_, marks_);
    keys.push_back(last_ = key_of(last_, content));
    ++blocks_;
    const uint64_t done = blocks_ * block_tokens_;
    const auto later = std::find_if(marks_.begin(), marks_.end(), [done](const media_mark& mark) {
      return mark.position >= done;
    });
    marks_.erase(marks_.begin(), later);
  }
}

result<void> chain_hasher::append(std::span<const int32_t> tokens,
                                  std::span<const media_mark> media,
                                  std::vector<block_key>& keys) {
  if (auto checked = check(tokens, media); !checked) return checked;
  marks_.insert(marks_.end(), media.begin(), media.end());
  if (!tail_.empty()) {
    const size_t taken = std::min<size_t>(block_tokens_ - tail_.size(), tokens.size());
    tail_.insert(tail_.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(taken));
    tokens = tokens.subspan(taken);
    if (tail_.size() < block_tokens_) return {};
    hash_full(std::exchange(tail_, {}), keys);
  }
  const size_t full = tokens.size() / block_tokens_ * block_tokens_;
  keys.reserve(keys.size() + full / block_tokens_);
  hash_full(tokens.first(full), keys);
  const auto rest = tokens.subspan(full);
  tail_.assign(rest.begin(), rest.end());
  return {};
}

}  // namespace deepinfer::storage
