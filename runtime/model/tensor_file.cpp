#include "runtime/model/tensor_file.hpp"

#include "proto/types/check.hpp"
#include "runtime/model/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace deepinfer::model {

result<tensor_file> tensor_file::create(const std::filesystem::path& path,
                                        std::span<const table_entry> entries) {
  std::vector<tensor_layout> layout;
  layout.reserve(entries.size());
  for (const table_entry& e : entries) layout.push_back({e.name, e.type, e.shape, e.bytes()});
  const std::string start = safetensors_start(layout);

  tensor_file out(path);
  out.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out.fd_ < 0) return out.trouble();
  uint64_t place = start.size();
  for (const table_entry& e : entries) {
    out.start_.emplace(e.name, place);
    place += e.bytes();
  }
  if (auto done = out.write_at(0, std::as_bytes(std::span(start))); !done) return done.error();
  if (::ftruncate(out.fd_, static_cast<off_t>(place)) != 0) return out.trouble();
  return out;
}

tensor_file::~tensor_file() {
  if (fd_ >= 0) ::close(fd_);
}

result<void> tensor_file::write(std::string_view tensor,
                                uint64_t offset,
                                std::span<const std::byte> bytes) const {
  const auto found = start_.find(tensor);
  DEEPINFER_CHECK(found != start_.end());
  return write_at(found->second + offset, bytes);
}

result<void> tensor_file::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) return trouble();
  return {};
}

result<void> tensor_file::write_at(uint64_t place, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return trouble();
    bytes = bytes.subspan(static_cast<size_t>(done));
    place += static_cast<uint64_t>(done);
  }
  return {};
}

failure tensor_file::trouble() const {
  return failure{error_code::no_capacity,
                 "cannot write " + path_.string() + ": " + std::strerror(errno)};
}

}  // namespace deepinfer::model
