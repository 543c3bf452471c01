#include "storage/arena/span_pool.hpp"

#include "proto/types/check.hpp"

#include <iterator>

namespace deepinfer::storage {

span_pool::span_pool(uint64_t begin, uint64_t end) : begin_(begin), end_(end) {
  DEEPINFER_CHECK(begin <= end && begin % unit == 0 && end % unit == 0);
  if (begin < end) add(begin, end - begin);
}

void span_pool::add(uint64_t offset, uint64_t length) {
  by_offset_.emplace(offset, length);
  by_length_.emplace(length, offset);
  free_bytes_ += length;
}

void span_pool::drop(std::map<uint64_t, uint64_t>::iterator at) {
  free_bytes_ -= at->second;
  by_length_.erase({at->second, at->first});
  by_offset_.erase(at);
}

std::optional<uint64_t> span_pool::take(uint64_t bytes) {
  const uint64_t length = rounded(bytes);
  if (bytes == 0 || length < bytes) return std::nullopt;
  const auto fit = by_length_.lower_bound({length, 0});
  if (fit == by_length_.end()) return std::nullopt;
  const auto [had, offset] = *fit;
  drop(by_offset_.find(offset));
  if (had > length) add(offset + length, had - length);
  return offset;
}

void span_pool::give(uint64_t offset, uint64_t bytes) {
  uint64_t length = rounded(bytes);
  DEEPINFER_CHECK(length > 0 && offset % unit == 0 && offset >= begin_ && offset <= end_ &&
                  length <= end_ - offset);
  auto after = by_offset_.lower_bound(offset);
  DEEPINFER_CHECK(after == by_offset_.end() || offset + length <= after->first);
  if (after != by_offset_.end() && after->first == offset + length) {
    length += after->second;
    drop(after);
  }
  const auto behind = by_offset_.lower_bound(offset);
  if (behind != by_offset_.begin()) {
    const auto before = std::prev(behind);
    DEEPINFER_CHECK(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      offset = before->first;
      length += before->second;
      drop(before);
    }
  }
  add(offset, length);
}

}  // namespace deepinfer::storage
