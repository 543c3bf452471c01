#pragma once

#include "runtime/tokenizer/bpe.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// Pieces that merge into a single token, found in one step: most words of most texts are such, and
/// merging them costs a look-up a byte and more. Holds only what the merger itself gives for a
/// piece, so that using it changes nothing.
class piece_table {
public:
  static constexpr size_t longest = 16;

  /// Tries every candidate with `merger`; those that give one token are kept.
  piece_table(const bpe_merger& merger, std::span<const std::string> candidates);

  /// The one token of `piece`; -1 when it has several, or is not known.
  [[nodiscard]] int32_t find(std::string_view piece) const {
    if (piece.empty() || piece.size() > longest) return -1;
    const key wanted = key_of(piece);
    for (size_t slot = slot_of(wanted);; slot = (slot + 1) & (entries_.size() - 1)) {
      const entry& found = entries_[slot];
      if (found.bytes == 0) return -1;
      if (found.low == wanted.low && found.high == wanted.high && found.bytes == piece.size())
        return found.id;
    }
  }

private:
  /// All bytes of a piece of known length; the halves overlap in pieces of less than 16.
  struct key {
    uint64_t low, high;
  };
  struct entry {
    uint64_t low = 0, high = 0;
    int32_t id = -1;
    uint32_t bytes = 0;  // 0: free
  };

  template <class Word>
  static Word load(const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
  }
  static key key_of(std::string_view piece) {
    const char* first = piece.data();
    const size_t size = piece.size();
    if (size >= 8) return {load<uint64_t>(first), load<uint64_t>(first + size - 8)};
    if (size >= 4)
      return {load<uint32_t>(first) | uint64_t{load<uint32_t>(first + size - 4)} << 32, size};
    const auto at = [first](size_t i) { return uint64_t{static_cast<uint8_t>(first[i])}; };
    return {at(0) | at(size / 2) << 8 | at(size - 1) << 16, size};
  }
  [[nodiscard]] size_t slot_of(const key& k) const {
    uint64_t mixed = (k.low ^ (k.high * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
    mixed ^= mixed >> 32;
    return (mixed * 0x9E3779B97F4A7C15u) >> shift_;
  }

  std::vector<entry> entries_;  // open addressing, at most half full
  uint32_t shift_ = 0;          // 64 minus the table's size in bits
};

}  // namespace deepinfer::text
