#include "storage/segment/disk_files.hpp"

#include "storage/segment/disk_lane.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

namespace deepinfer::storage {

namespace {

failure trouble(const std::string& what, int number) {
  const auto code = number == ENOSPC || number == EDQUOT ? error_code::no_capacity
                    : number == ENOENT                   ? error_code::not_found
                    : number == EEXIST                   ? error_code::invalid_argument
                                                         : error_code::unreachable;
  return {code, what + ": " + std::strerror(number)};
}

/// Rings with their operations, each used by one caller at a time.
class lane_pool {
public:
  lane_pool(uint32_t rings, uint32_t depth) : depth_(std::max(1u, depth)), left_(rings) {}

  /// Null: none is free, or the kernel gives none.
  std::unique_ptr<disk_lane> take() {
    {
      std::lock_guard lock{mutex_};
      for (auto lane = stuck_.begin(); lane != stuck_.end();) {
        if ((*lane)->stuck()) {
          ++lane;
          continue;
        }
        idle_.push_back(std::move(*lane));
        lane = stuck_.erase(lane);
      }
      if (!idle_.empty()) {
        auto taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
      if (left_ == 0) return nullptr;
      --left_;
    }
    if (auto ring = io_ring::make(depth_))
      return std::make_unique<disk_lane>(std::move(ring), depth_);
    std::lock_guard lock{mutex_};  // never asked again
    left_ = 0;
    return nullptr;
  }
  void give(std::unique_ptr<disk_lane> used) {
    std::lock_guard lock{mutex_};
    (used->stuck() ? stuck_ : idle_).push_back(std::move(used));
  }
  [[nodiscard]] bool usable() {
    auto probe = take();
    if (!probe) return false;
    give(std::move(probe));
    return true;
  }
  [[nodiscard]] uint32_t stuck() {
    std::lock_guard lock{mutex_};
    return static_cast<uint32_t>(stuck_.size());
  }

private:
  const uint32_t depth_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<disk_lane>> idle_, stuck_;
  uint32_t left_;  // rings that may still be made
};

class folder_files final : public disk_files {
public:
  folder_files(std::string folder, const disk_options& options)
      : folder_(std::move(folder)), options_(options), lanes_(options.rings, options.queue_depth) {}

  using disk_files::run;

  result<std::shared_ptr<stored_file>> create(const std::string& name, uint64_t bytes) override;
  result<void> trim(const std::string& name, uint64_t bytes) override {
    if (::truncate(path(name).c_str(), static_cast<off_t>(bytes)) != 0)
      return trouble("cannot cut " + name, errno);
    return {};
  }
  result<std::shared_ptr<stored_file>> open(const std::string& name) override {
    return open_as(name, O_RDONLY);
  }
  result<std::vector<listed_file>> list() override;
  result<void> remove(const std::string& name) override {
    if (::unlink(path(name).c_str()) != 0) return trouble("cannot remove " + name, errno);
    return {};
  }
  void run(std::span<file_operation> operations, const operation_hooks& hooks) override;
  result<void> sync(stored_file& file) override {
    if (::fdatasync(static_cast<open_file&>(file).descriptor) != 0)
      return trouble("cannot sync a file", errno);
    return {};
  }
  result<void> sync_names() override;
  disk_report report() const override {
    const uint32_t stuck = lanes_.stuck();
    return {options_.submit == disk_options::submission::ring && (stuck > 0 || lanes_.usable()),
            direct_, stuck};
  }

private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  result<std::shared_ptr<stored_file>> open_as(const std::string& name, int flags);
  [[nodiscard]] bool by_ring(std::span<const file_operation> operations) const;
  std::span<file_operation> take_cached(std::span<file_operation> operations,
                                        const operation_hooks& hooks) const;

  const std::string folder_;
  const disk_options options_;
  mutable lane_pool lanes_;
  std::atomic<bool> direct_{false};
};

result<std::shared_ptr<stored_file>> folder_files::open_as(const std::string& name, int flags) {
  auto made = std::make_shared<open_file>();
  const bool wanted = options_.cache == disk_options::caching::direct;
  if (wanted) made->descriptor = ::open(path(name).c_str(), flags | O_DIRECT | O_CLOEXEC, 0600);
  made->direct = made->descriptor >= 0;
  if (made->direct) direct_ = true;
  // not every file system can (EINVAL); it may have made the file before it said so
  if (wanted && !made->direct && errno == EINVAL) flags &= ~O_EXCL;
  if (made->descriptor < 0) made->descriptor = ::open(path(name).c_str(), flags | O_CLOEXEC, 0600);
  if (made->descriptor < 0) return trouble("cannot open " + path(name), errno);
  return std::shared_ptr<stored_file>{std::move(made)};
}

result<std::shared_ptr<stored_file>> folder_files::create(const std::string& name, uint64_t bytes) {
  auto made = open_as(name, O_RDWR | O_CREAT | O_EXCL);
  if (!made || bytes == 0) return made;
  const int descriptor = static_cast<open_file&>(**made).descriptor;
  const auto size = static_cast<off_t>(bytes);
  if (::fallocate(descriptor, 0, 0, size) == 0) return made;
  const int number = errno;
  // not every file system can set space aside; a hole of the right length is the next best
  if (number != ENOSPC && number != EDQUOT && ::ftruncate(descriptor, size) == 0) return made;
  static_cast<void>(::unlink(path(name).c_str()));
  return trouble("cannot set aside space for " + path(name), number);
}

result<std::vector<listed_file>> folder_files::list() {
  std::vector<listed_file> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at{folder_, error}, end; !error && at != end;
       at.increment(error)) {
    const uint64_t bytes = at->is_regular_file(error) ? at->file_size(error) : 0;
    files.push_back({at->path().filename().string(), bytes});
  }
  if (error) return failure{error_code::unreachable, folder_ + ": " + error.message()};
  return files;
}

result<void> folder_files::sync_names() {
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return trouble("cannot open " + folder_, errno);
  const int synced = ::fsync(folder);
  const int number = errno;
  ::close(folder);
  // some network file systems keep names in order by themselves and refuse
  if (synced != 0 && number != EINVAL) return trouble("cannot sync " + folder_, number);
  return {};
}

/// A write into the page cache copies and does not wait for the device; a ring would hand it to one
/// kernel thread a file.
bool folder_files::by_ring(std::span<const file_operation> operations) const {
  if (operations.empty() || options_.submit != disk_options::submission::ring) return false;
  return direct_ || operations.front().what == file_operation::kind::read;
}

/// Reads what the page cache has, straight into the caller's memory, up to the first operation that
/// it does not have all of; what is left. A ring would read it into memory of its own first, since
/// what a device still owes must not be written to the caller's, and that copy costs as much again.
std::span<file_operation> folder_files::take_cached(std::span<file_operation> operations,
                                                    const operation_hooks& hooks) const {
  while (!operations.empty()) {
    file_operation& operation = operations.front();
    const auto& file = static_cast<const open_file&>(*operation.file);
    if (operation.what != file_operation::kind::read || file.direct) return operations;
    const iovec parts[2] = {{operation.head.data(), operation.head.size()},
                            {operation.tail.data(), operation.tail.size()}};
    const uint64_t wanted = operation.head.size() + operation.tail.size();
    const ssize_t got = ::preadv2(file.descriptor, parts, 2, static_cast<off_t>(operation.offset),
                                  RWF_NOWAIT);  // a file system that cannot refuses
    if (got < 0 || static_cast<uint64_t>(got) != wanted) return operations;
    hooks.begins(operation);
    operation.result = file_operation::outcome::done;
    operation.transferred = wanted;
    hooks.ended(operation);
    operations = operations.subspan(1);
  }
  return operations;
}

void folder_files::run(std::span<file_operation> all, const operation_hooks& hooks) {
  const bool ring = by_ring(all);
  const std::span<file_operation> operations = ring ? take_cached(all, hooks) : all;
  if (operations.empty()) return;
  if (auto lane = ring ? lanes_.take() : nullptr) {
    lane->run(operations, hooks, options_.patience);
    return lanes_.give(std::move(lane));
  }
  const bool device_stalls = ring && lanes_.stuck() > 0;
  transfer one_at_a_time;
  for (file_operation& operation : operations) {
    if (!device_stalls) hooks.begins(operation);
    if (device_stalls || !one_at_a_time.begin(operation, transfer::through::callers_memory))
      operation.result = file_operation::outcome::failed;
    else
      one_at_a_time.run();
    hooks.ended(operation);
  }
}

}  // namespace

result<std::unique_ptr<disk_files>> disk_files::in(const std::string& folder,
                                                   const disk_options& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure{error_code::unreachable,
                   "cannot make the folder " + folder + ": " + error.message()};
  return std::unique_ptr<disk_files>{std::make_unique<folder_files>(folder, options)};
}

}  // namespace deepinfer::storage
