#pragma once

#include "runtime/net/fabric/bulk_lane.hpp"
#include "runtime/net/fabric/fabric_link.hpp"

#include <map>
#include <set>
#include <thread>
#include <unordered_map>

namespace deepinfer::net {

/// The lane of the frames: dials, proves and watches links, and calls the handler. One thread
/// makes every libfabric call of this domain. Methods marked "any thread" are safe from any; all
/// others run on the control thread.
///
/// A link is never closed in the middle of handling something of it: `doom` notes the reason, and
/// `reap` closes at the end of the step. So a reference to a link stays valid during a step.
class control_lane {
public:
  control_lane(const fabric_config& config,
               std::string address,
               fid_fabric& fabric,
               acceptor& listener,
               bulk_lane& bulk);
  ~control_lane() { stop(); }
  result<void> open(const fi_info& info);

  void start(transport_handler& handler);
  void stop();  ///< any thread but the control thread
  /// Any thread. Strangers are turned away here and now.
  void take_request(std::shared_ptr<connection_request> request);

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool on_thread() const { return std::this_thread::get_id() == thread_id_.load(); }
  [[nodiscard]] transport_stats stats() const;                 ///< any thread
  void post(std::function<void()> task);                       ///< any thread
  void dial(const std::string& address);                       ///< any thread
  void drop(const node_id& peer, const failure& why);          ///< any thread
  result<void> send(const node_id& to, outgoing_frame frame);  ///< any thread
  void read(const node_id& from,
            const remote_span& what,
            std::span<std::byte> into,
            std::chrono::milliseconds deadline,
            read_done done);  ///< any thread

private:
  using link_ptr = std::shared_ptr<fabric_link>;
  struct dial_state {
    std::string address;
    steady_time deadline;
    std::vector<socket_address> candidates;
    size_t next = 0;
    uint64_t link = 0;           ///< of the present attempt
    node_id awaited;             ///< another link to this peer is about to be up
    std::optional<failure> why;  ///< of the attempt that says most
  };
  struct read_state {
    node_id from;
    remote_span what;
    std::span<std::byte> into;
    steady_time deadline;
    read_done done;
    uint32_t attempts = 0;
    bool on_bulk = false;  ///< the bulk lane ends it
  };
  struct queued_frame {
    std::shared_ptr<send_gate> gate;
    outgoing_frame frame;
  };
  /// A long frame of a peer that waits for memory or is being fetched.
  struct fetch_state {
    uint64_t link = 0;
    wire::frame_header header;  ///< of the frame itself
    region_info where;
    uint64_t ticket = 0;
  };

  // control_lane.cpp: the thread
  void run();
  void step(steady_time now);
  void sleep();
  [[nodiscard]] int sleep_ms() const;
  bool drain_completions();
  void on_completion(const fi_cq_data_entry& entry);
  void on_failed_completion();
  void release(fabric_link& link);
  void drain_events();
  void on_event(uint32_t event, std::span<const std::byte> entry);
  void on_event_error(const fi_eq_err_entry& error);
  void run_timers();
  void tick();
  void shut_down();
  void doom(fabric_link& link, const failure& why);
  void reap();
  void close_link(fabric_link& link);
  void event(const char* name, const std::string& fields) { handler_->on_event(name, fields); }

  // control_handshake.cpp: from a dial or request to `up`
  void begin_dial(const std::string& address);
  void resolve(uint64_t dial, const host_and_port& where);
  void try_next(uint64_t dial);
  void attempt_failed(const fabric_link& link, const failure& why);
  void end_dial(uint64_t dial, failure why);  ///< by value: `why` may be the dial's own
  void on_request(const std::shared_ptr<connection_request>& request, const hello& peer);
  void note_refused(const std::string& why);  ///< any thread
  void on_control_request(connection_request& request, const hello& peer);
  void on_bulk_request(const std::shared_ptr<connection_request>& request, const hello& peer);
  void refuse(connection_request& request, refusal why, const failure& detail);
  [[nodiscard]] hello own_hello() const;
  [[nodiscard]] result<void> open_endpoint_of(fabric_link& link, fi_info& info);
  [[nodiscard]] bool post_receive(fabric_link& link, receive_op& op);
  void on_connected(fabric_link& link, std::span<const std::byte> data);
  void send_proof(fabric_link& link, uint64_t verdict);
  void on_proof(fabric_link& link, const incoming_frame& frame);
  [[nodiscard]] bool has_other_link(const fabric_link& link) const;
  void go_up(fabric_link& link);

  // control_frames.cpp: what travels on links that are up
  void flush(fabric_link& link);
  void flush_outbox();
  void send_own(fabric_link& link,
                wire::frame_kind kind,
                uint64_t aux,
                std::vector<std::byte> body,
                uint8_t flags);
  void on_bytes(fabric_link& link, std::span<const std::byte> bytes);
  void on_frame(fabric_link& link, const incoming_frame& frame);
  void show_long_frame(fabric_link& link);
  void long_frame_shown(uint64_t link,
                        uint64_t ticket,
                        const wire::frame_header& inner,
                        const result<region_info>& where);
  void on_long_frame_taken(fabric_link& link, uint64_t ticket);
  void on_rendezvous(fabric_link& link, const incoming_frame& frame);
  void start_fetches();
  void fetch(const fetch_state& what);
  void fetched(const fetch_state& what,
               std::shared_ptr<std::byte[]> bytes,
               const result<void>& how);
  // control_reads.cpp
  void begin_read(uint64_t id);
  void read_own(uint64_t id);
  void ask_region(fabric_link& link, uint64_t key, uint64_t read);
  void on_region_query(fabric_link& link, const incoming_frame& frame);
  void on_region_reply(fabric_link& link, const incoming_frame& frame);
  void post_read(uint64_t id, const region_info& region);
  void bulk_ended(uint64_t id, bulk_outcome outcome, const failure& why);
  void end_read(uint64_t id, const result<void>& how);
  void end_waiting_reads(const node_id& peer, const failure& why);

  const fabric_config& config_;
  std::string address_;
  fid_fabric& fabric_;
  acceptor& listener_;
  bulk_lane& bulk_;
  transport_handler* handler_ = nullptr;
  shared_stats stats_;
  ofi_info info_;
  ofi_domain domain_;
  ofi_eq events_;
  ofi_cq completions_;
  link_environment environment_{config_, stats_};

  waker waker_;
  inbox<std::function<void()>> tasks_{waker_};
  inbox<queued_frame> outbox_{waker_};
  gate_directory gates_;
  std::atomic<uint64_t> refused_unreported_{0};
  std::atomic<std::thread::id> thread_id_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;

  steady_time now_;  ///< of this step
  steady_time next_tick_;
  bool completions_ready_ = true;
  bool events_ready_ = true;
  uint64_t numbers_ = 0;  ///< of links, dials, reads and tickets
  std::map<uint64_t, link_ptr> links_;
  std::map<uint64_t, link_ptr> closed_;  ///< operations still with libfabric
  std::map<const fid*, uint64_t> endpoints_;
  std::unordered_map<node_id, link_ptr> up_;
  std::vector<uint64_t> doomed_;
  std::set<uint64_t> blocked_;
  std::map<uint64_t, dial_state> dials_;
  /// Outlives the lane in the hands of look-ups that the system's resolver holds up.
  struct resolver_state {
    std::mutex mutex;
    control_lane* lane = nullptr;  ///< null once the lane has stopped
    uint32_t open = 0;
  };
  std::shared_ptr<resolver_state> resolver_ = std::make_shared<resolver_state>();
  std::map<uint64_t, read_state> reads_;
  std::unordered_map<node_id, std::map<uint64_t, region_info>> known_regions_;
  std::map<std::pair<node_id, uint64_t>, std::vector<uint64_t>> region_waiters_;
  std::deque<fetch_state> fetches_;  ///< waiting for memory
  uint64_t fetch_bytes_ = 0;
};

}  // namespace deepinfer::net
