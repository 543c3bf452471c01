#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace deepinfer::wire {

/// What a frame is for. Numbers are part of the protocol.
enum class frame_kind : uint8_t {
  message = 1,  ///< body: one Cap'n Proto message of `type_id`
  error = 2,    ///< answer to a request: `aux` = error_code, body = UTF-8 detail
  monitor = 3,  ///< "tell me when `destination` ends"
  unmonitor = 4,
  down = 5,  ///< answer to `monitor`: `source` ended, `aux` = error_code
  exit = 6,  ///< a linked actor ended
  auth = 7,  ///< first frame of each link: proof of the cluster secret
  heartbeat = 8,
  credit = 9,       ///< `aux` more frames may be in flight towards the sender of this one
  rendezvous = 10,  ///< a frame too long for one piece: where to read it
  rendezvous_done = 11,
  goodbye = 12,       ///< the node leaves on purpose
  region_query = 13,  ///< what is the memory region `aux`?
  region_reply = 14,  ///< body: length, base address, provider key; empty if there is none
};

/// In front of every frame, little endian, 80 bytes. The body starts 8-byte aligned.
struct frame_header {
  static constexpr uint32_t magic_value = 0x46'49'50'44;  // "DPIF"
  static constexpr uint16_t version_value = 1;
  static constexpr uint8_t response_flag = 1;  ///< `message_id` names the request it answers
  static constexpr uint8_t request_flag = 2;   ///< the sender waits for an answer

  uint32_t magic = magic_value;
  uint16_t version = version_value;
  frame_kind kind = frame_kind::message;
  uint8_t flags = 0;
  uint64_t body_bytes = 0;
  uint64_t epoch = 0;        ///< life of the sending process; frames of an older life are dropped
  uint64_t sequence = 0;     ///< counts up per link and lane, from 1; a gap is a lost frame
  uint64_t destination = 0;  ///< actor number on the receiving node
  uint64_t source = 0;       ///< actor number on the sending node
  uint64_t message_id = 0;   ///< of the request, for requests and their answers
  uint64_t type_id = 0;      ///< Cap'n Proto type of the body
  uint64_t aux = 0;
  uint64_t checksum = 0;  ///< XXH3-64 of header (with 0 here) and body
};
static_assert(sizeof(frame_header) == 80);

/// Computes `checksum` over `header` and `body`.
[[nodiscard]] uint64_t frame_checksum(const frame_header& header, std::span<const std::byte> body);

/// Sets length and checksum.
void seal(frame_header& header, std::span<const std::byte> body);

/// Reads and believes a header only if magic, version, kind, length and checksum fit:
/// `corrupt` for damage, `too_large` over `limits::max_frame_bytes`, `unsupported` for another
/// version. `frame` is header + body exactly as received.
[[nodiscard]] result<frame_header> open_frame(std::span<const std::byte> frame);

}  // namespace deepinfer::wire
