#include "runtime/policy/write_lanes.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::policy {

using storage::block_key;

namespace {

bool contains(const std::vector<block_key>& all, const block_key& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// A verdict of one store on top of those of others: a block is kept when one of them has it.
void merge(write_end& end, write_end verdict) {
  if (!is_kept(end) || end == write_end::known) end = verdict;
}

}  // namespace

void write_lanes::set_store(const write_store& store, time_point now) {
  store_state& state = stores_[{store.site.id_hi, store.site.id_lo}];
  state.what = store;
  if (state.life == 0) state.life = next_life_++;
  state.left_out_until = now;
}

void write_lanes::remove_store(const block_key& id, time_point now) {
  abandon_queue(id, now);
  stores_.erase(id);
}

void write_lanes::add(write_job job, time_point now) {
  const block_key head = job.head;
  const uint64_t number = job.number;
  const size_t blocks = job.keys.size();
  const uint64_t scope = job.scope;
  jobs_.emplace(
      number,
      job_state{std::move(job), std::vector<write_end>(blocks, write_end::no_store), {}, {}});
  lane& l = lanes_[head];
  l.scope = scope;
  touch(head, l);
  l.waiting.push_back(number);
  start_next(head, now);
}

// Lanes in use are never forgotten; their number is bounded by the jobs that wait.
void write_lanes::touch(const block_key& head, lane& l) {
  if (l.use != 0) order_.erase(l.use);
  l.use = next_use_++;
  order_.emplace(l.use, head);
  make_room(head);
}

void write_lanes::forget_keys(lane& l) {
  keys_ -= l.keys();
  l.known.clear();
  l.missing.clear();
}

// The longest unused lanes go, those that are at work and the newest excepted.
void write_lanes::make_room(const block_key& head) {
  const auto full = [this] { return lanes_.size() > limits_.lanes || keys_ > limits_.keys; };
  for (auto it = order_.begin(); full() && it != order_.end();) {
    lane& old = lanes_.at(it->second);
    if (it->second == head || old.active || !old.waiting.empty()) {
      ++it;
      continue;
    }
    forget_keys(old);
    lanes_.erase(it->second);
    it = order_.erase(it);
  }
}

void write_lanes::start_next(const block_key& head, time_point now) {
  lane& l = lanes_.at(head);
  while (!l.active && !l.waiting.empty()) {
    const auto job = jobs_.find(l.waiting.front());
    l.waiting.pop_front();
    if (start(job->second, l, now))
      l.active = true;
    else
      finish(job, now);
  }
}

// False: over before it began.
bool write_lanes::start(job_state& job, lane& l, time_point now) {
  if (l.missing.contains(job.what.parent)) {
    std::fill(job.ends.begin(), job.ends.end(), write_end::orphan);
    return false;
  }
  const auto to = targets(job.what, l, now);
  if (to.empty()) return false;
  // Only what its home was told counts as known.
  const bool at_home = contains(l.homes, to.front());
  for (const block_key& key : job.what.keys) {
    const auto found = l.known.find(key);
    if (!at_home || found == l.known.end() || now - found->second >= limits_.known_for) break;
    job.ends[job.skipped++] = write_end::known;
  }
  if (job.skipped == job.what.keys.size()) return false;
  for (const block_key& store : to) enqueue(job, store, attempt::first);
  return true;
}

std::vector<block_key> write_lanes::ranked(const write_job& job, time_point now) const {
  std::vector<store_site> sites;
  for (const auto& [id, store] : stores_) {
    // A store that cuts chains elsewhere would miss the parent of every head.
    const uint32_t groups = store.what.group_blocks;
    const bool fits = groups != 0 && job.group_blocks % groups == 0;
    if (fits && now >= store.left_out_until) sites.push_back(store.what.site);
  }
  std::vector<block_key> best;
  for (const uint32_t i : owners(job.head, sites, static_cast<uint32_t>(sites.size())))
    best.push_back({sites[i].id_hi, sites[i].id_lo});
  return best;
}

std::vector<block_key> write_lanes::targets(const write_job& job,
                                            const lane& l,
                                            time_point now) const {
  std::vector<block_key> best = ranked(job, now);
  std::vector<block_key> homes;
  for (const block_key& home : l.homes)
    if (contains(best, home)) homes.push_back(home);
  if (!homes.empty() || best.empty()) return homes;
  const size_t replicas = std::max(1u, stores_.at(best.front()).what.replicas);
  best.resize(std::min(best.size(), replicas));
  return best;
}

void write_lanes::enqueue(job_state& job, const block_key& store, attempt which) {
  const uint64_t number = next_put_++;
  puts_.emplace(number, put_state{{number, job.what.number, store, job.skipped}, which, 0});
  stores_.at(store).waiting.push_back(number);
  job.tried.push_back(store);
  ++job.open;
}

std::optional<write_put> write_lanes::next() {
  const auto serve = [this](auto first, auto last) -> std::optional<write_put> {
    for (auto it = first; it != last; ++it) {
      store_state& store = it->second;
      if (store.waiting.empty() || store.sent >= limits_.puts_per_store) continue;
      put_state& put = puts_.at(store.waiting.front());
      store.waiting.pop_front();
      put.sent = store.life;
      ++store.sent;
      ++sent_;
      cursor_ = it->first;
      return put.what;
    }
    return std::nullopt;
  };
  const auto middle = stores_.upper_bound(cursor_);
  if (auto put = serve(middle, stores_.end())) return put;
  return serve(stores_.begin(), middle);
}

void write_lanes::put_back(const write_put& put) {
  const auto found = puts_.find(put.number);
  if (found == puts_.end() || found->second.sent == 0) return;
  found->second.sent = 0;
  --sent_;
  store_state& store = stores_.at(put.store);
  --store.sent;
  store.waiting.push_front(put.number);
}

std::optional<write_lanes::put_state> write_lanes::take(uint64_t put) {
  const auto found = puts_.find(put);
  if (found == puts_.end()) return std::nullopt;
  const put_state state = found->second;
  puts_.erase(found);
  --jobs_.at(state.what.job).open;
  if (state.sent == 0) return state;
  --sent_;
  const auto store = stores_.find(state.what.store);
  if (store != stores_.end() && store->second.life == state.sent) --store->second.sent;
  return state;
}

void write_lanes::answered(uint64_t put, std::span<const write_end> verdicts, time_point now) {
  const auto state = take(put);
  if (!state) return;
  job_state& job = jobs_.at(state->what.job);
  std::optional<write_end> bad;
  for (size_t i = state->what.first; i < job.ends.size(); ++i) {
    const size_t at = i - state->what.first;
    const write_end verdict = at < verdicts.size() ? verdicts[at] : write_end::failed;
    merge(job.ends[i], verdict);
    if (!bad && !is_kept(verdict)) bad = verdict;
  }
  const bool more = state->which == attempt::first && !job.purged;
  if (!bad) {
    job.good.push_back(state->what.store);
  } else if (more && *bad == write_end::no_parent && state->what.first > 0) {
    // What was known to be there is not any more; it is still here, so all of it goes again.
    lane& l = lanes_.at(job.what.head);
    keys_ -= l.known.size();
    l.known.clear();
    job.skipped = 0;
    if (stores_.contains(state->what.store)) enqueue(job, state->what.store, attempt::second);
  } else if (more && (*bad == write_end::no_parent || *bad == write_end::failed)) {
    try_elsewhere(*state, now);
  }
  over(state->what.job, now);
}

void write_lanes::unanswered(uint64_t put, time_point now) {
  const auto state = take(put);
  if (!state) return;
  job_state& job = jobs_.at(state->what.job);
  for (size_t i = state->what.first; i < job.ends.size(); ++i)
    if (!is_kept(job.ends[i])) job.ends[i] = write_end::unreachable;
  if (const auto store = stores_.find(state->what.store); store != stores_.end()) {
    store->second.left_out_until = now + limits_.left_out;
    abandon_queue(store->first, now);
  }
  if (state->which == attempt::first) try_elsewhere(*state, now);
  over(state->what.job, now);
}

// What waits for a store that is gone, or that does not answer, would be late there.
void write_lanes::abandon_queue(const block_key& id, time_point now) {
  const auto store = stores_.find(id);
  if (store == stores_.end()) return;
  store->second.left_out_until = std::max(store->second.left_out_until, now + limits_.left_out);
  for (const uint64_t put : std::exchange(store->second.waiting, {})) {
    const auto state = take(put);
    if (!state) continue;
    try_elsewhere(*state, now);
    over(state->what.job, now);
  }
}

bool write_lanes::try_elsewhere(const put_state& put, time_point now) {
  job_state& job = jobs_.at(put.what.job);
  if (job.purged) return false;
  for (const block_key& store : ranked(job.what, now)) {
    if (contains(job.tried, store)) continue;
    // Nobody but the home was told the ones in front.
    job.skipped = 0;
    enqueue(job, store, attempt::second);
    return true;
  }
  return false;
}

void write_lanes::over(uint64_t job, time_point now) {
  const auto found = jobs_.find(job);
  if (found->second.open == 0) finish(found, now);
}

void write_lanes::finish(std::map<uint64_t, job_state>::iterator job, time_point now) {
  const block_key head = job->second.what.head;
  lane& l = lanes_.at(head);
  remember(job->second, l, now);
  ended_.push_back({job->first, std::move(job->second.ends)});
  jobs_.erase(job);
  if (std::exchange(l.active, false)) start_next(head, now);
}

// What is stored of a purged one is about to go.
void write_lanes::remember(const job_state& job, lane& l, time_point now) {
  const auto is_home = [&l](const block_key& store) { return contains(l.homes, store); };
  keys_ -= l.keys();
  if (!std::all_of(job.good.begin(), job.good.end(), is_home)) l.known.clear();
  if (!job.good.empty()) l.homes = job.good;
  for (size_t i = 0; i < job.ends.size(); ++i) {
    const block_key& key = job.what.keys[i];
    if (!is_kept(job.ends[i])) {
      l.known.erase(key);
      l.missing.insert(key);
    } else {
      l.missing.erase(key);
      if (job.ends[i] != write_end::known && !job.purged) l.known[key] = now;
    }
  }
  keys_ += l.keys();
  if (l.keys() > limits_.keys_per_lane) forget_keys(l);
  make_room(job.what.head);
}

void write_lanes::unqueue_puts(uint64_t job) {
  for (auto& [id, store] : stores_) {
    for (auto it = store.waiting.begin(); it != store.waiting.end();) {
      if (puts_.at(*it).what.job != job) {
        ++it;
        continue;
      }
      static_cast<void>(take(*it));
      it = store.waiting.erase(it);
    }
  }
}

size_t write_lanes::purge(uint64_t scope, time_point now) {
  size_t ended = 0;
  for (auto& [head, l] : lanes_) {
    if (l.scope != scope) continue;
    keys_ -= l.known.size();
    l.known.clear();
    // Those that wait for their turn have sent nothing.
    for (const uint64_t number : std::exchange(l.waiting, {})) {
      const auto job = jobs_.find(number);
      std::fill(job->second.ends.begin(), job->second.ends.end(), write_end::purged);
      remember(job->second, l, now);
      ended += job->second.ends.size();
      ended_.push_back({number, std::move(job->second.ends)});
      jobs_.erase(job);
    }
  }
  // What is left of the scope has its lane's turn: it goes on until its stores have answered.
  std::vector<uint64_t> unsent;
  for (auto& [number, job] : jobs_) {
    if (job.what.scope != scope) continue;
    job.purged = true;
    unqueue_puts(number);
    for (write_end& end : job.ends)
      if (!is_kept(end) || end == write_end::known) end = write_end::purged;
    if (job.open == 0) unsent.push_back(number);
  }
  for (const uint64_t number : unsent) {
    const auto job = jobs_.find(number);
    ended += job->second.ends.size();
    finish(job, now);
  }
  return ended;
}

bool write_lanes::purging(uint64_t scope) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [scope](const auto& item) {
    return item.second.purged && item.second.what.scope == scope;
  });
}

std::vector<ended_job> write_lanes::ended() {
  return std::exchange(ended_, {});
}

}  // namespace deepinfer::policy
