#include "storage/memory/memory_store.hpp"

#include "storage/segment/segment_store.hpp"

namespace deepinfer::storage {

namespace {

/// A store owns its files and its journal; here both outlive it.
class shared_files : public file_layer {
public:
  explicit shared_files(std::shared_ptr<memory_files> files) : files_(std::move(files)) {}
  result<std::shared_ptr<stored_file>> create(const std::string& name, uint64_t bytes) override {
    return files_->create(name, bytes);
  }
  result<void> trim(const std::string& name, uint64_t bytes) override {
    return files_->trim(name, bytes);
  }
  result<std::shared_ptr<stored_file>> open(const std::string& name) override {
    return files_->open(name);
  }
  result<std::vector<listed_file>> list() override { return files_->list(); }
  result<void> remove(const std::string& name) override { return files_->remove(name); }
  void run(std::span<file_operation> operations, const operation_hooks& hooks) override {
    files_->run(operations, hooks);
  }
  result<void> sync(stored_file& file) override { return files_->sync(file); }
  result<void> sync_names() override { return files_->sync_names(); }

private:
  std::shared_ptr<memory_files> files_;
};

class shared_journal : public metadata_journal {
public:
  explicit shared_journal(std::shared_ptr<memory_journal> journal) : journal_(std::move(journal)) {}
  result<journal_contents> load(const std::function<void(const block_record&)>& each) override {
    return journal_->load(each);
  }
  result<void> apply(const journal_batch& batch, journal_wait wait) override {
    return journal_->apply(batch, wait);
  }
  result<std::vector<block_content>> contents(std::span<const block_key> keys) override {
    return journal_->contents(keys);
  }
  result<void> sync() override { return journal_->sync(); }

private:
  std::shared_ptr<memory_journal> journal_;
};

}  // namespace

memory_medium::memory_medium(uint64_t seed)
    : plan_(std::make_shared<fault_plan>(seed)),
      files_(std::make_shared<memory_files>(plan_)),
      journal_(std::make_shared<memory_journal>(plan_)) {}

result<std::unique_ptr<block_store>> memory_medium::open(const store_config& config) {
  return segment_store::open(config, std::make_unique<shared_files>(files_),
                             std::make_unique<shared_journal>(journal_));
}

void memory_medium::power_lost() {
  files_->lose_unsynced();
  journal_->lose_unsynced();
  plan_->recover();
}

}  // namespace deepinfer::storage
