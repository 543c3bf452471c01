#include "runtime/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace deepinfer::model {

result<mapped_file> mapped_file::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
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

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace deepinfer::model
