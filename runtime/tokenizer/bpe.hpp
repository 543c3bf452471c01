#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// One line of the merge list, as token ids: `left` and `right` become `merged`. The position in
/// the list is the rank: lower merges first.
struct merge_rule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

/// Byte-level BPE of one piece: start with one token a byte, and merge the adjacent pair of lowest
/// rank (the leftmost of equals) until no pair is in the list.
class bpe_merger {
public:
  bpe_merger(const std::array<int32_t, 256>& byte_ids, std::span<const merge_rule> rules);

  /// Appends the tokens of `piece`. O(n log n); short pieces use a quadratic scan that is faster
  /// for them. Safe to call from several threads at once.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

private:
  class long_piece;

  static constexpr uint32_t no_rank = ~uint32_t{0};

  /// What two neighbouring tokens give.
  struct outcome {
    uint32_t rank = no_rank;
    int32_t merged = -1;
  };
  struct entry {
    uint64_t pair = ~uint64_t{0};
    outcome gives;
  };

  [[nodiscard]] outcome find(int32_t left, int32_t right) const;
  [[nodiscard]] outcome find_bytes(char left, char right) const {
    return byte_outcomes_[byte_pairs_[static_cast<uint8_t>(left) << 8 |
                                      static_cast<uint8_t>(right)]];
  }
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<entry> table_;  // open addressing, at most half full
  uint32_t shift_ = 0;        // 64 minus the table's size in bits
  // Most pairs that are looked up merge to nothing, and the table is larger than the caches that
  // are near: a bit for every eighth of a slot tells most of those apart.
  std::vector<uint64_t> maybe_;
  // Every piece begins with pairs of bytes: an index by both into the few that merge, 0 for none.
  std::vector<uint32_t> byte_pairs_;
  std::vector<outcome> byte_outcomes_;
};

}  // namespace deepinfer::text
