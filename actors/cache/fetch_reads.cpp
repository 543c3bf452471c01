#include "actors/cache/fetch_core.hpp"
#include "actors/cache/fetch_runs.hpp"
#include "proto/types/check.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using storage::span_pool;

namespace {

constexpr std::chrono::milliseconds again_after{20};  // what found no room
constexpr uint32_t least_batch = 8;  // blocks: what less would cost more than it saves

std::chrono::milliseconds time_left(std::chrono::nanoseconds left, std::chrono::milliseconds most) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left);
  return std::clamp(whole, std::chrono::milliseconds{1}, most);
}

}  // namespace

void fetch_core::pump(time_point now) {
  pump_opens(now);
  while (pump_read(now)) {
  }
}

void fetch_core::pump_opens(time_point now) {
  while (opening_ < config_.opens && !to_open_.empty()) {
    const uint64_t number = to_open_.begin()->second;
    to_open_.erase(to_open_.begin());
    job& j = jobs_.at(number);
    j.opening = opening_step::no;
    if (j.items.empty() && !j.only_tell) {
      end_idle_job(number);
      continue;
    }
    j.opening = opening_step::asked;
    ++opening_;
    const uint32_t store = j.to_open.back();
    j.to_open.pop_back();
    const size_t blocks = j.only_tell ? j.keys.size() : j.items.rbegin()->first + 1;
    const size_t tokens = blocks * (j.tokens.size() / j.keys.size());
    fetch::open_group out{number, store, j.stores[store], {}, {}, j.first_depth, {}};
    out.keys.assign(j.keys.begin(), j.keys.begin() + static_cast<std::ptrdiff_t>(blocks));
    out.tokens.assign(j.tokens.begin(), j.tokens.begin() + static_cast<std::ptrdiff_t>(tokens));
    out.timeout = time_left(j.latest - now, config_.open_timeout);
    effects_.emplace_back(std::move(out));
  }
}

/// A session is among those due at its store exactly while it has blocks to be read.
void fetch_core::show_due(uint64_t number) {
  const session& s = sessions_.at(number);
  const job& j = jobs_.at(s.job);
  auto& due = stores_[j.stores[s.store_index]].due;
  if (s.due.empty())
    due.erase({j.deadline, number});
  else
    due.emplace(j.deadline, number);
}

/// Starts the most urgent read that may start now.
bool fetch_core::pump_read(time_point now) {
  const std::pair<time_point, uint64_t>* first = nullptr;
  for (const auto& [ref, store] : stores_) {
    if (store.due.empty() || store.reads >= config_.reads_per_store || store.not_before > now)
      continue;
    if (first == nullptr || *store.due.begin() < *first) first = &*store.due.begin();
  }
  if (first == nullptr) return false;
  const uint64_t number = first->second;
  const session& s = sessions_.at(number);
  const uint64_t next = length_of(s, *s.due.begin());
  if (reading_bytes_ > 0 && reading_bytes_ + next > config_.reading_bytes) return false;
  start_batch(number, now);
  return true;
}

uint64_t fetch_core::length_of(const session& s, uint32_t index) const {
  return index < s.said.places.size() ? s.said.places[index].length : block_hint_;
}

/// While little is under way little is asked for, so that something comes soon; much, when there is
/// something else to wait for.
uint32_t fetch_core::batch_limit(uint32_t reads_under_way) const {
  const uint32_t idle = config_.reads_per_store - 1 - reads_under_way;
  return std::max(std::min(least_batch, config_.batch_blocks),
                  config_.batch_blocks >> std::min(idle, 31u));
}

void fetch_core::start_batch(uint64_t session_number, time_point now) {
  session& s = sessions_.at(session_number);
  job& j = jobs_.at(s.job);
  const uint64_t number = next_++;
  batch& b = batches_[number];
  b.session = session_number;
  b.job = s.job;
  b.store = j.stores[s.store_index];
  b.started = now;
  b.files = s.files;
  fetch::read_blocks out{number, b.store, s.said.lease, {}, {}, {}, {}, {}};
  const uint32_t most = batch_limit(stores_[b.store].reads);
  while (!s.due.empty() && b.keys.size() < most) {
    const uint32_t index = *s.due.begin();
    const uint64_t length = length_of(s, index);
    if (!b.keys.empty() && reading_bytes_ + b.estimate + length > config_.reading_bytes) break;
    s.due.erase(s.due.begin());
    b.estimate += length;
    b.indexes.push_back(index);
    b.keys.push_back(j.keys[index]);
    j.items.at(index).at = step::reading;
    if (b.files) out.places.push_back(s.said.places[index]);
  }
  show_due(session_number);
  b.offsets.resize(b.keys.size());
  b.spans.resize(b.keys.size());
  ++stores_[b.store].reads;
  reading_bytes_ += b.estimate;
  out.keys = b.keys;
  if (b.files) {
    out.folder = s.said.folder;
    out.folder_mark = s.said.folder_mark;
  }
  out.timeout = time_left(j.latest - now, config_.read_timeout);
  effects_.emplace_back(std::move(out));
}

std::vector<fetch::run> fetch_core::make_room(uint64_t number,
                                              const std::vector<fetch::piece>& pieces) {
  const auto found = batches_.find(number);
  if (found == batches_.end() || pieces.size() != found->second.keys.size()) return {};
  batch& b = found->second;
  std::vector<fetch::run> todo = fetch::runs_of(pieces);
  std::vector<fetch::run> placed;
  for (size_t at = 0; at < todo.size(); ++at) {
    fetch::run r = todo[at];
    const auto room = shelf_.take(r.bytes);
    if (!room && r.count > 1) {  // there may be room in smaller pieces
      for (uint32_t i = r.first; i < r.first + r.count; ++i)
        todo.push_back({i, 1, pieces[i].offset, 0, pieces[i].length});
      continue;
    }
    if (!room) {
      for (const fetch::run& back : placed) shelf_.give(back.into, back.bytes);
      std::fill(b.offsets.begin(), b.offsets.end(), 0);
      ++counts_.starved;
      return {};
    }
    r.into = *room;
    placed.push_back(r);
    for (uint32_t i = r.first; i < r.first + r.count; ++i) {
      const bool last = i + 1 == r.first + r.count;
      b.offsets[i] = r.into + (pieces[i].offset - r.from);
      b.spans[i] =
          last ? span_pool::rounded(pieces[i].length) : pieces[i + 1].offset - pieces[i].offset;
    }
  }
  return placed;
}

uint64_t fetch_core::offset_of(uint64_t number, uint32_t block) const {
  return batches_.at(number).offsets.at(block);
}

void fetch_core::on_read(uint64_t number,
                         const std::vector<fetch::block_done>& done,
                         time_point now) {
  const auto found = batches_.find(number);
  if (found == batches_.end()) return;
  const auto ended = batches_.extract(found);
  batch& b = ended.mapped();
  --stores_[b.store].reads;
  reading_bytes_ -= b.estimate;
  for (uint32_t position = 0; position < b.keys.size(); ++position)
    take_outcome(b, position, position < done.size() ? done[position] : fetch::block_done{}, now);
  if (jobs_.contains(b.job)) {
    assign(b.job);
    end_idle_job(b.job);
  }
  admit();
  pump(now);
}

void fetch_core::take_outcome(batch& b,
                              uint32_t position,
                              const fetch::block_done& done,
                              time_point now) {
  const storage::block_key& key = b.keys[position];
  const uint64_t offset = b.offsets[position];
  if (done.what != fetch::outcome::ok) {
    if (offset != 0) shelf_.give(offset, b.spans[position]);
    return block_failed(b, position, done.what, now);
  }
  DEEPINFER_CHECK(offset != 0 && span_pool::rounded(done.length) <= b.spans[position]);
  learn_length(done.length);
  ++counts_.read_blocks;
  counts_.read_bytes += done.length;
  if (b.files) ++counts_.file_blocks;
  shelf_.put(key, {offset, done.length, done.checksum}, b.spans[position]);
  arrived(key);
  if (b.job < retired_jobs_) shelf_.retire(key);
}

/// Where the block is looked for next. Bytes that a file does not have are asked for from the
/// store: it may have moved them since it said where they are.
void fetch_core::block_failed(batch& b, uint32_t position, fetch::outcome what, time_point now) {
  using fetch::outcome;
  if (what != outcome::no_room) ++counts_.failed_reads;
  if (what == outcome::bad) {  // whoever waits for it: the store has not looked
    ++counts_.bad_blocks;
    effects_.emplace_back(fetch::report_bad{b.store, b.keys[position]});
  }
  const auto j = jobs_.find(b.job);
  if (j == jobs_.end()) return;
  const auto found = j->second.items.find(b.indexes[position]);
  const bool ours = found != j->second.items.end() && found->second.at == step::reading &&
                    found->second.session == b.session;
  if (!ours) return;
  item& one = found->second;
  session& s = sessions_.at(b.session);
  one.at = step::unassigned;
  if (wanted_.at(b.keys[position]).waiters.empty()) return drop_item(b.keys[position]);
  const bool ask_the_store = b.files && what != outcome::gone && what != outcome::no_room;
  if (ask_the_store) s.files = false;
  if (ask_the_store || what == outcome::no_room) {
    if (what == outcome::no_room) stores_[b.store].not_before = now + again_after;
    one.at = s.over ? step::unassigned : step::assigned;
    if (!s.over) s.due.insert(b.indexes[position]);
    return show_due(b.session);
  }
  const uint32_t bit = 1u << s.store_index;
  one.why = what == outcome::bad ? failure{error_code::corrupt, "its bytes are damaged"}
            : what == outcome::absent
                ? failure{error_code::not_found, "no store has it any more"}
                : failure{error_code::unreachable, "its store does not give it"};
  const bool again = what == outcome::stale && (j->second.reopened & bit) == 0;
  if (again) {
    j->second.reopened |= bit;
    j->second.to_open.push_back(s.store_index);
  }
  // A lease that ended is made anew once; that store was not at fault.
  if (what != outcome::stale || (!again && !s.over)) one.tried |= bit;
  if (what == outcome::stale || what == outcome::gone) close_session(b.session, what);
}

/// Nothing more is read over a lease that ended, or from a store that does not answer.
void fetch_core::close_session(uint64_t number, fetch::outcome why) {
  session& s = sessions_.at(number);
  if (s.over) return;
  s.over = true;
  job& j = jobs_.at(s.job);
  for (const uint32_t index : s.due) {
    item& one = j.items.at(index);
    one.at = step::unassigned;
    if (why == fetch::outcome::gone) {
      one.tried |= 1u << s.store_index;
      one.why = {error_code::unreachable, "its store does not answer"};
    }
  }
  s.due.clear();
  show_due(number);
}

}  // namespace deepinfer
