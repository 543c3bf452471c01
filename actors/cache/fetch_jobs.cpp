#include "actors/cache/fetch_core.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using fetch::ticket_id;
using storage::block_key;

namespace {
constexpr size_t most_stores = 16;  // of one group; the rest is not asked
constexpr uint32_t bit(uint32_t store) {
  return 1u << store;
}
}  // namespace

uint64_t fetch_core::make_job(const ticket& of, uint32_t group) {
  const fetch::order& order = of.order;
  const size_t first = order.cut.first_of(group);
  const size_t last = std::min<size_t>(order.keys.size(), order.cut.end_of(group));
  const size_t block_tokens = order.tokens.size() / order.keys.size();
  const auto at = [](auto& from, size_t index) {
    return from.begin() + static_cast<std::ptrdiff_t>(index);
  };
  const uint64_t number = next_++;
  job& j = jobs_[number];
  j.keys.assign(at(order.keys, first), at(order.keys, last));
  j.tokens.assign(at(order.tokens, first * block_tokens), at(order.tokens, last * block_tokens));
  j.first = static_cast<uint32_t>(first);
  j.first_depth = order.cut.depth_of(j.first);
  j.stores = order.groups[group];
  j.stores.resize(std::min(j.stores.size(), most_stores));
  for (size_t store = j.stores.size(); store > 0; --store)
    j.to_open.push_back(static_cast<uint32_t>(store - 1));
  j.traffic = order.traffic;
  j.deadline = j.latest = order.deadline;
  return number;
}

/// A more urgent fetch makes the whole job more urgent.
void fetch_core::join(uint64_t number, const ticket_id& id) {
  job& j = jobs_.at(number);
  ticket& t = tickets_.at(id);
  j.tickets.insert(id);
  t.jobs.insert(number);
  j.latest = std::max(j.latest, t.order.deadline);
  if (t.order.deadline >= j.deadline) return;
  if (to_open_.erase({j.deadline, number}) > 0) to_open_.emplace(t.order.deadline, number);
  for (const uint64_t one : j.sessions) {
    auto& due = stores_[j.stores[sessions_.at(one).store_index]].due;
    if (due.erase({j.deadline, one}) > 0) due.emplace(t.order.deadline, one);
  }
  j.deadline = t.order.deadline;
}

/// Nobody waits for a block any more.
void fetch_core::drop_item(const block_key& key) {
  const auto wanted = wanted_.find(key);
  job& j = jobs_.at(wanted->second.job);
  const auto found = j.items.find(wanted->second.index);
  if (found->second.at == step::reading) return;
  remove_item(j, found);
  wanted_.erase(wanted);
}

void fetch_core::remove_item(job& of, std::map<uint32_t, item>::iterator at) {
  if (at->second.at == step::assigned) {
    sessions_.at(at->second.session).due.erase(at->first);
    show_due(at->second.session);
  }
  of.items.erase(at);
}

/// Gives each block that needs one a session, asks the next store, or knows that it is missing.
void fetch_core::assign(uint64_t number) {
  job& j = jobs_.at(number);
  std::vector<std::pair<block_key, failure>> nowhere;
  for (auto& [index, one] : j.items) {
    if (one.at != step::unassigned) continue;
    for (const uint64_t candidate : j.sessions) {
      session& s = sessions_.at(candidate);
      if (s.over || index >= s.said.blocks || (one.tried & bit(s.store_index)) != 0) continue;
      one.at = step::assigned;
      one.session = candidate;
      s.due.insert(index);
      show_due(candidate);
      break;
    }
    if (one.at == step::unassigned) nowhere.emplace_back(j.keys[index], one.why);
  }
  if (nowhere.empty() || j.opening != opening_step::no) return;
  if (!j.to_open.empty()) return queue_open(number);
  for (const auto& [key, why] : nowhere) missing(number, key, why);
}

void fetch_core::missing(uint64_t number, const block_key& key, const failure& why) {
  const auto found = wanted_.find(key);
  // An earlier one that is missing may have ended all interest in this one.
  if (found == wanted_.end() || found->second.job != number) return;
  const std::vector<waiter> waiters = take_item(key);
  ++counts_.missing_blocks;
  for (const waiter& w : waiters) {
    cut(w.ticket, w.index, why);
    settle(w.ticket);
  }
}

void fetch_core::arrived(const block_key& key) {
  if (!wanted_.contains(key)) return;
  for (const waiter& w : take_item(key)) {
    ticket& t = tickets_.at(w.ticket);
    if (w.index >= t.end || t.have[w.index]) continue;
    shelf_.hold(key);
    t.have[w.index] = true;
    settle(w.ticket);
  }
}

/// Ends a block's being wanted; who waited for it.
std::vector<fetch_core::waiter> fetch_core::take_item(const block_key& key) {
  const auto found = wanted_.find(key);
  wanted_block gone = std::move(found->second);
  wanted_.erase(found);
  job& j = jobs_.at(gone.job);
  remove_item(j, j.items.find(gone.index));
  return std::move(gone.waiters);
}

void fetch_core::queue_open(uint64_t number) {
  job& j = jobs_.at(number);
  j.opening = opening_step::queued;
  to_open_.emplace(j.deadline, number);
}

void fetch_core::on_opened(uint64_t number,
                           uint32_t store_index,
                           result<fetch::opened> said,
                           time_point now) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second.opening != opening_step::asked) return;
  job& j = found->second;
  --opening_;
  j.opening = opening_step::no;
  if (!said) {
    for (auto& [index, one] : j.items)
      if (one.at == step::unassigned) one.why = said.error();
  } else if (said->blocks > 0) {
    const uint64_t made = next_++;
    session& s = sessions_[made];
    s.job = number;
    s.store_index = store_index;
    s.said = *std::move(said);
    s.said.blocks = std::min(s.said.blocks, static_cast<uint32_t>(j.keys.size()));
    s.files = !s.said.folder.empty() && s.said.folder_mark && s.said.places.size() >= s.said.blocks;
    s.renewed = now;
    j.sessions.insert(made);
  }
  if (j.only_tell && j.sessions.empty() && !j.to_open.empty()) queue_open(number);
  assign(number);
  end_idle_job(number);
  pump(now);
}

/// Leases last as long as a fetch may still say that it used the blocks.
void fetch_core::end_idle_job(uint64_t number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  job& j = found->second;
  const bool nothing_to_read = j.items.empty() && j.tickets.empty();
  if (!nothing_to_read || j.opening == opening_step::asked) return;
  if (j.opening == opening_step::queued) {
    if (j.only_tell) return;
    to_open_.erase({j.deadline, number});
  }
  for (const uint64_t one : j.sessions) {
    const session& s = sessions_.at(one);
    const storage::lease_use use{j.used ? storage::use_kind::used : storage::use_kind::unused,
                                 j.traffic};
    if (s.said.lease.id != 0)
      effects_.emplace_back(fetch::close_lease{j.stores[s.store_index], s.said.lease, use});
    sessions_.erase(one);
  }
  jobs_.erase(found);
}

void fetch_core::give_up_late_reads(time_point now) {
  std::vector<uint64_t> touched;
  for (auto& [number, b] : batches_) {
    if (b.given_up || b.started + config_.read_timeout > now) continue;
    b.given_up = true;
    ++counts_.late_reads;
    for (uint32_t position = 0; position < b.keys.size(); ++position)
      block_failed(b, position, fetch::outcome::gone, now);
    touched.push_back(b.job);
  }
  for (const uint64_t number : touched)
    if (jobs_.contains(number)) {
      assign(number);
      end_idle_job(number);
    }
}

void fetch_core::renew(time_point now) {
  for (auto& [number, s] : sessions_) {
    const bool due = s.said.ttl.count() > 0 && now - s.renewed >= s.said.ttl / 3;
    if (!due || s.over || s.said.lease.id == 0) continue;
    s.renewed = now;
    effects_.emplace_back(fetch::renew_lease{jobs_.at(s.job).stores[s.store_index], s.said.lease});
  }
}

}  // namespace deepinfer
