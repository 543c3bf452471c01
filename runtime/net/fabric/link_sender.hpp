#pragma once

#include "proto/codec/frame.hpp"
#include "runtime/net/fabric/ofi.hpp"
#include "runtime/net/fabric/send_gate.hpp"
#include "runtime/net/transport.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

namespace deepinfer::net {

using steady_time = std::chrono::steady_clock::time_point;

struct fabric_link;

/// What libfabric is told to hand back. `context` comes first: the provider may write to it.
struct link_op {
  enum class kind : uint8_t { receive, transmit };
  fi_context2 context{};
  kind what = kind::receive;
  fabric_link* link = nullptr;
};

struct free_aligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using aligned_bytes = std::unique_ptr<std::byte[], free_aligned>;
/// At a multiple of 64, as large as asked or more.
[[nodiscard]] aligned_bytes allocate_aligned(size_t bytes);

struct receive_op : link_op {
  aligned_bytes buffer;
  size_t size = 0;
  ofi_region region;  ///< where the provider wants local memory registered
};

struct transmit_op : link_op {
  wire::frame_header header;
  std::shared_ptr<const void> keep;
  size_t bytes = 0;      ///< header and body
  bool counted = false;  ///< in the gate; frames of the transport itself are not
  aligned_bytes bounce;  ///< registered copy, where the provider wants that
  ofi_region region;
};

/// Counters that any thread may read.
struct shared_stats {
  std::atomic<uint64_t> frames_sent{0}, frames_received{0}, bytes_sent{0}, bytes_received{0};
  std::atomic<uint64_t> reads{0}, read_bytes{0}, links_up{0}, links_refused{0}, frames_corrupt{0};
};

/// What the links of a lane have in common.
struct link_environment {
  const fabric_config& config;
  shared_stats& stats;
  fid_domain* domain = nullptr;
  bool local_regions = false;  ///< FI_MR_LOCAL
  size_t inject_bytes = 0;     ///< longest frame that may go by fi_inject
  std::vector<std::unique_ptr<transmit_op>> spare;

  [[nodiscard]] std::unique_ptr<transmit_op> take_op();
};

/// Sends the frames of one link in order: numbers them, seals them, and keeps the bytes that the
/// provider holds within the window. Queueing and posting are two steps; `flush` posts.
class link_sender {
public:
  link_sender(fabric_link& link, link_environment& environment)
      : link_(link), environment_(environment) {}

  enum class outcome : uint8_t {
    idle,        ///< all posted, or the window is full: a completion will come
    blocked,     ///< the provider takes nothing now: try again soon
    long_frame,  ///< the next frame must go by rendezvous; see `next`
    broken,      ///< the endpoint refuses: close the link
  };

  void queue(outgoing_frame frame) { waiting_.push_back(std::move(frame)); }
  /// A frame of the transport itself: not counted in the gate, overtakes what waits.
  void queue_urgent(outgoing_frame frame) { urgent_.push_back(std::move(frame)); }
  [[nodiscard]] outcome flush(fid_ep& endpoint, steady_time now);

  /// The long frame at the head; it stays there, and everything behind it waits, until
  /// `long_frame_done`.
  [[nodiscard]] const outgoing_frame& next() const { return waiting_.front(); }
  void long_frame_started() { long_frame_open_ = true; }
  void long_frame_done();
  [[nodiscard]] bool long_frame_open() const { return long_frame_open_; }

  /// The provider is done with `op`, sent or not.
  void completed(transmit_op& op);
  [[nodiscard]] size_t under_way() const { return under_way_; }
  [[nodiscard]] steady_time last_sent() const { return last_sent_; }
  /// Forgets everything queued.
  void clear();

private:
  [[nodiscard]] ssize_t post(fid_ep& endpoint, outgoing_frame& frame, bool counted);
  [[nodiscard]] ssize_t post_operation(fid_ep& endpoint, outgoing_frame& frame, bool counted);

  fabric_link& link_;
  link_environment& environment_;
  std::deque<outgoing_frame> urgent_;
  std::deque<outgoing_frame> waiting_;
  bool long_frame_open_ = false;
  uint64_t sequence_ = 0;
  size_t bytes_under_way_ = 0;
  size_t under_way_ = 0;  ///< operations with libfabric
  size_t injected_ = 0;   ///< since the last frame with a completion
  steady_time last_sent_;
};

}  // namespace deepinfer::net
