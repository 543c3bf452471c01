#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace deepinfer::storage {

/// Where shared memory is to be found: a descriptor of a living process, and the life that made it.
struct memory_place {
  uint32_t process = 0;
  uint32_t descriptor = 0;
  uint64_t bytes = 0;
  uint64_t epoch = 0;

  friend auto operator<=>(const memory_place&, const memory_place&) = default;
};

/// In front of the bytes that are given out; says whose memory it is.
inline constexpr size_t memory_header_bytes = 4096;
inline constexpr uint64_t max_memory_bytes = uint64_t{1} << 46;

/// Memory that this process writes and others map to read. The size can never change (sealed);
/// pages are taken when they are first written.
class shared_memory {
public:
  /// `bytes` with the header, rounded up to pages. `epoch` tells lives of the owner apart.
  static result<std::unique_ptr<shared_memory>> make(uint64_t bytes, uint64_t epoch);
  ~shared_memory();
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

  /// All of it; the first `memory_header_bytes` are not to be written.
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_; }
  [[nodiscard]] const memory_place& place() const { return place_; }

private:
  shared_memory(std::span<std::byte> memory, const memory_place& place)
      : memory_(memory), place_(place) {}

  std::span<std::byte> memory_;
  memory_place place_;
};

/// The same memory in a process that only reads.
class memory_view {
public:
  /// `unreachable`: the owner is gone or not to be seen from here; `stale_epoch`: what is there now
  /// is of another life; `corrupt`: it is not such memory.
  static result<std::shared_ptr<const memory_view>> open(const memory_place& place);
  ~memory_view();
  memory_view(const memory_view&) = delete;
  memory_view& operator=(const memory_view&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return memory_; }

private:
  explicit memory_view(std::span<const std::byte> memory) : memory_(memory) {}

  std::span<const std::byte> memory_;
};

}  // namespace deepinfer::storage
