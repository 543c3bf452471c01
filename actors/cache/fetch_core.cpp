#include "actors/cache/fetch_core.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using fetch::ticket_id;

namespace {

result<void> check(const fetch::order& order, const fetch_config& config) {
  if (order.keys.size() > config.max_blocks)
    return failure{error_code::too_large, "a hit of " + std::to_string(order.keys.size()) +
                                              " blocks; kvfetch.max_blocks allows " +
                                              std::to_string(config.max_blocks)};
  if (order.keys.empty() || order.cut.group_blocks == 0 || order.tokens.empty() ||
      order.tokens.size() % order.keys.size() != 0)
    return failure{error_code::invalid_argument,
                   "keys, tokens and groups of a hit do not fit together"};
  return {};
}

}  // namespace

result<void> fetch_core::submit(fetch::order order, time_point now) {
  if (auto fit = check(order, config_); !fit) return fit;
  if (tickets_.contains(order.ticket))
    return failure{error_code::invalid_argument, "a fetch of this ticket is open already"};
  if (tickets_.size() >= config_.max_fetches)
    return failure{error_code::no_capacity, "too many fetches are open; see kvfetch.max_fetches"};
  counts_.asked_blocks += order.keys.size();
  open_ticket(std::move(order));
  admit();
  pump(now);
  return {};
}

fetch_core::ticket& fetch_core::open_ticket(fetch::order order) {
  const ticket_id id = order.ticket;
  ticket& t = tickets_[id];
  t.order = std::move(order);
  t.ends_at = t.order.deadline;
  t.have.resize(t.order.keys.size());
  t.end = static_cast<uint32_t>(t.order.keys.size());
  const uint64_t fits = shelf_.total_bytes() / storage::span_pool::rounded(block_hint_);
  if (length_known_ && t.end > fits) {
    t.end = static_cast<uint32_t>(fits);
    t.why = {error_code::too_large, "the hit is longer than kvfetch.arena_bytes"};
  }
  t.reserved = room_for(t.end);
  waiting_.emplace(t.order.deadline, id);
  ends_.emplace(t.ends_at, id);
  return t;
}

uint64_t fetch_core::room_for(uint32_t blocks) const {
  return std::min(shelf_.total_bytes(), storage::span_pool::rounded(block_hint_) * blocks);
}

/// Before the first block came its length was a guess; so was what is set aside for each fetch.
void fetch_core::learn_length(uint32_t length) {
  if (length_known_ && length <= block_hint_) return;
  block_hint_ = length;
  length_known_ = true;
  admitted_bytes_ = 0;
  for (auto& [id, t] : tickets_) {
    t.reserved = room_for(t.end);
    if (t.admitted) admitted_bytes_ += t.reserved;
  }
}

// The most urgent first; one that fits no more holds up those behind it, or it would never fit.
void fetch_core::admit() {
  while (!waiting_.empty()) {
    const ticket_id id = waiting_.begin()->second;
    ticket& t = tickets_.at(id);
    if (admitted_bytes_ > 0 && admitted_bytes_ + t.reserved > shelf_.total_bytes()) return;
    waiting_.erase(waiting_.begin());
    t.admitted = true;
    admitted_bytes_ += t.reserved;
    enlist(id);
  }
}

void fetch_core::enlist(const ticket_id& id) {
  const ticket& t = tickets_.at(id);
  for (uint32_t group = 0; t.order.cut.first_of(group) < t.end; ++group) want(id, group);
  settle(id);
}

/// What is in memory is held, what others wait for is waited for, for the rest there is a new job.
void fetch_core::want(const ticket_id& id, uint32_t group) {
  ticket& t = tickets_.at(id);
  const auto first = static_cast<uint32_t>(t.order.cut.first_of(group));
  const auto last = static_cast<uint32_t>(std::min<uint64_t>(t.end, t.order.cut.end_of(group)));
  uint64_t made = 0;
  for (uint32_t index = first; index < last; ++index) {
    const storage::block_key& key = t.order.keys[index];
    if (shelf_.offers(key)) {
      shelf_.hold(key);
      t.have[index] = true;
      ++counts_.hit_blocks;
      continue;
    }
    if (const auto known = wanted_.find(key); known != wanted_.end()) {
      known->second.waiters.push_back({id, index});
      join(known->second.job, id);
      ++counts_.shared_blocks;
      continue;
    }
    if (made == 0) {
      if (group >= t.order.groups.size() || t.order.groups[group].empty())
        return cut(id, index, {error_code::not_found, "no store is known to have it"});
      made = make_job(t, group);
      join(made, id);
    }
    wanted_.emplace(key, wanted_block{made, index - first, {{id, index}}});
    jobs_.at(made).items.emplace(index - first, item{});
  }
  if (made != 0) queue_open(made);
}

void fetch_core::settle(const ticket_id& id) {
  ticket& t = tickets_.at(id);
  while (t.good < t.end && t.have[t.good]) ++t.good;
  if (!t.answered && t.good >= t.end) send_answer(id);
}

void fetch_core::cut(const ticket_id& id, uint32_t end, const failure& why) {
  ticket& t = tickets_.at(id);
  if (end >= t.end) return;
  t.end = end;
  t.why = why;
  leave(id, end);
}

/// Blocks from `from` on are not needed any more. What is being read goes on: it is nearly there.
void fetch_core::leave(const ticket_id& id, uint32_t from) {
  ticket& t = tickets_.at(id);
  for (uint32_t index = from; index < t.order.keys.size(); ++index) {
    const storage::block_key& key = t.order.keys[index];
    if (t.have[index]) {
      t.have[index] = false;
      shelf_.drop(key);
      continue;
    }
    const auto found = wanted_.find(key);
    if (found == wanted_.end()) continue;
    auto& waiters = found->second.waiters;
    if (std::erase_if(waiters, [&](const waiter& w) { return w.ticket == id; }) == 0) continue;
    if (waiters.empty()) drop_item(key);
  }
}

void fetch_core::send_answer(const ticket_id& id) {
  ticket& t = tickets_.at(id);
  t.answered = true;
  if (t.quiet) {  // the next tick lets go of it
    ends_.erase({t.ends_at, id});
    t.ends_at = {};
    ends_.emplace(t.ends_at, id);
    return;
  }
  fetch::answer out{id, {}, t.why};
  if (t.good == t.order.keys.size()) out.why = {error_code::ok, {}};
  for (uint32_t index = 0; index < t.good; ++index)
    out.blocks.push_back(*shelf_.find(t.order.keys[index]));
  effects_.emplace_back(std::move(out));
  ends_.erase({t.ends_at, id});
  t.ends_at = t.order.deadline + config_.hold;
  ends_.emplace(t.ends_at, id);
}

void fetch_core::release(const ticket_id& id, uint32_t used_blocks, time_point now) {
  const auto found = tickets_.find(id);
  if (found == tickets_.end()) return;
  if (!found->second.answered) {
    found->second.answered = true;
    effects_.emplace_back(fetch::answer{id, {}, {error_code::cancelled, "the fetch was released"}});
  } else {
    tell_use(id, used_blocks, now);
  }
  forget(id);
  pump(now);
}

void fetch_core::forget(const ticket_id& id) {
  leave(id, 0);
  const ticket gone = std::move(tickets_.at(id));
  tickets_.erase(id);
  waiting_.erase({gone.order.deadline, id});
  ends_.erase({gone.ends_at, id});
  if (gone.admitted) admitted_bytes_ -= gone.reserved;
  for (const uint64_t number : gone.jobs) {
    jobs_.at(number).tickets.erase(id);
    end_idle_job(number);
  }
  admit();
}

/// Used blocks live longer (KV-13): their stores hear of it when the leases end, or now and then
/// when the blocks were still in memory and no lease was needed.
void fetch_core::tell_use(const ticket_id& id, uint32_t used_blocks, time_point now) {
  const ticket& t = tickets_.at(id);
  const uint32_t used = std::min(used_blocks, t.good);
  for (uint32_t group = 0; t.order.cut.first_of(group) < used; ++group) {
    const auto first = static_cast<uint32_t>(t.order.cut.first_of(group));
    const auto last =
        static_cast<uint32_t>(std::min<uint64_t>(used, t.order.cut.end_of(group))) - 1;
    bool told = false;
    for (const uint64_t number : t.jobs) {
      job& j = jobs_.at(number);
      if (j.first != first) continue;
      told = j.used = true;
      j.traffic = t.order.traffic;
    }
    const auto before = shelf_.told(t.order.keys[last]);
    if (!told && before && *before > now - config_.tell_use_every) continue;
    for (uint32_t index = first; index <= last; ++index) shelf_.set_told(t.order.keys[index], now);
    if (told || t.order.groups.size() <= group || t.order.groups[group].empty()) continue;
    if (to_open_.size() >= config_.max_fetches) continue;  // a store that hangs: it misses a use
    const uint64_t made = make_job(t, group);
    job& j = jobs_.at(made);
    j.only_tell = j.used = true;
    j.keys.resize(last - first + 1);
    j.deadline = j.latest = now + config_.open_timeout;
    queue_open(made);
  }
}

void fetch_core::expire(time_point now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const ticket_id id = ends_.begin()->second;
    ticket& t = tickets_.at(id);
    if (t.answered) {
      forget(id);
      continue;
    }
    if (!t.quiet) ++counts_.late_answers;
    cut_here(id, {error_code::deadline_exceeded, "not all blocks came in time"});
  }
}

/// What is good so far is the answer; nothing more is brought for it.
void fetch_core::cut_here(const ticket_id& id, const failure& why) {
  ticket& t = tickets_.at(id);
  waiting_.erase({t.order.deadline, id});
  const uint32_t good = t.good;
  cut(id, good, why);
  send_answer(id);
}

void fetch_core::answer_now(const ticket_id& id, time_point now) {
  const auto found = tickets_.find(id);
  if (found == tickets_.end() || found->second.answered) return;
  if (found->second.good < found->second.order.keys.size()) keep_reading(found->second.order);
  cut_here(id, {error_code::cancelled, "the asker waits no longer"});
  pump(now);
}

/// Blocks that were too late for the one who asked come all the same, for the next, behind what
/// others wait for. Or an engine that never waits would find nothing in memory, ever.
void fetch_core::keep_reading(fetch::order rest) {
  const uint64_t room = room_for(static_cast<uint32_t>(rest.keys.size()));
  if (tickets_.size() >= config_.max_fetches || admitted_bytes_ + room > shelf_.total_bytes() / 2)
    return;
  rest.ticket = {UINT64_MAX, next_++};
  if (tickets_.contains(rest.ticket)) return;
  rest.deadline += config_.hold;
  open_ticket(std::move(rest)).quiet = true;
  admit();
}

void fetch_core::tick(time_point now) {
  expire(now);
  give_up_late_reads(now);
  renew(now);
  std::erase_if(stores_, [now](const auto& entry) {
    const store_state& s = entry.second;
    return s.reads == 0 && s.due.empty() && s.not_before <= now;
  });
  admit();
  pump(now);
}

size_t fetch_core::retire_blocks() {
  retired_jobs_ = next_;
  return shelf_.retire_all();
}

std::vector<fetch::effect> fetch_core::effects() {
  return std::exchange(effects_, {});
}

fetch_core::figures fetch_core::state() const {
  figures f = counts_;
  f.fetches = tickets_.size();
  f.waiting_fetches = waiting_.size();
  f.jobs = jobs_.size();
  f.sessions = sessions_.size();
  f.batches = batches_.size();
  f.wanted = wanted_.size();
  f.reading_bytes = reading_bytes_;
  f.admitted_bytes = admitted_bytes_;
  return f;
}

}  // namespace deepinfer
