#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace deepinfer::net {

/// What a peer must know to read a region; travels in the answer to a region query.
struct region_info {
  uint64_t length = 0;
  uint64_t base = 0;  ///< added to the offset: 0, or the address where the provider wants that
  uint64_t key = 0;   ///< of the provider
};

struct registered_region {
  region_info info;
  std::span<std::byte> bytes;
};

/// This node's regions by the key that travels in messages. The bulk thread writes, the control
/// thread answers queries from it.
class region_table {
public:
  [[nodiscard]] std::optional<registered_region> find(uint64_t key) const {
    const std::lock_guard lock{mutex_};
    const auto found = regions_.find(key);
    if (found == regions_.end()) return std::nullopt;
    return found->second;
  }
  void insert(uint64_t key, const registered_region& region) {
    const std::lock_guard lock{mutex_};
    regions_[key] = region;
  }
  void erase(uint64_t key) {
    const std::lock_guard lock{mutex_};
    regions_.erase(key);
  }

private:
  mutable std::mutex mutex_;
  std::map<uint64_t, registered_region> regions_;
};

}  // namespace deepinfer::net
