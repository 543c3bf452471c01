#include "actors/cache/store_directory.hpp"

#include "actors/cache/kv_wire.hpp"

namespace deepinfer {

using storage::block_key;

std::vector<actor_ref> store_directory::listed_in(wire::Members::Reader members, own_node listed) {
  std::vector<actor_ref> found;
  for (const auto record : members.getRecords()) {
    const bool own = record.getId().getHi() == members.getSelf().getHi() &&
                     record.getId().getLo() == members.getSelf().getLo();
    if (own ? listed == own_node::left_out : record.getState() != wire::NodeState::ALIVE) continue;
    for (const auto service : record.getServices())
      if (service.getKind() == "kvstore") found.push_back(read_ref(service.getActor()));
  }
  return found;
}

std::vector<block_key> store_directory::take(wire::Members::Reader members) {
  services_.clear();
  for (const actor_ref& ref : listed_in(members, own_))
    services_.emplace(service_key{ref.node, ref.actor}, ref);
  std::vector<block_key> gone;
  for (auto at = stores_.begin(); at != stores_.end();) {
    if (services_.contains(at->first)) {
      ++at;
      continue;
    }
    // without an id: not known, or a newer life of the same folder has taken its place
    if (at->second.id) {
      gone.push_back(*at->second.id);
      by_id_.erase(*at->second.id);
    }
    at = stores_.erase(at);
  }
  return gone;
}

std::vector<store_directory::question> store_directory::to_ask(remote_hub& hub,
                                                               time_point now,
                                                               std::chrono::nanoseconds pause) {
  std::vector<question> questions;
  for (const auto& [key, ref] : services_) {
    entry& store = stores_.try_emplace(key, entry{ref, {}, 0, {}}).first->second;
    if (store.id || store.ask_at > now) continue;
    auto handle = hub.resolve<kv_store_actor>(ref);
    if (!handle) continue;  // no link yet
    store.ask_at = now + pause;
    questions.push_back({key, *std::move(handle)});
  }
  return questions;
}

store_directory::named store_directory::name(const service_key& key, wire::KvInfo::Reader info) {
  const auto found = stores_.find(key);
  if (found == stores_.end()) return named::gone;
  const block_key id = read_block_key(info.getStore());
  const auto [place, fresh] = by_id_.try_emplace(id, key);
  if (!fresh && place->second != key) {  // another life of the same folder, or a copy of it
    const auto other = stores_.find(place->second);
    // asked again, in case the newer one goes
    if (other != stores_.end() && other->second.epoch > info.getEpoch()) return named::older_life;
    if (other != stores_.end()) other->second.id.reset();
    place->second = key;
  }
  found->second.id = id;
  found->second.epoch = info.getEpoch();
  return named::taken;
}

std::optional<kv_store_actor> store_directory::find(remote_hub& hub, const block_key& id) const {
  const auto place = by_id_.find(id);
  if (place == by_id_.end()) return std::nullopt;
  const auto found = stores_.find(place->second);
  if (found == stores_.end()) return std::nullopt;
  auto handle = hub.resolve<kv_store_actor>(found->second.ref);
  if (!handle) return std::nullopt;
  return *std::move(handle);
}

}  // namespace deepinfer
