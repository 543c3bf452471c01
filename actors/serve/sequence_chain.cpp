#include "actors/serve/sequence_chain.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using model::cache_block_tokens;

void sequence_chain::extend(std::span<const int32_t> tokens) {
  if (!hasher_) hasher_.emplace(line_.root, cache_block_tokens);
  const size_t known = keys_.size() * cache_block_tokens;
  const size_t full = tokens.size() / cache_block_tokens * cache_block_tokens;
  if (full <= known) return;
  const auto hashed = hasher_->append(tokens.subspan(known, full - known), {}, keys_);
  DEEPINFER_CHECK(hashed);  // there are no marks that could be wrong
}

std::optional<persist_blocks> sequence_chain::take(std::vector<model::state_part>& parts,
                                                   std::span<const int32_t> tokens) {
  const auto first = std::find_if(parts.begin(), parts.end(), [this](const auto& part) {
    return part.kind == model::part_kind::block && part.index == given_;
  });
  const uint32_t group_end = (given_ / line_.group_blocks + 1) * line_.group_blocks;
  const auto end = std::min(group_end, static_cast<uint32_t>(keys_.size()));
  auto blocks = std::make_shared<std::vector<model::state_part>>();
  for (auto it = first; it != parts.end() && given_ + blocks->size() < end; ++it) {
    if (it->kind != model::part_kind::block || it->index != given_ + blocks->size()) break;
    blocks->push_back({it->kind, it->index, std::move(it->bytes)});
  }
  if (blocks->empty()) return std::nullopt;
  persist_blocks out;
  out.line = line_;
  out.first_block = given_;
  out.parent = given_ == 0 ? line_.root : keys_[given_ - 1];
  out.head = keys_[group_end - line_.group_blocks];
  const auto count = static_cast<uint32_t>(blocks->size());
  out.keys.assign(keys_.begin() + given_, keys_.begin() + given_ + count);
  const auto from = tokens.begin() + size_t{given_} * cache_block_tokens;
  out.tokens.assign(from, from + size_t{count} * cache_block_tokens);
  out.blocks = std::move(blocks);
  given_ += count;
  return out;
}

uint64_t bytes_of(const persist_blocks& blocks) {
  uint64_t sum = 0;
  for (const auto& block : *blocks.blocks) sum += block.bytes.size();
  return sum;
}

}  // namespace deepinfer
