#pragma once

#include "runtime/net/fabric/fabric_config.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace deepinfer::net {

/// The part of a link that sending threads see: whether it is open, and how much is queued.
struct send_gate {
  uint64_t link = 0;
  std::atomic<bool> open{true};
  std::atomic<size_t> bytes{0};
  std::atomic<size_t> frames{0};

  /// Takes room for a frame of `size` bytes. A frame alone always fits.
  [[nodiscard]] bool reserve(size_t size, const fabric_config& limits) {
    const size_t before = bytes.fetch_add(size);
    const bool fits = before == 0 || before + size <= limits.send_queue_bytes;
    if (fits && frames.fetch_add(1) < limits.send_queue_frames) return true;
    if (fits) frames.fetch_sub(1);
    bytes.fetch_sub(size);
    return false;
  }
  void give_back(size_t size) {
    bytes.fetch_sub(size);
    frames.fetch_sub(1);
  }
};

/// Which peers are linked, for any thread.
class gate_directory {
public:
  [[nodiscard]] std::shared_ptr<send_gate> find(const node_id& peer) const {
    const std::shared_lock lock{mutex_};
    const auto found = gates_.find(peer);
    return found == gates_.end() ? nullptr : found->second;
  }
  void insert(const node_id& peer, std::shared_ptr<send_gate> gate) {
    const std::unique_lock lock{mutex_};
    gates_[peer] = std::move(gate);
  }
  void erase(const node_id& peer) {
    const std::unique_lock lock{mutex_};
    gates_.erase(peer);
  }

private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<node_id, std::shared_ptr<send_gate>> gates_;
};

}  // namespace deepinfer::net
