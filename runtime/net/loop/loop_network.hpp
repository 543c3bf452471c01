#pragma once

#include "proto/types/limits.hpp"
#include "runtime/net/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

/// A whole network in one thread and in virtual time: the transport of the simulation. Delays,
/// losses and the order of events come from one seed, so a run can be repeated exactly. Nothing
/// happens by itself: the driver calls `run_one` and steps its actors in between.
namespace deepinfer::net {

/// What a lost frame does.
enum class loop_loss : uint8_t {
  breaks_link,  ///< as on TCP: both ends see the connection break
  opens_gap,    ///< it just vanishes; the next frame or heartbeat shows the gap and ends the link
};

struct loop_options {
  std::chrono::nanoseconds delay{50'000};   ///< one way
  std::chrono::nanoseconds jitter{20'000};  ///< added to each delay, uniform in [0, jitter]
  uint64_t bytes_per_second = 1'000'000'000;
  uint32_t loss_per_million = 0;  ///< of frames
  loop_loss loss = loop_loss::breaks_link;
  std::chrono::nanoseconds heartbeat_interval{500'000'000};
  std::chrono::nanoseconds dead_after{2'500'000'000};
  std::chrono::nanoseconds dial_timeout{2'000'000'000};
  size_t send_queue_bytes = size_t{64} << 20;  ///< under way per peer and direction
  size_t max_links = limits::max_nodes;        ///< per node
};

/// One life of one node. A restart is a new one, with a new id, on the same address.
struct loop_node {
  node_id id;
  uint64_t epoch = 1;
  std::string address;  ///< any text; unique among the nodes that live at a time
  std::string cluster = "default";
  std::string secret;
};

struct loop_world;

/// Owned by the simulation. Transports may outlive it, or it them.
class loop_network {
public:
  loop_network(uint64_t seed, const loop_options& options);
  ~loop_network();
  loop_network(const loop_network&) = delete;
  loop_network& operator=(const loop_network&) = delete;

  [[nodiscard]] std::unique_ptr<transport> make_transport(const loop_node& node);

  /// Virtual time, from 0.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// When something will happen; nothing while the network is idle.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next_event_time() const;
  /// Runs the next event and moves `now` to its time; false when there is none.
  bool run_one();
  /// Runs all events up to and including `time`, then moves `now` there.
  void run_until(std::chrono::nanoseconds time);

  /// Cuts every pair with one address in `a` and one in `b`. Connections do not notice: frames
  /// and reads wait, until `heal`, or until `dead_after` without a sign of life ends the link on
  /// both sides. Dials across the cut time out. A restarted node stays on its side.
  void partition(const std::set<std::string>& a, const std::set<std::string>& b);
  /// Removes all cuts.
  void heal();
  /// The process of this address dies: its handler is not called again (open reads are forgotten,
  /// not ended), its peers see their connections break, the address is free for a restart.
  void kill(const std::string& address);

  /// Pieces of memory that nodes registered and did not unregister, also those that ended.
  [[nodiscard]] size_t regions() const;

private:
  std::shared_ptr<loop_world> world_;
};

}  // namespace deepinfer::net
