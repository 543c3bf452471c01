#pragma once

#include "actors/cache/kv_store_config.hpp"
#include "proto/types/result.hpp"
#include "storage/block_store.hpp"
#include "storage/folder/store_folder.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer {

/// Scopes that were purged at a store, for the mover beside it. Any thread.
class purged_scopes {
public:
  void note(storage::scope_id scope) {
    std::lock_guard lock{mutex_};
    if (scopes_.size() < most) scopes_.push_back(scope);
  }
  [[nodiscard]] std::vector<storage::scope_id> take() {
    std::lock_guard lock{mutex_};
    return std::exchange(scopes_, {});
  }

private:
  static constexpr size_t most = 4096;  // a store takes no more purges within a put's time

  std::mutex mutex_;
  std::vector<storage::scope_id> scopes_;
};

/// An opened store, and how others may know and reach it. The folder's lock lives as long as the
/// last copy of `store`.
struct kv_backing {
  std::shared_ptr<storage::block_store> store;
  storage::store_id id;
  std::string folder;      ///< of the segment files; empty: only this process reaches the bytes
  storage::store_id mark;  ///< what the file `mark` in it says
  uint32_t replicas = 1;
  uint64_t capacity_bytes = 0;
  std::shared_ptr<purged_scopes> purges = std::make_shared<purged_scopes>();
  /// `group_moves::view` of the mover beside the store; 0: there is none.
  std::shared_ptr<std::atomic<uint64_t>> placement = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<std::string> mended;  ///< what was damaged, and what became of it
};

struct kv_backing_options {
  std::string default_base;    ///< folder for stores without a path; empty: none is known
  storage::store_id fresh_id;  ///< for a folder that has none
  storage::store_id fresh_mark;
  uint64_t fresh_epoch = 0;  ///< above that of all lives so far, for a store that lost its index
};

/// Opens what the settings name. A damaged id is mended, a damaged index set aside: the store then
/// begins empty. Anything else fails; the text says what to do.
[[nodiscard]] result<kv_backing> open_kv_backing(const kv_store_config& config,
                                                 const kv_backing_options& options);

/// The settings as the store takes them, with this many bytes.
[[nodiscard]] storage::store_config store_settings(const kv_store_config& config,
                                                   uint64_t capacity_bytes);

}  // namespace deepinfer
