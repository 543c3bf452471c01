#include "runtime/policy/membership_table.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::policy {

bool has_vote(const member_record& record) {
  return record.roles != std::vector<std::string>{"fetch"};
}

membership_table::membership_table(member_record self, const membership_config& config)
    : self_(std::move(self)), config_(config) {
  if (self_.version == 0) self_.version = 1;
  agree();
}

void membership_table::set_services(std::vector<service_record> services) {
  if (services == self_.services) return;
  self_.services = std::move(services);
  ++self_.version;
  ++changes_;
}

void membership_table::leave() {
  self_.state = member_state::left;
  ++self_.version;
  ++changes_;
}

void membership_table::replace_older_life(const member_record& fresh) {
  for (auto it = peers_.begin(); it != peers_.end();) {
    const bool older = it->first != fresh.id && it->second.record.address == fresh.address &&
                       it->second.record.epoch < fresh.epoch && !it->second.is_linked;
    if (older) agreed_.erase(it->first);
    it = older ? peers_.erase(it) : std::next(it);
  }
}

void membership_table::link_up(const node_id& id,
                               uint64_t epoch,
                               const std::string& address,
                               time_point now) {
  if (peers_.size() >= config_.max_members && !peers_.contains(id)) return;
  peer& p = peers_[id];
  p.record.id = id;
  p.record.epoch = epoch;
  p.record.address = address;
  if (p.record.name.empty()) p.record.name = address;
  p.record.state = member_state::alive;
  p.is_linked = true;
  p.since = now;
  addresses_.try_emplace(address);
  replace_older_life(p.record);
  agree();
  ++changes_;
}

void membership_table::link_down(const node_id& id, time_point now) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second.is_linked) return;
  peer& p = found->second;
  p.is_linked = false;
  p.since = now;
  if (p.record.state != member_state::left) p.record.state = member_state::dead;
  if (p.record.state == member_state::left) agreed_.erase(id);  // left on purpose: not missed
  // What a store keeps is still there when its node is not: orders must be able to name it.
  std::erase_if(p.record.services, [](const service_record& s) { return s.kind != "kvstore"; });
  p.record.version = 0;  // whatever it says about itself when it is back is news
  // It may be a short partition: try again at once. One that left may be restarted later.
  const bool left = p.record.state == member_state::left;
  addresses_[p.record.address].next = left ? now + 10 * config_.redial_after : now;
  ++changes_;
}

bool membership_table::confirm_dead(const std::string& address) {
  for (const auto& [id, p] : peers_)
    if (p.is_linked && p.record.address == address) return false;
  for (const auto& [id, p] : peers_)
    if (p.record.address == address && agreed_.erase(id) > 0) ++changes_;
  return true;
}

void membership_table::add_seed(const std::string& address, time_point now) {
  seeds_.insert(address);
  learn_address(address, now);
}

void membership_table::apply(const node_id& sender,
                             const std::vector<member_record>& records,
                             time_point now) {
  for (const member_record& r : records) {
    if (r.id == self_.id) continue;
    if (r.id != sender) {
      const auto known = peers_.find(r.id);
      const bool is_known = known != peers_.end();
      // Somebody else's word about a third node: only a hint whom to dial.
      if (!is_known && r.state == member_state::alive && r.address != self_.address)
        learn_address(r.address, now);
      // News only once: what is told on as a change comes back from all who heard it.
      const bool news = is_known && !known->second.is_linked && r.state == member_state::left &&
                        known->second.record.state != member_state::left;
      if (news) {
        known->second.record.state = member_state::left;
        agreed_.erase(r.id);
        ++changes_;
      }
      continue;
    }
    const auto found = peers_.find(r.id);
    if (found == peers_.end() || !found->second.is_linked) continue;
    peer& p = found->second;
    const bool changed = r.version > p.record.version;
    if (!changed) {
      p.record.uptime = r.uptime;
      continue;
    }
    // Address and epoch were proven when the link came up; the rest is its own word.
    const std::string address = p.record.address;
    const uint64_t epoch = p.record.epoch;
    p.record = r;
    p.record.address = address;
    p.record.epoch = epoch;
    p.since = now;
    if (!has_vote(p.record)) agreed_.erase(r.id);  // its roles were not known when the link came up
    ++changes_;
  }
}

void membership_table::learn_address(const std::string& address, time_point now) {
  if (address.empty() || address == self_.address) return;
  if (addresses_.size() >= 4 * size_t{config_.max_members} && !addresses_.contains(address)) return;
  auto [it, is_new] = addresses_.try_emplace(address);
  if (is_new) it->second.next = now;
}

void membership_table::dial_failed(const std::string& address, time_point now) {
  const auto found = addresses_.find(address);
  if (found != addresses_.end()) found->second.next = now + config_.redial_after;
}

std::vector<std::string> membership_table::due_dials(time_point now) {
  std::set<std::string> busy{self_.address};
  for (const auto& [id, p] : peers_)
    if (p.is_linked) busy.insert(p.record.address);
  std::vector<std::string> due;
  for (auto& [address, entry] : addresses_) {
    if (busy.contains(address) || entry.next > now) continue;
    entry.next = now + 4 * config_.redial_after;  // answered by link_up or dial_failed before
    due.push_back(address);
  }
  return due;
}

void membership_table::sweep(time_point now) {
  // a minority that forgot whom it misses would take itself for a majority
  const bool forgets_voters = majority();
  for (auto it = peers_.begin(); it != peers_.end();) {
    const peer& p = it->second;
    const bool votes = has_vote(p.record);
    const auto after = votes ? time_point{config_.forget_after} : config_.forget_helper_after;
    const bool old = !p.is_linked && now - p.since >= after && (forgets_voters || !votes);
    if (old) {
      if (!seeds_.contains(it->second.record.address)) addresses_.erase(it->second.record.address);
      agreed_.erase(it->first);
      ++changes_;
    }
    it = old ? peers_.erase(it) : std::next(it);
  }
}

std::vector<member_record> membership_table::members() const {
  std::vector<member_record> all{self_};
  for (const auto& [id, p] : peers_) {
    all.push_back(p.record);
  }
  return all;
}

bool membership_table::linked(const node_id& id) const {
  const auto found = peers_.find(id);
  return found != peers_.end() && found->second.is_linked;
}

std::vector<node_id> membership_table::links() const {
  std::vector<node_id> all;
  for (const auto& [id, p] : peers_)
    if (p.is_linked) all.push_back(id);
  return all;
}

node_id membership_table::coordinator() const {
  constexpr std::pair<uint64_t, node_id> nobody{UINT64_MAX, {}};
  auto best = has_vote(self_) ? std::pair{self_.epoch, self_.id} : nobody;
  for (const auto& [id, p] : peers_)
    if (p.is_linked && p.record.state == member_state::alive && has_vote(p.record))
      best = std::min(best, std::pair{p.record.epoch, id});
  return best == nobody ? self_.id : best.second;
}

bool membership_table::majority() const {
  size_t present = 0;
  std::pair<uint64_t, node_id> oldest{~uint64_t{0}, {}};
  bool oldest_present = false;
  for (const auto& [id, epoch] : agreed_) {
    const bool here = id == self_.id || linked(id);
    present += here ? 1 : 0;
    if (std::pair{epoch, id} < oldest) {
      oldest = {epoch, id};
      oldest_present = here;
    }
  }
  if (2 * present == agreed_.size()) return oldest_present;
  return 2 * present > agreed_.size();
}

// The table is agreed anew while we are on the majority side; a minority keeps the old one, and
// so keeps refusing until the missing nodes, or new ones in their place, are back.
void membership_table::agree() {
  if (!agreed_.empty()) {
    std::map<node_id, uint64_t> wider = agreed_;
    for (const auto& [id, p] : peers_)
      if (p.is_linked && has_vote(p.record)) wider.emplace(id, p.record.epoch);
    std::swap(wider, agreed_);
    if (!majority()) return;
    agreed_.clear();
  }
  agreed_.emplace(self_.id, self_.epoch);
  for (const auto& [id, p] : peers_)
    if (p.is_linked && has_vote(p.record)) agreed_.emplace(id, p.record.epoch);
}

}  // namespace deepinfer::policy
