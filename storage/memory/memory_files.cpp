#include "storage/memory/memory_files.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::storage {

namespace {

constexpr uint64_t sector = 512;  // written whole or not at all

}  // namespace

/// What readers see, and what is on the device.
struct memory_files::node {
  std::vector<std::byte> bytes, synced;
};

struct memory_files::handle : stored_file {
  std::shared_ptr<node> file;
};

failure memory_files::gone() const {
  return {error_code::unreachable, "the machine crashed"};
}

result<std::shared_ptr<stored_file>> memory_files::create(const std::string& name, uint64_t bytes) {
  if (!plan_->proceed()) return gone();
  if (plan_->happens(plan_->current().full_disk))
    return failure{error_code::no_capacity, "no space for a new file"};
  std::lock_guard lock{mutex_};
  const auto [at, fresh] = names_.try_emplace(name, nullptr);
  if (!fresh) return failure{error_code::invalid_argument, "the file is there already"};
  at->second = std::make_shared<node>();
  at->second->bytes.resize(bytes);
  auto made = std::make_shared<handle>();
  made->file = at->second;
  return std::shared_ptr<stored_file>{made};
}

result<std::shared_ptr<stored_file>> memory_files::open(const std::string& name) {
  if (plan_->crashed()) return gone();
  std::lock_guard lock{mutex_};
  const auto found = names_.find(name);
  if (found == names_.end()) return failure{error_code::not_found, "no such file"};
  auto made = std::make_shared<handle>();
  made->file = found->second;
  return std::shared_ptr<stored_file>{made};
}

result<std::vector<listed_file>> memory_files::list() {
  if (plan_->crashed()) return gone();
  std::lock_guard lock{mutex_};
  std::vector<listed_file> files;
  for (const auto& [name, file] : names_) files.push_back({name, file->bytes.size()});
  return files;
}

result<void> memory_files::trim(const std::string& name, uint64_t bytes) {
  if (!plan_->proceed()) return gone();
  std::lock_guard lock{mutex_};
  const auto found = names_.find(name);
  if (found == names_.end()) return failure{error_code::not_found, "no such file"};
  if (found->second->bytes.size() > bytes) found->second->bytes.resize(bytes);
  return {};
}

result<void> memory_files::remove(const std::string& name) {
  if (!plan_->proceed()) return gone();
  std::lock_guard lock{mutex_};
  if (names_.erase(name) == 0) return failure{error_code::not_found, "no such file"};
  return {};
}

void memory_files::run(std::span<file_operation> operations, const operation_hooks& hooks) {
  for (file_operation& operation : operations) {
    hooks.begins(operation);
    run_one(operation);
    hooks.ended(operation);
  }
}

void memory_files::run_one(file_operation& operation) {
  operation.transferred = 0;
  node& file = *static_cast<handle*>(operation.file)->file;
  const auto now = plan_->current();
  static_cast<void>(plan_->happens(now.stall));
  const bool reading = operation.what == file_operation::kind::read;
  const bool was_up = !plan_->crashed();
  const bool alive = reading ? was_up : plan_->proceed();
  if (!reading && was_up && !alive) {  // the write that the crash interrupts
    std::lock_guard lock{mutex_};
    write(operation, file);
  }
  if (!alive || plan_->happens(reading ? now.failed_read : now.failed_write)) {
    operation.result = file_operation::outcome::failed;
    return;
  }
  if (!reading && plan_->happens(now.full_disk)) {
    operation.result = file_operation::outcome::full;
    return;
  }
  std::lock_guard lock{mutex_};
  operation.result = file_operation::outcome::done;
  reading ? read(operation, file) : write(operation, file);
}

void memory_files::scatter(file_operation& operation, std::span<const std::byte> bytes) {
  const size_t first = std::min(bytes.size(), operation.head.size());
  std::copy_n(bytes.begin(), first, operation.head.begin());
  std::copy(bytes.begin() + static_cast<ptrdiff_t>(first), bytes.end(), operation.tail.begin());
}

void memory_files::read(file_operation& operation, const node& from) {
  const auto now = plan_->current();
  const uint64_t there =
      from.bytes.size() - std::min<uint64_t>(from.bytes.size(), operation.offset);
  uint64_t count = std::min<uint64_t>(there, operation.head.size() + operation.tail.size());
  if (count > 0 && plan_->happens(now.short_read)) count = plan_->below(count);
  std::vector<std::byte> bytes(count);
  if (count > 0) std::memcpy(bytes.data(), from.bytes.data() + operation.offset, count);
  if (count > 0 && plan_->happens(now.flipped_read))
    bytes[plan_->below(count)] ^= static_cast<std::byte>(1u << plan_->below(8));
  scatter(operation, bytes);
  operation.transferred = count;
}

void memory_files::write(file_operation& operation, node& to) {
  const auto now = plan_->current();
  std::vector<std::byte> bytes(operation.head.begin(), operation.head.end());
  bytes.insert(bytes.end(), operation.tail.begin(), operation.tail.end());
  operation.transferred = bytes.size();
  if (plan_->happens(now.flipped_write))
    bytes[plan_->below(bytes.size())] ^= static_cast<std::byte>(1u << plan_->below(8));
  uint64_t count = bytes.size();
  if (plan_->happens(now.torn_write)) count = plan_->below(count);
  if (plan_->crashed()) count = plan_->below(count + 1);
  if (to.bytes.size() < operation.offset + count) to.bytes.resize(operation.offset + count);
  std::copy_n(bytes.begin(), count, to.bytes.begin() + static_cast<ptrdiff_t>(operation.offset));
}

result<void> memory_files::sync(stored_file& file) {
  if (!plan_->proceed()) return gone();
  std::lock_guard lock{mutex_};
  node& synced = *static_cast<handle&>(file).file;
  synced.synced = synced.bytes;
  return {};
}

result<void> memory_files::sync_names() {
  if (!plan_->proceed()) return gone();
  std::lock_guard lock{mutex_};
  synced_names_ = names_;
  return {};
}

void memory_files::lose_unsynced() {
  std::lock_guard lock{mutex_};
  auto kept = synced_names_;
  for (const auto& [name, file] : names_)
    if (!kept.contains(name) && plan_->below(2) == 0) kept.emplace(name, file);
  for (const auto& [name, file] : synced_names_)
    if (!names_.contains(name) && plan_->below(2) == 0) kept.erase(name);
  for (const auto& [name, file] : kept) {
    // every sector that is not on the device may or may not have got there
    std::vector<std::byte> left = file->synced;
    const size_t size = plan_->below(4) == 0 ? left.size() : file->bytes.size();
    left.resize(std::max(left.size(), size));
    for (uint64_t at = 0; at < std::min(left.size(), file->bytes.size()); at += sector) {
      const uint64_t count =
          std::min<uint64_t>(sector, std::min(left.size(), file->bytes.size()) - at);
      if (std::memcmp(&left[at], &file->bytes[at], count) != 0 && plan_->below(2) == 0)
        std::memcpy(&left[at], &file->bytes[at], count);
    }
    file->bytes = left;
    file->synced = std::move(left);
  }
  names_ = synced_names_ = std::move(kept);
}

bool memory_files::damage() {
  std::lock_guard lock{mutex_};
  if (names_.empty()) return false;
  const auto at = std::next(names_.begin(), static_cast<ptrdiff_t>(plan_->below(names_.size())));
  node& file = *at->second;
  if (file.bytes.empty()) return false;
  const uint64_t byte = plan_->below(file.bytes.size());
  file.bytes[byte] ^= std::byte{1};
  if (byte < file.synced.size()) file.synced[byte] = file.bytes[byte];
  return true;
}

}  // namespace deepinfer::storage
