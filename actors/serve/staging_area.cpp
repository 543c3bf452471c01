#include "actors/serve/staging_area.hpp"

#include "runtime/base/digest.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace deepinfer {
namespace {

constexpr uint64_t alignment = 64;

uint64_t aligned(uint64_t bytes) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace

result<std::unique_ptr<staging_area>> staging_area::make(net::transport& transport,
                                                         uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return failure{error_code::no_capacity, std::string{"cannot map the staging area: "} +
                                                std::strerror(errno) +
                                                "; lower the staging bytes of this role"};
  const std::span span{static_cast<std::byte*>(memory), bytes};
  const auto region = transport.register_memory(span);
  if (!region) {
    ::munmap(memory, bytes);
    return region.error();
  }
  return std::unique_ptr<staging_area>{new staging_area{transport, span, *region}};
}

staging_area::staging_area(net::transport& transport,
                           std::span<std::byte> memory,
                           const net::memory_region& region)
    : transport_(transport), memory_(memory), region_(region), leases_(memory.size(), alignment) {}

staging_area::~staging_area() {
  transport_.unregister(region_);
  ::munmap(memory_.data(), memory_.size());
}

result<staged_sequence> staging_area::stage(std::span<const model::state_part> parts,
                                            storage::time_point now,
                                            std::chrono::nanoseconds ttl) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += aligned(part.bytes.size());
  const auto lease = leases_.grant(bytes, now, ttl);
  if (!lease) return lease.error();
  staged_sequence staged{region_.key, lease->id, lease->generation, {}};
  uint64_t offset = lease->span.offset;
  for (const auto& part : parts) {
    std::memcpy(memory_.data() + offset, part.bytes.data(), part.bytes.size());
    const digest128 digest = digest_of(part.bytes);
    staged.parts.push_back(
        {part.kind, part.index, offset, part.bytes.size(), digest.hi, digest.lo});
    offset += aligned(part.bytes.size());
  }
  return staged;
}

result<staged_room> staging_area::reserve(uint64_t bytes,
                                          storage::time_point now,
                                          std::chrono::nanoseconds ttl) {
  const auto lease = leases_.grant(bytes, now, ttl);
  if (!lease) return lease.error();
  const storage::staging_span span = lease->span;
  return staged_room{region_.key, lease->id, lease->generation, span.offset,
                     memory_.subspan(span.offset, span.length)};
}

}  // namespace deepinfer
