#include "actors/remote/frames.hpp"

#include "actors/messages/errors.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace deepinfer::remote {
namespace {

constexpr size_t longest_detail = 4096;

}  // namespace

net::outgoing_frame failure_frame(wire::frame_kind kind, const failure& why) {
  net::outgoing_frame frame;
  frame.header.kind = kind;
  frame.header.aux = static_cast<uint64_t>(why.code);
  const size_t length = std::min(why.detail.size(), longest_detail);
  if (length == 0) return frame;
  // Whole words, padded with zero bytes that the reader takes off again.
  auto words = std::make_shared<std::vector<uint64_t>>((length + 7) / 8);
  std::memcpy(words->data(), why.detail.data(), length);
  frame.body = std::as_bytes(std::span{*words});
  frame.keep = std::move(words);
  return frame;
}

failure read_failure(const net::incoming_frame& frame) {
  std::string_view text{reinterpret_cast<const char*>(frame.body.data()),
                        std::min(frame.body.size(), longest_detail)};
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  // An error frame is an error, whatever its code claims.
  auto code =
      error_code_from_wire(static_cast<uint16_t>(std::min<uint64_t>(frame.header.aux, UINT16_MAX)));
  if (code == error_code::ok) code = error_code::internal;
  return {code, std::string{text}};
}

net::outgoing_frame reason_frame(wire::frame_kind kind, const caf::error& reason) {
  if (!reason) {
    net::outgoing_frame frame;
    frame.header.kind = kind;
    return frame;
  }
  auto frame = failure_frame(kind, from_caf(reason));
  if (reason.category() == caf::atom("exit")) frame.header.type_id = uint64_t{1} + reason.code();
  return frame;
}

caf::error read_reason(const net::incoming_frame& frame) {
  constexpr auto last = static_cast<uint64_t>(caf::exit_reason::unreachable);
  if (frame.header.aux == static_cast<uint64_t>(error_code::ok)) return {};
  if (const uint64_t id = frame.header.type_id; id > 1 && id <= last + 1)
    return caf::make_error(static_cast<caf::exit_reason>(id - 1));
  return to_caf(read_failure(frame));
}

}  // namespace deepinfer::remote
