#include "storage/arena/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace deepinfer::storage {
namespace {

constexpr uint64_t magic = 0x41726e4149504544u;  // "DEPIAnrA"
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct memory_header {
  uint64_t magic = 0;
  uint64_t bytes = 0;
  uint64_t epoch = 0;
};
static_assert(sizeof(memory_header) <= memory_header_bytes);

failure trouble(const std::string& what) {
  return {error_code::unreachable, what + ": " + std::strerror(errno)};
}

/// Closed at the end of the scope unless it was released.
class descriptor_guard {
public:
  explicit descriptor_guard(int descriptor) : descriptor_(descriptor) {}
  ~descriptor_guard() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  descriptor_guard(const descriptor_guard&) = delete;
  descriptor_guard& operator=(const descriptor_guard&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  void release() { descriptor_ = -1; }

private:
  int descriptor_;
};

// Only a file whose size its owner cannot change any more may be mapped: reading behind the end of
// one that shrank would end this process.
result<void> check_sealed(int descriptor, uint64_t bytes) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return trouble("cannot look at shared memory");
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (!S_ISREG(info.st_mode) || seals < 0 || (seals & size_seals) != size_seals)
    return failure{error_code::corrupt, "what is called shared memory is no sealed memory"};
  if (static_cast<uint64_t>(info.st_size) != bytes)
    return failure{error_code::corrupt, "shared memory is not of the size that was told"};
  return {};
}

}  // namespace

result<std::unique_ptr<shared_memory>> shared_memory::make(uint64_t bytes, uint64_t epoch) {
  if (bytes <= memory_header_bytes || bytes > max_memory_bytes)
    return failure{error_code::invalid_argument, "shared memory of " + std::to_string(bytes) +
                                                     " bytes; choose more than 4096 and less than "
                                                     "2^46"};
  const uint64_t whole = (bytes + memory_header_bytes - 1) & ~uint64_t{memory_header_bytes - 1};
  descriptor_guard file{::memfd_create("deepinfer-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (file.get() < 0) return trouble("cannot make shared memory");
  if (::ftruncate(file.get(), static_cast<off_t>(whole)) != 0)
    return trouble("cannot set the size of shared memory");
  if (::fcntl(file.get(), F_ADD_SEALS, size_seals) != 0)
    return trouble("cannot seal shared memory");
  void* at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return trouble("cannot map shared memory");
  const memory_header header{magic, whole, epoch};
  std::memcpy(at, &header, sizeof header);
  const memory_place place{static_cast<uint32_t>(::getpid()), static_cast<uint32_t>(file.get()),
                           whole, epoch};
  file.release();
  return std::unique_ptr<shared_memory>{
      new shared_memory{{static_cast<std::byte*>(at), whole}, place}};
}

shared_memory::~shared_memory() {
  ::munmap(memory_.data(), memory_.size());
  ::close(static_cast<int>(place_.descriptor));
}

result<std::shared_ptr<const memory_view>> memory_view::open(const memory_place& place) {
  if (place.bytes <= memory_header_bytes || place.bytes > max_memory_bytes)
    return failure{error_code::corrupt, "shared memory of a size that cannot be"};
  const std::string path =
      "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
  // the number may be of any process by now: not to wait in a pipe's open
  const descriptor_guard file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0) return trouble("cannot open " + path);
  if (const auto sealed = check_sealed(file.get(), place.bytes); !sealed) return sealed.error();
  void* at = ::mmap(nullptr, place.bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return trouble("cannot map " + path);
  std::shared_ptr<const memory_view> view{
      new memory_view{{static_cast<const std::byte*>(at), place.bytes}}};
  memory_header header;
  std::memcpy(&header, at, sizeof header);
  if (header.magic != magic || header.bytes != place.bytes)
    return failure{error_code::corrupt, path + " is not shared memory of blocks"};
  if (header.epoch != place.epoch)
    return failure{error_code::stale_epoch, path + " is of another life of its process"};
  return view;
}

memory_view::~memory_view() {
  ::munmap(const_cast<std::byte*>(memory_.data()), memory_.size());
}

}  // namespace deepinfer::storage
