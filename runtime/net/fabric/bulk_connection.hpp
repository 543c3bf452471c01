#pragma once

#include "runtime/net/fabric/hello.hpp"
#include "runtime/net/fabric/link_sender.hpp"
#include "runtime/net/fabric/socket_address.hpp"

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <vector>

namespace deepinfer::net {

enum class bulk_outcome : uint8_t {
  done,
  failed,       ///< with the failure
  interrupted,  ///< the connection broke: look the region up again, then read again
};
using bulk_done = std::function<void(bulk_outcome, const failure&)>;

/// One read as the bulk lane sees it: a span of a peer's memory, fetched in parts.
struct bulk_read {
  std::span<std::byte> into;
  uint64_t address = 0;  ///< of the first byte, as the provider counts
  uint64_t key = 0;
  steady_time deadline;
  bulk_done done;  ///< called once, on the bulk thread

  std::vector<std::pair<size_t, size_t>> again{};  ///< parts to fetch once more: offset, length
  size_t next = 0;                                 ///< first byte never asked for
  size_t left = 0;                                 ///< bytes not arrived
  size_t parts_under_way = 0;
  bool expired = false;
  ofi_region local;  ///< where the provider wants local memory registered
};

/// A part under way. `context` comes first: the provider may write to it.
struct bulk_part {
  fi_context2 context{};
  std::shared_ptr<bulk_read> read;
  size_t offset = 0;
  size_t length = 0;
  std::list<std::unique_ptr<bulk_part>>::iterator self;
};

/// What the bulk lane must know to connect to a peer.
struct bulk_peer {
  uint64_t link = 0;  ///< number of the control link
  link_role role = link_role::dialer;
  digest256 about{};  ///< transcript of the control link
  socket_address target;
};

/// Memory shown to one peer while it fetches a long frame.
struct bulk_export {
  std::shared_ptr<const void> keep;
  ofi_region region;
};

/// One peer on the bulk lane. It has a completion queue of its own: libfabric 1.17's tcp provider
/// frees an entry twice when an endpoint is closed with a half received read, and spoils the
/// entry pool of that queue; so a queue is thrown away with its endpoint.
struct bulk_connection {
  bulk_peer peer;
  ofi_cq queue;  ///< before `endpoint`: closed after it
  ofi_endpoint endpoint;
  int queue_fd = -1;
  bool connected = false;
  bool ready = true;       ///< the queue may hold something: poll it before sleeping
  bool blocked = false;    ///< the provider takes no read now: try again soon
  uint64_t attempt = 0;    ///< number of the last connection; an older one is a recording
  uint32_t failures = 0;   ///< attempts in a row that failed
  steady_time connect_at;  ///< dialer: when to try next
  steady_time deadline;    ///< dialer: of the present attempt
  std::string own_hello;

  std::deque<std::shared_ptr<bulk_read>> waiting;  ///< have parts to ask for
  std::list<std::unique_ptr<bulk_part>> under_way;
  std::vector<std::shared_ptr<bulk_read>> expired;  ///< past their deadline, parts under way
  size_t reads = 0;                                 ///< not ended
  std::vector<std::pair<uint64_t, bulk_export>> exports;
};

}  // namespace deepinfer::net
