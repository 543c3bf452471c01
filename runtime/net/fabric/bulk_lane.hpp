#pragma once

#include "runtime/net/fabric/acceptor.hpp"
#include "runtime/net/fabric/bulk_connection.hpp"
#include "runtime/net/fabric/fabric_config.hpp"
#include "runtime/net/fabric/inbox.hpp"
#include "runtime/net/fabric/region_table.hpp"

#include <algorithm>
#include <map>
#include <thread>

namespace deepinfer::net {

/// The lane of the one-sided reads: own domain, own thread, own connection per peer, so that a
/// read of megabytes never stands in front of a control frame. All memory that peers may read is
/// registered here. Every libfabric call of this domain is made by its thread; the methods below
/// may be called by any, and unless they say otherwise they only leave a note for it.
class bulk_lane {
public:
  static result<std::unique_ptr<bulk_lane>> open(const fabric_config& config,
                                                 fid_fabric& fabric,
                                                 const fi_info& info);
  ~bulk_lane() { stop(); }

  void start();
  /// Ends all reads with `cancelled`, then the thread. Blocks until that is done.
  void stop();

  /// A control link is up (or about to be): connect, or expect a connection.
  void attach(const bulk_peer& peer);
  /// The control link is gone: ends its reads with `unreachable` and takes its exports back.
  void detach(uint64_t link);
  /// A connection request that claims to belong to `peer.link`, whose hello was verified.
  void accept(const bulk_peer& peer, uint64_t attempt, std::shared_ptr<connection_request> request);

  void read(uint64_t link, std::shared_ptr<bulk_read> request);

  struct export_request {
    uint64_t link = 0;
    uint64_t ticket = 0;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keep;
    std::function<void(result<region_info>)> done;  ///< called on the bulk thread
  };
  /// Shows `bytes` to a peer until `take_back` or `detach`.
  void show(export_request request);
  void take_back(uint64_t link, uint64_t ticket);

  /// Blocks until the bulk thread has done it. Allowed before `start`.
  result<uint64_t> register_region(std::span<std::byte> bytes);
  /// Blocks. Afterwards nothing of the region is being sent any more: connections on which an
  /// answer might be under way are closed, and made again.
  void unregister_region(uint64_t key);
  [[nodiscard]] const region_table& regions() const { return regions_; }

private:
  using connection_map = std::map<uint64_t, bulk_connection>;

  bulk_lane(const fabric_config& config, fid_fabric& fabric) : config_(config), fabric_(fabric) {}
  void run();
  void call(const std::function<void()>& task);
  void sleep(steady_time now);
  [[nodiscard]] int sleep_ms(steady_time now) const;
  [[nodiscard]] steady_time earliest_timer() const;
  /// Something may be due at `when`. Being asked too early costs a look, too late a deadline.
  void look_again_at(steady_time when) { next_timer_ = std::min(next_timer_, when); }
  void run_timers(steady_time now);
  void read_events();
  void on_event(uint32_t event, std::span<const std::byte> entry);
  void on_connected(bulk_connection& connection, std::span<const std::byte> data);

  void connect(bulk_connection& connection, steady_time now);
  [[nodiscard]] result<void> open_into(bulk_connection& connection, fi_info& info);
  void take_request(const bulk_peer& peer, uint64_t attempt, connection_request& request);
  /// Closes the endpoint and its queue. Parts under way are asked for again (`own`), or their
  /// reads end as interrupted because the peer closed.
  enum class cause : uint8_t { own, peer };
  void reset(bulk_connection& connection, cause why);
  void remove(uint64_t link, const failure& why);

  void drain(bulk_connection& connection);
  void part_done(bulk_connection& connection, bulk_part& part);
  void pump(bulk_connection& connection);
  [[nodiscard]] ssize_t post_part(bulk_connection& connection,
                                  const std::shared_ptr<bulk_read>& read,
                                  size_t offset,
                                  size_t length);
  void finish(bulk_connection& connection,
              bulk_read& read,
              bulk_outcome outcome,
              const failure& why);
  void expire_reads(bulk_connection& connection, steady_time now);
  [[nodiscard]] result<ofi_region> register_bytes(const void* bytes, size_t count, uint64_t access);
  [[nodiscard]] region_info describe(const ofi_region& region,
                                     const void* bytes,
                                     size_t count) const;

  const fabric_config& config_;
  fid_fabric& fabric_;
  ofi_info info_;
  ofi_domain domain_;
  ofi_eq events_;
  owned_fd poll_set_;  ///< epoll: waker, event queue, one completion queue per connection
  waker waker_;
  inbox<std::function<void()>> tasks_{waker_};
  steady_time next_timer_ = steady_time::max();
  bool any_blocked_ = false;
  bool events_armed_ = false;  ///< the event queue was empty when it was last asked
  connection_map connections_;
  std::map<const fid*, uint64_t> links_;  ///< of the endpoints that live
  region_table regions_;
  std::map<uint64_t, ofi_region> handles_;
  uint64_t keys_made_ = 0;
  uint64_t regions_made_ = 0;
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace deepinfer::net
