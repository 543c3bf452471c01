#pragma once

#include "storage/block_store.hpp"
#include "storage/memory/fault_plan.hpp"
#include "storage/memory/memory_files.hpp"
#include "storage/memory/memory_journal.hpp"
#include "storage/store_config.hpp"

#include <memory>

namespace deepinfer::storage {

/// The simulated machine that a memory store runs on: what is left when the store is gone.
class memory_medium {
public:
  explicit memory_medium(uint64_t seed);

  /// Opens the store that the medium holds; an empty one at first. One at a time.
  result<std::unique_ptr<block_store>> open(const store_config& config);

  /// The process died: all that reached the kernel is there. The store object must be gone.
  void process_died() { plan_->recover(); }
  /// The machine lost power: what was not synced is lost, kept or torn.
  void power_lost();
  bool damage() { return files_->damage(); }
  [[nodiscard]] fault_plan& faults() { return *plan_; }

private:
  std::shared_ptr<fault_plan> plan_;
  std::shared_ptr<memory_files> files_;
  std::shared_ptr<memory_journal> journal_;
};

}  // namespace deepinfer::storage
