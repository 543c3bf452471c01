#include "runtime/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace deepinfer::model {

result<mapped_file> mapped_file::open(const std::filesystem::path& path) {
  // A pipe in the file's place must be refused, not waited for; a file does not know the flag.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return failure{error_code::not_found,
                   "cannot open " + path.string() + ": " + std::strerror(errno)};
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<size_t>(info.st_size) : 0;
  // An empty file cannot be mapped; it is an empty span.
  void* base = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (!regular) return failure{error_code::not_found, path.string() + " is not a regular file"};
  if (base == MAP_FAILED)
    return failure{error_code::no_capacity,
                   "cannot map " + path.string() + ": " + std::strerror(error)};
  return mapped_file(std::span(static_cast<const std::byte*>(base), size));
}

void mapped_file::give_back(size_t offset, size_t length) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t end = std::min(length, bytes_.size() - std::min(offset, bytes_.size())) + offset;
  const size_t from = (offset + page - 1) / page * page, to = end / page * page;
  if (from >= to) return;
  // Only advice: a refusal costs memory, not correctness.
  static_cast<void>(
      ::madvise(const_cast<std::byte*>(bytes_.data()) + from, to - from, MADV_DONTNEED));
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace deepinfer::model
