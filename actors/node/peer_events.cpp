#include "actors/node/peer_events.hpp"

#include <array>

namespace deepinfer {
namespace {

// `fields` comes as "key=value key=value" from rooms that do not log themselves.
void write(log_sink& log, log_level level, std::string_view event, const std::string& fields) {
  const std::array<log_field, 1> all{{{"detail", fields}}};
  log.write(level, event, all);
}

}  // namespace

hub_events peer_events::subscription(const std::shared_ptr<log_sink>& log) {
  hub_events events;
  events.peer_up = [self = shared_from_this(), log](const net::peer_info& peer) {
    if (log) log->info("net.peer.up", {{"node", to_string(peer.id)}, {"address", peer.address}});
    self->pass(peer_linked{peer.id, peer.epoch, peer.address});
  };
  events.peer_down = [self = shared_from_this(), log](const node_id& peer, const failure& why) {
    // said goodbye, or we did
    const auto level = why.code == error_code::cancelled ? log_level::info : log_level::warn;
    const std::array<log_field, 2> fields{{{"node", to_string(peer)}, {"why", to_string(why)}}};
    if (log) log->write(level, "net.peer.down", fields);
    self->pass(peer_lost{peer, why});
  };
  events.dial_failed = [self = shared_from_this(), log](const std::string& address,
                                                        const failure& why) {
    // Every redial of a dead node ends here: only a refusal on purpose is worth more than debug.
    const bool refused =
        why.code == error_code::unauthenticated || why.code == error_code::unsupported;
    if (log)
      write(*log, refused ? log_level::warn : log_level::debug, "net.dial.failed",
            address + ": " + to_string(why));
    self->pass(peer_dial_failed{address, why});
  };
  events.log = [log](const std::string& name, const std::string& fields) {
    if (log) write(*log, log_level::warn, name, fields);
  };
  return events;
}

void peer_events::deliver_to(const membership_impl_actor& membership) {
  const std::lock_guard lock{mutex_};
  membership_ = membership;
  for (const auto& event : early_) event(membership_);
  early_.clear();
}

}  // namespace deepinfer
