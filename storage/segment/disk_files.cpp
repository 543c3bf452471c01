#include "storage/segment/disk_files.hpp"

#include "storage/block/block_record.hpp"
#include "storage/segment/io_ring.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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

struct open_file : stored_file {
  ~open_file() override {
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor = -1;
  bool direct = false;
};

struct free_aligned {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using aligned_buffer = std::unique_ptr<std::byte, free_aligned>;

/// One operation while it runs: what is left of it, and a buffer of whole pages where the file is
/// read and written past the cache.
struct step {
  file_operation* operation = nullptr;
  uint64_t done = 0;
  aligned_buffer buffer;
  uint64_t buffer_bytes = 0;

  [[nodiscard]] uint64_t wanted() const { return operation->head.size() + operation->tail.size(); }
  [[nodiscard]] uint64_t total() const { return buffer ? buffer_bytes : wanted(); }
};

class folder_files final : public disk_files {
public:
  folder_files(std::string folder, const disk_options& options)
      : folder_(std::move(folder)), options_(options), rings_(options.rings, options.queue_depth) {}

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
  void run(std::span<file_operation> operations) override;
  result<void> sync(stored_file& file) override {
    if (::fdatasync(static_cast<open_file&>(file).descriptor) != 0)
      return trouble("cannot sync a file", errno);
    return {};
  }
  result<void> sync_names() override;
  disk_report report() const override {
    return {options_.submit == disk_options::submission::ring && rings_.usable(), direct_};
  }

private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  result<std::shared_ptr<stored_file>> open_as(const std::string& name, int flags);
  void submit(std::span<ring_operation> operations);
  static bool prepare(step& s);
  static ring_operation next_part(const step& s);
  static bool settle(step& s, int64_t answer);
  static void finish(step& s);

  const std::string folder_;
  const disk_options options_;
  mutable ring_pool rings_;
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

/// Past the cache everything is whole pages: memory, offset and length.
bool folder_files::prepare(step& s) {
  const auto& file = *static_cast<open_file*>(s.operation->file);
  const uint64_t bytes = s.wanted();
  if (!file.direct) return true;
  s.buffer_bytes = (bytes + location_unit - 1) / location_unit * location_unit;
  s.buffer.reset(static_cast<std::byte*>(std::aligned_alloc(location_unit, s.buffer_bytes)));
  if (!s.buffer) return false;
  if (s.operation->what == file_operation::kind::read) return true;
  std::copy(s.operation->head.begin(), s.operation->head.end(), s.buffer.get());
  std::copy(s.operation->tail.begin(), s.operation->tail.end(),
            s.buffer.get() + s.operation->head.size());
  std::fill_n(s.buffer.get() + bytes, s.buffer_bytes - bytes, std::byte{0});
  return true;
}

ring_operation folder_files::next_part(const step& s) {
  ring_operation part;
  part.what = s.operation->what == file_operation::kind::read ? ring_operation::kind::read
                                                              : ring_operation::kind::write;
  part.descriptor = static_cast<open_file*>(s.operation->file)->descriptor;
  part.offset = s.operation->offset + s.done;
  const auto add = [&part](std::byte* bytes, uint64_t count) {
    if (count > 0) part.parts[part.part_count++] = {bytes, count};
  };
  if (s.buffer) {
    add(s.buffer.get() + s.done, s.buffer_bytes - s.done);
    return part;
  }
  const uint64_t head = s.operation->head.size();
  if (s.done < head) add(s.operation->head.data() + s.done, head - s.done);
  const uint64_t in_tail = s.done > head ? s.done - head : 0;
  if (!s.operation->tail.empty())
    add(s.operation->tail.data() + in_tail, s.operation->tail.size() - in_tail);
  return part;
}

/// True when the operation has its outcome.
bool folder_files::settle(step& s, int64_t answer) {
  const bool reading = s.operation->what == file_operation::kind::read;
  if (answer == -EINTR || answer == -EAGAIN) return false;
  if (answer < 0 || (answer == 0 && !reading)) {
    const bool full = answer == -ENOSPC || answer == -EDQUOT;
    s.operation->result = full ? file_operation::outcome::full : file_operation::outcome::failed;
    return true;
  }
  s.done += static_cast<uint64_t>(answer);
  const bool end_of_file = answer == 0 || (s.buffer && s.done % location_unit != 0);
  if (s.done < s.total() && !(reading && end_of_file)) return false;
  s.operation->result = file_operation::outcome::done;
  return true;
}

void folder_files::finish(step& s) {
  file_operation& op = *s.operation;
  op.transferred = std::min(s.done, s.wanted());
  if (!s.buffer || op.what == file_operation::kind::write) return;
  const uint64_t head = std::min<uint64_t>(op.transferred, op.head.size());
  std::copy_n(s.buffer.get(), head, op.head.begin());
  std::copy_n(s.buffer.get() + head, op.transferred - head, op.tail.begin());
}

void folder_files::submit(std::span<ring_operation> operations) {
  // A write into the page cache copies and never waits for the device; a ring would hand it to one
  // kernel thread a file.
  const bool waits =
      operations.size() > 1 && (direct_ || operations.front().what == ring_operation::kind::read);
  if (waits && options_.submit == disk_options::submission::ring && rings_.run(operations)) return;
  for (ring_operation& op : operations) {
    const auto offset = static_cast<off_t>(op.offset);
    const auto count = static_cast<int>(op.part_count);
    op.answer = op.what == ring_operation::kind::read
                    ? ::preadv(op.descriptor, op.parts, count, offset)
                    : ::pwritev(op.descriptor, op.parts, count, offset);
    if (op.answer < 0) op.answer = -errno;
  }
}

void folder_files::run(std::span<file_operation> operations) {
  std::vector<step> steps;
  for (file_operation& op : operations) {
    step s{.operation = &op};
    if (prepare(s))
      steps.push_back(std::move(s));
    else
      op.result = file_operation::outcome::failed;
  }
  // what comes back short goes out again for its rest
  while (!steps.empty()) {
    std::vector<ring_operation> parts;
    for (const step& s : steps) parts.push_back(next_part(s));
    submit(parts);
    std::vector<step> left;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (settle(steps[i], parts[i].answer))
        finish(steps[i]);
      else
        left.push_back(std::move(steps[i]));
    }
    steps = std::move(left);
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
