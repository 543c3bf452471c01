#include "actors/serve/sequence_chain.hpp"

#include "proto/types/check.hpp"
#include "storage/block/group_cut.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using model::cache_block_tokens;

void sequence_chain::extend(std::span<const int32_t> tokens) {
  const uint32_t shared = line_.shared.blocks;
  if (!hasher_) {
    hasher_.emplace(shared == 0 ? line_.root : line_.shared.root, cache_block_tokens);
    if (shared == 0) own_root_ = line_.root;
  }
  const size_t full = tokens.size() / cache_block_tokens;
  while (keys_.size() < full) {
    const size_t known = keys_.size();
    const size_t end = known < shared ? std::min<size_t>(full, shared) : full;
    const auto part =
        tokens.subspan(known * cache_block_tokens, (end - known) * cache_block_tokens);
    const auto hashed = hasher_->append(part, {}, keys_);
    DEEPINFER_CHECK(hashed);  // there are no marks that could be wrong
    if (end != shared) continue;
    hasher_->continue_in(line_.root);
    own_root_ = hasher_->last();
  }
}

uint64_t sequence_chain::scope_of(uint32_t block) const {
  if (block >= line_.shared.blocks) return line_.scope;
  return static_cast<uint64_t>(storage::id_of(storage::public_scope()));
}

std::optional<persist_blocks> sequence_chain::take(std::vector<model::state_part>& parts,
                                                   std::span<const int32_t> tokens) {
  const auto first = std::find_if(parts.begin(), parts.end(), [this](const auto& part) {
    return part.kind == model::part_kind::block && part.index == given_;
  });
  const storage::group_cut cut{line_.group_blocks, line_.shared.blocks};
  const uint32_t group = cut.group_of(given_);
  const uint64_t end = std::min<uint64_t>(cut.end_of(group), keys_.size());
  auto blocks = std::make_shared<std::vector<model::state_part>>();
  for (auto it = first; it != parts.end() && given_ + blocks->size() < end; ++it) {
    if (it->kind != model::part_kind::block || it->index != given_ + blocks->size()) break;
    blocks->push_back({it->kind, it->index, std::move(it->bytes)});
  }
  if (blocks->empty()) return std::nullopt;
  persist_blocks out;
  out.line = line_;
  out.line.scope = scope_of(given_);
  out.first_block = cut.depth_of(given_);
  if (out.first_block != 0)
    out.parent = keys_[given_ - 1];
  else
    out.parent = given_ < line_.shared.blocks ? line_.shared.root : own_root_;
  out.head = keys_[cut.first_of(group)];
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
