#include "proto/codec/frame.hpp"

#define XXH_INLINE_ALL
#include "proto/types/limits.hpp"

#include <xxhash.h>

#include <cstring>

namespace deepinfer::wire {
namespace {

bool known(frame_kind kind) {
  return kind >= frame_kind::message && kind <= frame_kind::region_reply;
}

}  // namespace

uint64_t frame_checksum(const frame_header& header, std::span<const std::byte> body) {
  frame_header clean = header;
  clean.checksum = 0;
  const uint64_t head = XXH3_64bits(&clean, sizeof clean);
  return XXH3_64bits_withSeed(body.data(), body.size(), head);
}

void seal(frame_header& header, std::span<const std::byte> body) {
  header.body_bytes = body.size();
  header.checksum = frame_checksum(header, body);
}

result<frame_header> open_frame(std::span<const std::byte> frame) {
  frame_header header;
  if (frame.size() < sizeof header)
    return failure{error_code::corrupt, "frame shorter than its header"};
  std::memcpy(&header, frame.data(), sizeof header);
  if (header.magic != frame_header::magic_value)
    return failure{error_code::corrupt, "not a deepinfer frame"};
  if (header.version != frame_header::version_value)
    return failure{error_code::unsupported, "frame version " + std::to_string(header.version) +
                                                ", this build speaks " +
                                                std::to_string(frame_header::version_value) +
                                                ": run the same release on all nodes"};
  if (header.body_bytes > limits::max_frame_bytes)
    return failure{error_code::too_large,
                   "frame of " + std::to_string(header.body_bytes) + " bytes"};
  if (header.body_bytes != frame.size() - sizeof header)
    return failure{error_code::corrupt, "frame length differs from what arrived"};
  if (!known(header.kind)) return failure{error_code::corrupt, "unknown frame kind"};
  if (frame_checksum(header, frame.subspan(sizeof header)) != header.checksum)
    return failure{error_code::corrupt, "frame checksum differs"};
  return header;
}

}  // namespace deepinfer::wire
