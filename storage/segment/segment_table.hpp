#pragma once

#include "storage/block/block_record.hpp"
#include "storage/segment/file_layer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

namespace deepinfer::storage {

/// The segment files of a store: how full, how much of it is live, what may be dropped. Pure
/// bookkeeping; whoever calls does the file work.
class segment_table {
public:
  struct segment {
    std::shared_ptr<stored_file> file;
    uint64_t bytes = 0;            ///< given out, from the start of the file
    uint64_t live = 0;             ///< of blocks with entries
    uint64_t pending = 0;          ///< of blocks between write and commit, or being moved here
    bool sealed = true;            ///< never written again
    bool unsynced = false;         ///< has bytes that no sync has begun after
    bool rewrite_due = false;      ///< holds purged bytes
    std::vector<scope_id> left{};  ///< scopes that have bytes here which are no block any more
    bool anybodys = false;         ///< so may others: too many, or of an earlier life
  };

  void add(uint32_t number, segment made) {
    file_bytes_ += made.bytes;
    segments_.emplace(number, std::move(made));
  }
  [[nodiscard]] segment* find(uint32_t number) {
    const auto found = segments_.find(number);
    return found == segments_.end() ? nullptr : &found->second;
  }
  void erase(uint32_t number) {
    file_bytes_ -= segments_.at(number).bytes;
    segments_.erase(number);
  }
  /// What is known of its end is less than its file was long.
  void shrink(uint32_t number, uint64_t bytes) {
    segment& s = segments_.at(number);
    file_bytes_ -= s.bytes - bytes;
    s.bytes = bytes;
  }
  /// Takes space at the end of a segment.
  [[nodiscard]] block_location take(uint32_t number, uint64_t bytes) {
    segment& s = segments_.at(number);
    const block_location place{number, s.bytes};
    s.bytes += bytes;
    s.pending += bytes;
    file_bytes_ += bytes;
    return place;
  }
  /// Pending space becomes a block, or nobody's.
  void settle(const block_location& place, uint64_t bytes, uint64_t live) {
    if (segment* s = find(place.segment)) {
      s->pending -= bytes;
      s->live += live;
    }
  }
  void free(const block_location& place, uint64_t bytes, scope_id scope) {
    if (segment* s = find(place.segment)) s->live -= bytes;
    leave(place.segment, scope);
  }
  /// Whose bytes lie between the blocks that an earlier life left is not known.
  void mark_holes() {
    for (auto& [number, s] : segments_) s.anybodys = s.live + location_unit < s.bytes;
  }
  /// Bytes of a scope stay behind without a block.
  void leave(uint32_t number, scope_id scope) {
    segment* s = find(number);
    if (s == nullptr || s->anybodys || std::ranges::find(s->left, scope) != s->left.end()) return;
    if (s->left.size() < most_left) return s->left.push_back(scope);
    s->anybodys = true;
    s->left = {};
  }
  /// Segments that may hold bytes of a scope without a block of it.
  [[nodiscard]] std::vector<uint32_t> left_by(scope_id scope) const {
    std::vector<uint32_t> found;
    for (const auto& [number, s] : segments_)
      if (s.anybodys || std::ranges::find(s.left, scope) != s.left.end()) found.push_back(number);
    return found;
  }

  /// Sealed segments that nobody needs.
  [[nodiscard]] std::optional<uint32_t> empty_one() const {
    for (const auto& [number, s] : segments_)
      if (s.sealed && s.live == 0 && s.pending == 0) return number;
    return std::nullopt;
  }
  /// The one whose rewriting gives the most: purged bytes first, then the least live share if that
  /// is below `share`.
  [[nodiscard]] std::optional<uint32_t> worst(double share) const {
    std::optional<uint32_t> found;
    for (const auto& [number, s] : segments_) {
      if (!s.sealed || s.pending != 0) continue;
      if (s.rewrite_due) return number;
      const uint64_t blocks = s.bytes - std::min(s.bytes, location_unit);  // without the header
      const double live =
          static_cast<double>(s.live) / static_cast<double>(std::max<uint64_t>(1, blocks));
      if (live >= share) continue;
      share = live;
      found = number;
    }
    return found;
  }

  [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] size_t size() const { return segments_.size(); }
  [[nodiscard]] const std::map<uint32_t, segment>& all() const { return segments_; }

private:
  static constexpr size_t most_left = 64;  // bounds what a segment remembers

  std::map<uint32_t, segment> segments_;
  uint64_t file_bytes_ = 0;
};

}  // namespace deepinfer::storage
