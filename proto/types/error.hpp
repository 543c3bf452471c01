#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

/// Why something was not done. A code exists only where some caller acts on it differently;
/// everything else is told in `failure::detail`. Numbers are part of the wire protocol
/// (`proto/wire/common.capnp`): append, never renumber. An unknown number reads as `internal`.
enum class error_code : uint16_t {
  ok = 0,
  internal = 1,           ///< a bug or a broken invariant on the answering side
  invalid_argument = 2,   ///< the caller's input is wrong; repeating it will not help
  not_found = 3,          ///< no such model, file, node, sequence
  no_capacity = 4,        ///< queue, memory or connection limit reached; try another or later
  deadline_exceeded = 5,  ///< the time allowed for it is over
  cancelled = 6,          ///< the caller no longer wants it
  unreachable = 7,        ///< peer, link or storage is gone
  stale_epoch = 8,        ///< message or handle of an earlier life of the peer
  corrupt = 9,            ///< bytes that fail their checksum, digest or schema
  unauthenticated = 10,   ///< wrong or missing cluster secret or credential
  too_large = 11,         ///< a named limit was exceeded
  unsupported = 12,       ///< valid, but this build or deployment cannot do it
};

/// Stable short name, for logs and JSON.
[[nodiscard]] std::string_view to_string(error_code code) noexcept;

/// The inverse for numbers from the wire: unknown numbers are `internal`.
[[nodiscard]] error_code error_code_from_wire(uint16_t number) noexcept;

/// An error on its way to a caller. `detail` is for people: it names what to do, and is never
/// parsed.
struct failure {
  error_code code = error_code::internal;
  std::string detail;
};

[[nodiscard]] std::string to_string(const failure& f);

}  // namespace deepinfer
