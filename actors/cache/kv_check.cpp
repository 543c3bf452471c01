#include "actors/cache/kv_check.hpp"

#include "actors/cache/kv_wire.hpp"
#include "actors/messages/errors.hpp"
#include "storage/block/chain_hasher.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

using self_ptr = kv_check_self_actor::stateful_pointer<kv_check_state>;
using peer_map = std::map<kv_check_state::peer_key, checked_peer>;

constexpr uint32_t block_tokens = 128;
constexpr std::chrono::milliseconds tick_every{1000};
/// A list longer than this is a mistake of its sender.
constexpr uint32_t max_rings_in_news = 1u << 20;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

// ---- matching

void write_hint(wire::CacheHint::Builder out, const prefix_hit& hit) {
  out.setHitBlocks(hit.hit_blocks);
  auto groups = out.initGroups(static_cast<uint32_t>(hit.groups.size()));
  for (uint32_t g = 0; g < hit.groups.size(); ++g) {
    auto stores = groups[g].initStores(static_cast<uint32_t>(hit.groups[g].size()));
    for (uint32_t i = 0; i < hit.groups[g].size(); ++i) write_ref(stores[i], hit.groups[g][i]);
  }
}

void write_rings(wire::CacheHint::Builder out, const std::vector<ring_table::place>& places) {
  auto rings = out.initRings(static_cast<uint32_t>(places.size()));
  for (uint32_t i = 0; i < places.size(); ++i) {
    rings[i].setBlocks(places[i].blocks);
    write_ref(rings[i].initHost(), places[i].host);
    rings[i].setBytes(places[i].bytes);
  }
}

void count(kv_check_state& state,
           storage::traffic_class use,
           const prefix_hit& hit,
           size_t tokens) {
  const bool agent = use == storage::traffic_class::agent;
  const int64_t blocks = hit.hit_blocks, absent = hit.prompt_blocks - blocks;
  const int64_t found_tokens = blocks * block_tokens;
  const int64_t absent_tokens = static_cast<int64_t>(tokens) - found_tokens;
  match_totals& to = state.totals[agent ? 0 : 1];
  ++to.matches;
  to.found_tokens += found_tokens;
  to.absent_tokens += absent_tokens;
  to.found_blocks += blocks;
  to.absent_blocks += absent;
  if (!state.setup.metrics) return;
  const match_counters& by = agent ? state.setup.metrics->agent : state.setup.metrics->chat;
  const auto add = [](counter* total, int64_t more) {
    if (total != nullptr) total->add(static_cast<double>(more));
  };
  add(by.found_tokens, found_tokens);
  add(by.absent_tokens, absent_tokens);
  add(by.found_blocks, blocks);
  add(by.absent_blocks, absent);
}

/// The whole blocks of the prompt that are everybody's. The last block of a prompt may be one: its
/// tokens are all listed.
storage::shared_prefix shared_of(const kv_check_setup& setup,
                                 storage::chain_domain domain,
                                 std::span<const int32_t> tokens) {
  if (!setup.shared) return {};
  const auto blocks = static_cast<uint32_t>(setup.shared->shared_tokens(tokens) / block_tokens);
  if (blocks == 0) return {};
  domain.scope = storage::public_scope();
  return {storage::root_key(domain), blocks};
}

wire::msg<wire::CacheHint> match(self_ptr self, const match_prompt& what) {
  kv_check_state& state = self->state;
  const kv_check_setup& setup = state.setup;
  if (!setup.cache.enabled || state.layout == 0 || !what.tokens) return {};
  const bool timed = setup.metrics && setup.metrics->seconds != nullptr && setup.metrics->now;
  const auto began = timed ? setup.metrics->now() : std::chrono::nanoseconds{};
  const uint64_t layout = chain_layout(setup.cache, state.layout);
  const storage::chain_domain domain{setup.model, "", layout, block_tokens, what.party.scope};
  const auto root = storage::root_key(domain);
  const auto shared = shared_of(setup, domain, *what.tokens);
  const prefix_hit hit = state.stores.match(root, *what.tokens, shared);
  wire::draft<wire::CacheHint> out;
  auto line = out->initLine();
  write_block_key(line.initRoot(), root);
  line.setLayout(layout);
  line.setScope(static_cast<uint64_t>(storage::id_of(what.party.scope)));
  line.setTraffic(static_cast<uint8_t>(what.party.traffic));
  line.setGroupBlocks(state.stores.group_blocks());
  if (shared.blocks != 0) write_block_key(line.initSharedRoot(), shared.root);
  line.setSharedBlocks(shared.blocks);
  write_hint(*out, hit);
  write_rings(*out, state.rings.find(std::span{hit.keys}.first(hit.hit_blocks)));
  count(state, what.party.traffic, hit, what.tokens->size());
  state.card.count("shared_blocks", shared.blocks);
  if (timed)
    setup.metrics->seconds->observe(
        std::chrono::duration<double>(setup.metrics->now() - began).count());
  return out.freeze();
}

// ---- stores

void follow(self_ptr self, const storage::block_key& id, const actor_ref& store) {
  kv_check_state& state = self->state;
  auto found = state.feeds.find(id);
  if (found == state.feeds.end()) {
    auto made = state.setup.spawn_feed(state.setup.config.feed, state.stores.index(id));
    self->link_to(made);  // it ends with us
    found = state.feeds.emplace(id, std::move(made)).first;
  }
  self->send(found->second, follow_store{store});
}

void withdraw(self_ptr self, const actor_ref& store) {
  kv_check_state& state = self->state;
  const auto feed = state.feeds.find(state.stores.withdraw(store, now_of(self)));
  if (feed != state.feeds.end()) self->send(feed->second, follow_store{});
}

void on_info(self_ptr self, const actor_ref& ref, wire::KvInfo::Reader info) {
  kv_check_state& state = self->state;
  const auto peer = state.store_peers.find({ref.node, ref.actor});
  if (peer == state.store_peers.end()) return;  // gone meanwhile
  peer->second.asked = false;
  const store_facts facts{{info.getStore().getHi(), info.getStore().getLo()},
                          info.getEpoch(),
                          info.getGroupBlocks(),
                          std::max<uint64_t>(1, info.getCapacityBytes()),
                          ref};
  switch (state.stores.offer(facts)) {
    case index_set::offered::taken:
      peer->second.known = true;
      return follow(self, facts.id, ref);
    case index_set::offered::older_life:  // until the newer one is gone
      return state.card.count("older_lives");
    case index_set::offered::too_many:
      return state.card.count("stores_over_limit");
    case index_set::offered::useless:
      peer->second.known = true;  // it is not asked again
      return state.card.count("useless_stores");
  }
}

void ask_info(self_ptr self, checked_peer& peer) {
  const auto store = self->state.setup.hub->resolve<kv_store_actor>(peer.ref);
  if (!store) return;  // the next tick tries again
  peer.asked = true;
  self->request(*store, self->state.setup.config.feed.answer_within, wire::msg<wire::KvInfoQuery>{})
      .then([self, ref = peer.ref](
                const wire::msg<wire::KvInfo>& info) { on_info(self, ref, info.get()); },
            [self, ref = peer.ref](const caf::error&) {
              const auto found = self->state.store_peers.find({ref.node, ref.actor});
              if (found != self->state.store_peers.end()) found->second.asked = false;
            });
  self->state.card.sent(*store);
}

// ---- rings

void subscribe(self_ptr self, checked_peer& peer) {
  const auto host = self->state.setup.hub->resolve<ring_host_actor>(peer.ref);
  if (!host) return;
  peer.known = true;
  wire::draft<wire::RingSubscribe> out;
  write_ref(out->initSubscriber(), self->state.self_ref);
  self->send(*host, out.freeze());
  self->state.card.sent(*host);
}

void on_rings(self_ptr self, wire::RingChanges::Reader in) {
  kv_check_state& state = self->state;
  const actor_ref host = read_ref(in.getHost());
  const auto peer = state.ring_peers.find({host.node, host.actor});
  if (peer == state.ring_peers.end()) return state.card.count("rings_of_strangers");
  ring_table::news news{in.getNumber(), {}, {}};
  if (in.getAdded().size() > max_rings_in_news) return state.card.count("rings_over_limit");
  for (const auto r : in.getAdded())
    news.added.push_back({{r.getKey().getHi(), r.getKey().getLo()}, r.getBytes()});
  const auto removed = in.getRemoved();
  const auto* bytes = reinterpret_cast<const std::byte*>(removed.begin());
  for (size_t at = 0; at + storage::key_bytes <= removed.size(); at += storage::key_bytes)
    news.removed.push_back(storage::key_from_bytes(bytes + at));
  switch (state.rings.apply(host, news)) {
    case ring_table::heard::taken:
      return state.card.count("ring_news");
    case ring_table::heard::gap:
      peer->second.known = false;  // the next tick subscribes, once for all gaps until then
      return state.card.count("ring_gaps");
    case ring_table::heard::too_many:
      return state.card.count("ring_hosts_over_limit");
  }
}

// ---- who is there

/// The layout that most prefill engines of our model have; of two, the smaller number.
uint64_t usual_layout(const std::map<uint64_t, size_t>& layouts) {
  const auto usual =
      std::max_element(layouts.begin(), layouts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return usual == layouts.end() ? 0 : usual->first;
}

void keep_present(peer_map& peers, const std::map<kv_check_state::peer_key, actor_ref>& present) {
  std::erase_if(peers, [&](const auto& item) { return !present.contains(item.first); });
  for (const auto& [key, ref] : present) peers.try_emplace(key, checked_peer{ref});
}

void on_members(self_ptr self, wire::Members::Reader members) {
  kv_check_state& state = self->state;
  std::map<kv_check_state::peer_key, actor_ref> stores, hosts;
  std::map<uint64_t, size_t> layouts;
  for (const auto record : members.getRecords()) {
    const bool own = record.getId().getHi() == members.getSelf().getHi() &&
                     record.getId().getLo() == members.getSelf().getLo();
    if (record.getState() != wire::NodeState::ALIVE && !own) continue;
    for (const auto service : record.getServices()) {
      const actor_ref ref = read_ref(service.getActor());
      if (service.getKind() == "kvstore") stores.emplace(std::pair{ref.node, ref.actor}, ref);
      if (service.getKind() == "ring_host") hosts.emplace(std::pair{ref.node, ref.actor}, ref);
      if (service.getKind() == "prefill" && service.getModel() == state.setup.model.c_str())
        ++layouts[service.getLayout()];
    }
  }
  // Without engines nothing is matched either way; a layout outlives the pause of a restart.
  if (!layouts.empty()) state.layout = usual_layout(layouts);
  for (const auto& [key, peer] : state.store_peers)
    if (!stores.contains(key)) withdraw(self, peer.ref);
  for (const auto& [key, peer] : state.ring_peers)
    if (!hosts.contains(key)) state.rings.drop(peer.ref);
  keep_present(state.store_peers, stores);
  keep_present(state.ring_peers, hosts);
}

// Whom we have not reached yet.
void reach_out(self_ptr self) {
  for (auto& [key, peer] : self->state.store_peers)
    if (!peer.known && !peer.asked) ask_info(self, peer);
  for (auto& [key, peer] : self->state.ring_peers)
    if (!peer.known) subscribe(self, peer);
}

void tick(self_ptr self) {
  kv_check_state& state = self->state;
  for (const auto& id : state.stores.forget(now_of(self) - state.setup.config.forget_after)) {
    const auto feed = state.feeds.find(id);
    if (feed == state.feeds.end()) continue;
    self->unlink_from(feed->second);
    self->send_exit(feed->second, caf::exit_reason::user_shutdown);
    state.feeds.erase(feed);
  }
  reach_out(self);
  self->delayed_send(self, tick_every, check_tick{});
}

wire::msg<wire::ActorInfo> card_of(self_ptr self) {
  kv_check_state& state = self->state;
  actor_card& card = state.card;
  const auto stats = state.stores.stats();
  const auto set = [&card](std::string_view name, uint64_t value) {
    card.set(name, static_cast<int64_t>(value));
  };
  set("stores", state.stores.stores());
  set("stores_known", state.stores.known());
  set("blocks", stats.blocks);
  set("blocks_refused", stats.refused);
  set("index_bytes", stats.memory_bytes);
  set("changes", stats.changes);
  set("gaps", stats.gaps);
  set("snapshots", stats.snapshots);
  set("hash_collisions", stats.hash_collisions);
  set("rings", state.rings.size());
  set("ring_hosts", state.rings.hosts());
  set("rings_refused", state.rings.refused());
  for (size_t i = 0; i < state.totals.size(); ++i) {
    const match_totals& t = state.totals[i];
    const std::string use = i == 0 ? "agent" : "chat";
    card.set("matches_" + use, t.matches);
    card.set("found_tokens_" + use, t.found_tokens);
    card.set("absent_tokens_" + use, t.absent_tokens);
    card.set("found_blocks_" + use, t.found_blocks);
    card.set("absent_blocks_" + use, t.absent_blocks);
  }
  return card.info(*self, std::to_string(state.stores.stores()) + " stores, " +
                              std::to_string(stats.blocks) + " blocks" +
                              (stats.complete ? "" : ", catching up"));
}

}  // namespace

kv_check_self_actor::behavior_type kv_check(
    kv_check_self_actor::stateful_pointer<kv_check_state> self, const kv_check_setup& setup) {
  kv_check_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"kv_check", *setup.hub};
  state.stores = index_set{{.block_tokens = block_tokens,
                            .max_stores = setup.config.max_stores,
                            .max_blocks = setup.config.max_blocks}};
  state.rings = ring_table{{.max_rings = setup.config.max_rings}};
  if (const auto ref = setup.hub->export_actor(kv_check_actor{self})) state.self_ref = *ref;
  self->delayed_send(self, tick_every, check_tick{});
  return {
      [self](const wire::msg<wire::RingChanges>& msg) { on_rings(self, msg.get()); },
      [self](const wire::msg<wire::Inspect>&) { return card_of(self); },
      [self](const match_prompt& what) { return match(self, what); },
      [self](const wire::msg<wire::Members>& msg) {
        on_members(self, msg.get());
        reach_out(self);
      },
      [self](const check_tick&) { tick(self); },
  };
}

}  // namespace deepinfer
