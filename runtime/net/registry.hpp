#pragma once

#include "proto/types/ids.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// How the nodes of a cluster find each other's addresses without being told. A registry only
/// suggests whom to dial: who belongs to the cluster is decided by the proof on the link.
namespace deepinfer::net {

/// What a node tells about itself.
struct registry_record {
  node_id id;
  uint64_t epoch = 0;
  std::string address;  ///< what others dial, at most 255 characters
};

/// Nothing here blocks, and every answer is bounded by `limits::max_nodes`. One caller at a time.
class registry {
public:
  virtual ~registry() = default;
  /// Makes this node findable until `withdraw`, the end of the object or of the process.
  virtual result<void> announce(const registry_record& record) = 0;
  /// Addresses of the others as far as known now, sorted; to be called every second or so (`now`
  /// is a steady time: what was not heard of for long is forgotten).
  virtual result<std::vector<std::string>> discover(std::chrono::nanoseconds now) = 0;
  virtual void withdraw() = 0;
  /// True if an address that is no longer discovered belongs to a process that has certainly
  /// ended. Silence on a network proves nothing.
  [[nodiscard]] virtual bool proves_death() const { return false; }
};

/// True for text that may be dialled: printable, no blanks, 1 to 255 characters, with a colon.
[[nodiscard]] bool dialable(const std::string& address);

}  // namespace deepinfer::net
