#include "actors/cache/ring_host.hpp"

#include "actors/messages/errors.hpp"
#include "actors/serve/staged_wire.hpp"

#include <string>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

using self_ptr = ring_host_impl_actor::stateful_pointer<ring_host_state>;

constexpr std::chrono::seconds tick_interval{1};
/// Engines end blocks many at a time; the next turn of a conversation takes longer than this.
constexpr std::chrono::milliseconds flush_after{10};
/// The memory of kept rings belongs to the rings, not to a time.
constexpr std::chrono::hours as_long_as_kept{24 * 365 * 100};

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

void collect_freed(self_ptr self) {
  ring_host_state& state = self->state;
  for (const uint64_t number : state.rings.freed()) {
    const auto place = state.places.find(number);
    static_cast<void>(state.memory->leases().release(place->second.lease));
    state.places.erase(place);
  }
}

void tell(self_ptr self, ring_follower& follower, const policy::ring_news& news) {
  ring_host_state& state = self->state;
  wire::draft<wire::RingChanges> out;
  write_ref(out->initHost(), state.self_ref);
  out->setNumber(follower.next_number++);
  auto added = out->initAdded(static_cast<uint32_t>(news.added.size()));
  for (uint32_t i = 0; i < news.added.size(); ++i) {
    added[i].initKey().setHi(news.added[i].key.hi);
    added[i].getKey().setLo(news.added[i].key.lo);
    added[i].setBytes(news.added[i].bytes);
  }
  std::vector<std::byte> removed;
  for (const storage::block_key& key : news.removed) {
    const auto bytes = to_bytes(key);
    removed.insert(removed.end(), bytes.begin(), bytes.end());
  }
  out->setRemoved({reinterpret_cast<const kj::byte*>(removed.data()), removed.size()});
  self->send(follower.handle, out.freeze());
  state.card.sent(follower.handle);
}

void flush(self_ptr self) {
  const policy::ring_news news = self->state.rings.news();
  if (news.empty()) return;
  for (auto& [address, follower] : self->state.followers) tell(self, follower, news);
}

// After everything that may have changed the rings.
void settle(self_ptr self) {
  collect_freed(self);
  if (std::exchange(self->state.flush_due, true)) return;
  self->delayed_send(self, flush_after, ring_flush{});
}

void on_subscribe(self_ptr self, const wire::RingSubscribe::Reader& msg) {
  ring_host_state& state = self->state;
  const auto handle = state.setup.hub->resolve<kv_check_actor>(read_ref(msg.getSubscriber()));
  if (!handle) return;
  // Otherwise what comes and goes before the next flush would stay in this one's list.
  flush(self);
  const auto [found, fresh] = state.followers.try_emplace(handle->address());
  if (fresh) self->monitor(*handle);
  found->second = {*handle, 0};
  tell(self, found->second, {state.rings.all(), {}});
}

// Nothing if rings in use leave no room: they are a saving, not a duty.
void on_keep(self_ptr self, const keep_rings& msg) {
  ring_host_state& state = self->state;
  if (msg.replaces && msg.replaces != msg.key) state.rings.remove(msg.replaces);
  if (state.rings.renew(msg.key, msg.layout, now_of(self))) {
    state.card.count("renewed");
    return settle(self);
  }
  state.rings.remove(msg.key);
  collect_freed(self);
  auto staged = state.memory->stage(*msg.parts, now_of(self), as_long_as_kept);
  while (!staged && staged.error().code == error_code::no_capacity && state.rings.evict()) {
    state.card.count("evictions");
    collect_freed(self);
    staged = state.memory->stage(*msg.parts, now_of(self), as_long_as_kept);
  }
  if (staged) {
    uint64_t bytes = 0;
    for (const staged_part& part : staged->parts) bytes += part.length;
    const uint64_t number = state.rings.add({msg.key, msg.layout, msg.scope, bytes}, now_of(self));
    state.places.emplace(number, *std::move(staged));
    state.card.count("kept");
  } else {
    state.card.count("dropped");
  }
  settle(self);
}

wire::msg<wire::RingReady> ready(const ring_host_state& state, const policy::ring_hold& hold) {
  const staged_sequence& place = state.places.at(hold.number);
  wire::draft<wire::RingReady> out;
  write_parts(out->initParts(static_cast<uint32_t>(place.parts.size())), place);
  write_lease(out->initLease(), hold.lease, state.owner_ref, state.setup.config.lease_ttl);
  return out.freeze();
}

caf::result<wire::msg<wire::RingReady>> on_pull(self_ptr self, const wire::RingPull::Reader& msg) {
  ring_host_state& state = self->state;
  state.card.count("pulls");
  const storage::block_key key{msg.getKey().getHi(), msg.getKey().getLo()};
  const auto hold = state.rings.pull(key, msg.getLayout(), now_of(self));
  if (!hold)
    return to_caf({error_code::not_found, "these rings are not kept (any more) for this layout"});
  state.card.count("hits");
  return ready(state, *hold);
}

wire::msg<wire::KvPurged> on_purge(self_ptr self, const wire::KvPurge::Reader& msg) {
  const size_t rings = self->state.rings.purge(msg.getScope());
  self->state.card.count("purged", static_cast<int64_t>(rings));
  settle(self);
  wire::draft<wire::KvPurged> out;
  out->setRings(rings);
  return out.freeze();
}

void on_tick(self_ptr self) {
  ring_host_state& state = self->state;
  const size_t gone = state.rings.expire(now_of(self));
  collect_freed(self);
  if (gone != 0) {
    state.card.count("idled", static_cast<int64_t>(gone));
    settle(self);
  }
  self->delayed_send(self, tick_interval, cache_tick{});
}

wire::msg<wire::ActorInfo> inspect(self_ptr self) {
  ring_host_state& state = self->state;
  state.card.set("rings", static_cast<int64_t>(state.rings.size()));
  state.card.set("bytes", static_cast<int64_t>(state.rings.bytes()));
  state.card.set("capacity_bytes", static_cast<int64_t>(state.setup.config.bytes));
  state.card.set("holds", static_cast<int64_t>(state.rings.holds()));
  state.card.set("followers", static_cast<int64_t>(state.followers.size()));
  return state.card.info(*self, std::to_string(state.rings.size()) + " rings, " +
                                    std::to_string(state.rings.bytes()) + " bytes, " +
                                    std::to_string(state.rings.holds()) + " being read");
}

}  // namespace

ring_host_impl_actor::behavior_type ring_host(self_ptr self, const ring_host_setup& setup) {
  ring_host_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"ring_host", *setup.hub};
  state.rings = policy::kept_rings{{setup.config.most, setup.config.idle}};
  state.rings.set_hold(setup.config.lease_ttl);
  auto memory = staging_area::make(*setup.transport, setup.config.bytes);
  const auto ref = setup.hub->export_actor(ring_host_actor{self});
  const auto owner = setup.hub->export_actor(lease_owner_actor{self});
  if (!memory || !ref || !owner) {
    self->quit(to_caf(!memory ? memory.error() : !ref ? ref.error() : owner.error()));
    return ring_host_impl_actor::behavior_type::make_empty_behavior();
  }
  state.memory = *std::move(memory);
  state.self_ref = *ref;
  state.owner_ref = *owner;
  self->set_down_handler(
      [self](const caf::down_msg& down) { self->state.followers.erase(down.source); });
  self->delayed_send(self, tick_interval, cache_tick{});
  return {
      [self](const wire::msg<wire::RingPull>& msg) { return on_pull(self, msg.get()); },
      [self](const wire::msg<wire::RingSubscribe>& msg) { on_subscribe(self, msg.get()); },
      [self](const wire::msg<wire::LeaseRelease>& msg) {
        self->state.rings.release(msg.get().getId());
        collect_freed(self);
      },
      [self](const wire::msg<wire::KvPurge>& msg) { return on_purge(self, msg.get()); },
      [self](const wire::msg<wire::Inspect>&) { return inspect(self); },
      [self](const keep_rings& msg) { on_keep(self, msg); },
      [self](const ring_flush&) {
        self->state.flush_due = false;
        flush(self);
      },
      [self](const cache_tick&) { on_tick(self); },
  };
}

}  // namespace deepinfer
