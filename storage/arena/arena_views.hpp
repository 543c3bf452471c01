#pragma once

#include "storage/arena/shared_memory.hpp"

#include <cstdint>
#include <list>
#include <mutex>

namespace deepinfer::storage {

/// Bytes in another process's memory, and what keeps them mapped. They may change while they are
/// read, if their owner is out of its mind: verify what was copied, not what lies there.
struct shared_bytes {
  std::shared_ptr<const memory_view> memory;
  std::span<const std::byte> bytes;
};

/// Mappings of shared memory, made once per life of its owner. Any thread.
class arena_views {
public:
  static constexpr size_t default_mappings = 4;

  /// At most `mappings` are kept beyond their use, the least recently used goes first.
  explicit arena_views(size_t mappings = default_mappings) : most_(mappings) {}

  /// The failures of `memory_view::open`.
  result<std::shared_ptr<const memory_view>> memory(const memory_place& place);
  /// `corrupt` for a span that is not inside the memory, or touches its header.
  static result<shared_bytes> span_of(const std::shared_ptr<const memory_view>& memory,
                                      uint64_t offset,
                                      uint32_t length);
  /// Keeps none any more beyond its use: a dead owner's memory is held by its mappings alone.
  void forget();
  [[nodiscard]] size_t kept() const;

private:
  struct kept_view {
    memory_place place;
    std::shared_ptr<const memory_view> view;
  };

  const size_t most_;
  mutable std::mutex mutex_;
  std::list<kept_view> views_;  // last used first
};

}  // namespace deepinfer::storage
