#include "runtime/tokenizer/piece_table.hpp"

#include <algorithm>
#include <bit>

namespace deepinfer::text {

piece_table::piece_table(const bpe_merger& merger, std::span<const std::string> candidates) {
  std::vector<entry> kept;
  std::vector<int32_t> ids;
  for (const std::string& bytes : candidates) {
    if (bytes.empty() || bytes.size() > longest) continue;
    ids.clear();
    merger.encode(bytes, ids);
    if (ids.size() != 1) continue;
    const key k = key_of(bytes);
    kept.push_back({k.low, k.high, ids[0], static_cast<uint32_t>(bytes.size())});
  }
  const size_t size = std::bit_ceil(std::max<size_t>(16, kept.size() * 2));
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
  entries_.resize(size);
  for (const entry& each : kept) {
    size_t slot = slot_of({each.low, each.high});
    while (entries_[slot].bytes != 0) slot = (slot + 1) & (size - 1);
    entries_[slot] = each;
  }
}

}  // namespace deepinfer::text
