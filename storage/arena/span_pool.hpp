#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace deepinfer::storage {

/// Which bytes of an area are taken; pure. The shortest free span that is long enough is given
/// (lengths of blocks are few, so little is split), and free neighbours become one again. What was
/// taken at once may be given back in pieces.
class span_pool {
public:
  static constexpr uint64_t unit = 64;

  /// Bytes `begin` to `end` of the area, both multiples of `unit`.
  span_pool(uint64_t begin, uint64_t end);

  /// Offset of `bytes` (rounded up to units), or nothing while no free span is that long.
  std::optional<uint64_t> take(uint64_t bytes);
  /// Part of what was taken: an offset on a unit, `bytes` rounded up to units. A span that is not
  /// taken is a bug.
  void give(uint64_t offset, uint64_t bytes);

  [[nodiscard]] static uint64_t rounded(uint64_t bytes) { return (bytes + unit - 1) & ~(unit - 1); }
  [[nodiscard]] uint64_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] uint64_t total_bytes() const { return end_ - begin_; }
  [[nodiscard]] uint64_t longest_free() const {
    return by_length_.empty() ? 0 : by_length_.rbegin()->first;
  }
  [[nodiscard]] size_t free_spans() const { return by_offset_.size(); }

private:
  void add(uint64_t offset, uint64_t length);
  void drop(std::map<uint64_t, uint64_t>::iterator at);

  uint64_t begin_, end_;
  uint64_t free_bytes_ = 0;
  std::map<uint64_t, uint64_t> by_offset_;             // free spans: offset -> length
  std::set<std::pair<uint64_t, uint64_t>> by_length_;  // and (length, offset)
};

}  // namespace deepinfer::storage
