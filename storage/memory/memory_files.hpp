#pragma once

#include "storage/memory/fault_plan.hpp"
#include "storage/segment/file_layer.hpp"

#include <map>
#include <mutex>

namespace deepinfer::storage {

/// Files in memory that behave as badly as real ones may. What was not synced when the machine
/// crashed is lost, kept or torn, as the plan's numbers fall; a file whose name was not synced may
/// be gone altogether; a removed one may be back.
class memory_files : public file_layer {
public:
  explicit memory_files(std::shared_ptr<fault_plan> plan) : plan_(std::move(plan)) {}

  result<std::shared_ptr<stored_file>> create(const std::string& name, uint64_t bytes) override;
  result<std::shared_ptr<stored_file>> open(const std::string& name) override;
  result<std::vector<listed_file>> list() override;
  result<void> trim(const std::string& name, uint64_t bytes) override;
  result<void> remove(const std::string& name) override;
  using file_layer::run;
  void run(std::span<file_operation> operations, const operation_hooks& hooks) override;
  result<void> sync(stored_file& file) override;
  result<void> sync_names() override;

  /// What a crash of the machine leaves.
  void lose_unsynced();
  /// Changes one bit of one file, if there is one; for tests of scrubbing.
  bool damage();

private:
  struct node;
  struct handle;

  [[nodiscard]] failure gone() const;
  void run_one(file_operation& operation);
  void read(file_operation& operation, const node& from);
  void write(file_operation& operation, node& to);
  static void scatter(file_operation& operation, std::span<const std::byte> bytes);

  std::shared_ptr<fault_plan> plan_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<node>> names_, synced_names_;
};

}  // namespace deepinfer::storage
