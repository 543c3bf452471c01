#pragma once

#include "runtime/net/loop/loop_network.hpp"

#include <array>
#include <deque>
#include <map>
#include <utility>

namespace deepinfer::net {

using loop_event = std::function<void()>;
using loop_time = std::chrono::nanoseconds;
using loop_ticket = std::pair<loop_time, uint64_t>;  ///< names an event: time and number

struct loop_read {
  uint64_t link = 0;
  std::span<std::byte> into;
  read_done done;
  loop_ticket deadline;
};

/// One life of one node, as the network sees it.
struct loop_member {
  loop_node config;
  transport_handler* handler = nullptr;  ///< null before `start`, after `stop` and when killed
  std::map<node_id, uint64_t> links;     ///< up on this side
  std::map<uint64_t, std::span<std::byte>> regions;
  std::map<uint64_t, loop_read> reads;
  uint64_t regions_made = 0;
  bool stopping = false;
  transport_stats stats;

  [[nodiscard]] bool alive() const { return handler != nullptr; }
};

/// What travels towards one end of a link, in order. Every item has one `pump` in the event
/// queue; a pump that meets a cut is counted in `stalled` and scheduled again by `heal`. So
/// order holds whatever the cuts do.
struct loop_lane {
  std::deque<loop_event> items;
  size_t stalled = 0;
  loop_time last_arrival{0};
};

struct loop_end {
  std::shared_ptr<loop_member> member;
  bool up = false;
  loop_lane frames;
  loop_lane bulk;
  size_t queued_bytes = 0;  ///< of frames under way towards this end
  uint64_t sent = 0;        ///< frames sent towards this end
  uint64_t received = 0;
  std::optional<failure> notice;  ///< the other end closed; news held up by a cut
};

struct loop_link {
  std::array<loop_end, 2> ends;

  [[nodiscard]] size_t side_of(const loop_member& member) const {
    return ends[0].member.get() == &member ? 0 : 1;
  }
};

/// Everything the network knows. Containers are ordered by value, never by address: the order of
/// events must depend on the seed alone.
struct loop_world {
  loop_options options;
  uint64_t random_state;
  loop_time now{0};
  uint64_t events_made = 0;
  uint64_t links_made = 0;
  uint64_t reads_made = 0;
  std::map<loop_ticket, loop_event> events;
  std::map<std::string, std::shared_ptr<loop_member>> listening;  ///< by address
  std::map<uint64_t, loop_link> links;
  std::map<std::pair<std::string, std::string>, uint64_t> cuts;  ///< -> number of the cut
  uint64_t cuts_made = 0;
  size_t regions = 0;  ///< of all members

  loop_world(uint64_t seed, const loop_options& how) : options(how), random_state(seed) {}

  uint64_t random();
  loop_time draw(loop_time bound);
  loop_time one_way() { return options.delay + draw(options.jitter); }
  [[nodiscard]] loop_time transfer(size_t bytes) const;
  loop_ticket at(loop_time when, loop_event what);
  [[nodiscard]] uint64_t cut_between(const std::string& a, const std::string& b) const;
  [[nodiscard]] uint64_t cut_of(const loop_link& link) const;
  [[nodiscard]] loop_link* find(uint64_t id);

  /// Puts `what` behind everything in the lane; it runs after `extra` and a delay.
  void travel(
      uint64_t link, size_t side, loop_lane loop_end::*lane, loop_time extra, loop_event what);
  void pump(uint64_t link, size_t side, loop_lane loop_end::*lane);

  void dial(const std::shared_ptr<loop_member>& from, const std::string& address);
  void answer_dial(const std::shared_ptr<loop_member>& from, const std::string& address);
  [[nodiscard]] std::optional<failure> refusal(const loop_member& from, loop_member& to);
  void dial_failed(const std::shared_ptr<loop_member>& from,
                   const std::string& address,
                   const failure& why);
  void connect(const std::shared_ptr<loop_member>& from, const std::shared_ptr<loop_member>& to);
  /// Brings one side up; false if it is too late for that.
  bool rise(uint64_t link, size_t side);

  result<void> send(loop_member& from, const node_id& to, outgoing_frame frame);
  void lose(uint64_t link, size_t side, uint64_t sequence);
  void deliver(uint64_t link, size_t side, const outgoing_frame& frame);

  void read(const std::shared_ptr<loop_member>& from,
            const node_id& to,
            const remote_span& what,
            std::chrono::milliseconds deadline,
            loop_read pending);
  void finish_read(uint64_t link, size_t side, uint64_t id, const remote_span& what);
  void end_read(loop_member& member, uint64_t id, const result<void>& how);

  /// Ends one side of a link: reads fail, `on_peer_down` is called.
  void fall(uint64_t link, size_t side, const failure& why);
  /// Tells a side, one delay later, that the other one closed.
  void notify(uint64_t link, size_t side, const failure& why);
  void take_notice(uint64_t link, size_t side, const failure& why);
  /// A life ends. The peers get `why`; the member itself is told `own`, or nothing when killed.
  void end_life(const std::shared_ptr<loop_member>& member,
                const failure& why,
                const std::optional<failure>& own);
};

[[nodiscard]] std::unique_ptr<transport> make_loop_transport(std::shared_ptr<loop_world> world,
                                                             const loop_node& node);

}  // namespace deepinfer::net
