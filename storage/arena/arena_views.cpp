#include "storage/arena/arena_views.hpp"

#include <algorithm>

namespace deepinfer::storage {

result<std::shared_ptr<const memory_view>> arena_views::memory(const memory_place& place) {
  const std::lock_guard lock{mutex_};
  const auto found = std::find_if(views_.begin(), views_.end(),
                                  [&](const kept_view& kept) { return kept.place == place; });
  if (found != views_.end()) {
    views_.splice(views_.begin(), views_, found);
    return views_.front().view;
  }
  auto opened = memory_view::open(place);
  if (!opened) return opened.error();
  views_.push_front({place, *opened});
  if (views_.size() > most_) views_.pop_back();
  return opened;
}

result<shared_bytes> arena_views::span_of(const std::shared_ptr<const memory_view>& memory,
                                          uint64_t offset,
                                          uint32_t length) {
  const auto all = memory->bytes();
  if (length == 0 || offset < memory_header_bytes || offset > all.size() ||
      length > all.size() - offset)
    return failure{error_code::corrupt, "a block is said to lie outside the shared memory"};
  return shared_bytes{memory, all.subspan(offset, length)};
}

void arena_views::forget() {
  std::list<kept_view> unused;  // unmapped without the lock: many pages take their time
  const std::lock_guard lock{mutex_};
  unused.swap(views_);
}

size_t arena_views::kept() const {
  const std::lock_guard lock{mutex_};
  return views_.size();
}

}  // namespace deepinfer::storage
