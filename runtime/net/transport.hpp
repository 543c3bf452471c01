#pragma once

#include "proto/codec/frame.hpp"
#include "proto/types/ids.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

/// Moves frames and bulk bytes between the nodes of a cluster. Knows nothing of actors: what a
/// frame means is the business of `actors/remote`. Two implementations: `fabric/` (libfabric,
/// real processes) and `loop/` (in one process, seeded faults, virtual time).
namespace deepinfer::net {

/// The other end of an authenticated link.
struct peer_info {
  node_id id;
  uint64_t epoch = 0;   ///< of the peer's life; grows with every start on the same address
  std::string address;  ///< what others dial, "host:port"
};

/// A frame to send. The transport fills `body_bytes`, `epoch`, `sequence` and `checksum`.
struct outgoing_frame {
  wire::frame_header header;
  std::span<const std::byte> body;   ///< 8-byte aligned, a multiple of 8 long
  std::shared_ptr<const void> keep;  ///< owns `body` until the transport is done with it
};

/// A frame that arrived, checked (`wire::open_frame`), in order, of the peer's present life.
struct incoming_frame {
  wire::frame_header header;
  std::span<const std::byte> body;  ///< 8-byte aligned; valid during the call only
};

/// Registered memory of this node that peers may read.
struct memory_region {
  uint64_t key = 0;  ///< travels in `BulkRef.region`
  std::span<std::byte> bytes;
};

/// Where to read on a peer.
struct remote_span {
  uint64_t region = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Called on the transport's own thread (`loop`: inside `run_one`). Must not block.
class transport_handler {
public:
  virtual ~transport_handler() = default;
  /// Exactly once before the first frame of a link.
  virtual void on_peer_up(const peer_info& peer) = 0;
  /// Exactly once after `on_peer_up`. `cancelled`: the peer said goodbye, or this node stops;
  /// `unreachable`: death, silence, or the peer closed the link; `corrupt`, `stale_epoch`: a bad
  /// frame; after `drop`: what was given there.
  virtual void on_peer_down(const node_id& peer, const failure& why) = 0;
  virtual void on_frame(const node_id& from, const incoming_frame& frame) = 0;
  /// A dial that did not become a link (refused, no route, wrong secret, other cluster, timeout).
  virtual void on_dial_failed(const std::string& address, const failure& why) = 0;
  /// An event worth a log line: name ("net.frame.corrupt") and key=value pairs.
  virtual void on_event(const std::string& name, const std::string& fields) = 0;
};

using read_done = std::function<void(result<void>)>;

struct transport_stats {
  uint64_t frames_sent = 0, frames_received = 0, bytes_sent = 0, bytes_received = 0;
  uint64_t reads = 0, read_bytes = 0, links_up = 0, links_refused = 0, frames_corrupt = 0;
};

class transport {
public:
  virtual ~transport() = default;

  /// Listens and starts to call `handler`, which must outlive `stop()`.
  virtual result<void> start(transport_handler& handler) = 0;
  /// Says goodbye to all peers, closes everything, ends the thread. Before it returns, open reads
  /// end with `cancelled` and `on_peer_down` was called for every peer; nothing is called
  /// afterwards. Safe to call twice, but not from inside the handler.
  virtual void stop() = 0;

  [[nodiscard]] virtual node_id self() const = 0;
  [[nodiscard]] virtual uint64_t epoch() const = 0;
  /// What others dial, "host:port"; valid after `start`.
  [[nodiscard]] virtual std::string address() const = 0;

  /// Starts to connect; ends in `on_peer_up` or `on_dial_failed` within the dial timeout. Dialling
  /// a linked peer or oneself is harmless and reports nothing: one link per pair stays.
  virtual void dial(const std::string& address) = 0;
  /// Closes the link; `on_peer_down` follows.
  virtual void drop(const node_id& peer, const failure& why) = 0;

  /// Queues a frame behind those sent before to the same peer; never blocks. `unreachable`
  /// without a link, `no_capacity` when the peer's send queue is at its bound, `too_large` over
  /// `limits::max_frame_bytes`. Success means queued, not arrived. Any thread; on the transport's
  /// own thread it is posted at once.
  virtual result<void> send(const node_id& to, outgoing_frame frame) = 0;

  /// Lets peers read `bytes` until `unregister`. The memory must outlive that; after `unregister`
  /// returns nothing reads it any more. Allowed before `start`.
  virtual result<memory_region> register_memory(std::span<std::byte> bytes) = 0;
  virtual void unregister(const memory_region& region) = 0;

  /// Reads from a peer's registered memory into `into` (same length) without an actor of the peer
  /// taking part; split and kept in flight as the transport sees fit. `done` is called once, on
  /// the transport's thread: `deadline_exceeded`, `unreachable`, `invalid_argument` (outside the
  /// region), `cancelled`. After an error `into` may still be written to until `done` was called,
  /// never after. Reading from oneself copies.
  virtual void read(const node_id& from,
                    const remote_span& what,
                    std::span<std::byte> into,
                    std::chrono::milliseconds deadline,
                    read_done done) = 0;

  /// Runs `task` on the transport's thread, soon.
  virtual void post(std::function<void()> task) = 0;

  /// True on the thread that calls the handler.
  [[nodiscard]] virtual bool on_transport_thread() const = 0;

  [[nodiscard]] virtual transport_stats stats() const = 0;
};

}  // namespace deepinfer::net
