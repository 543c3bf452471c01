// Leased prefixes and their bytes.
#include "actors/cache/kv_store_core.hpp"
#include "actors/messages/errors.hpp"
#include "storage/block/block_checksum.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

namespace {

/// Room that is being filled is not given out again by time: its reader has not heard of it yet.
constexpr std::chrono::hours while_filling{24 * 365};

constexpr size_t most_suspected = 64;

}  // namespace

kv_store_core::open_promise kv_store_core::open(wire::KvOpen::Reader msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvOpened>>();
  const auto refuse = [&promise](const failure& why) {
    promise.deliver(to_caf(why));
    return promise;
  };
  auto keys = read_keys(msg.getKeys(), state.setup.config.store.max_query_blocks);
  if (!keys) return refuse(keys.error());
  auto tokens = read_block_tokens(msg.getTokens(), keys->size());
  if (!tokens) return refuse(tokens.error());
  auto work = std::make_shared<open_work>();
  work->keys = *std::move(keys);
  work->tokens = *std::move(tokens);
  work->first_depth = msg.getFirstDepth();
  if (device_hangs()) return refuse(device_trouble());
  const bool files = !state.setup.backing.folder.empty();
  // Copies of a promise do not know of each other's answers.
  const auto asker = std::make_shared<open_promise>(promise);
  const auto too_late = [asker] {
    asker->deliver(to_caf({error_code::deadline_exceeded, "this store was too busy: ask again"}));
  };
  const bool taken =
      !state.draining &&
      submit({.run =
                  [store = state.setup.backing.store, work, files, clocks = clocks()] {
                    work->match = store->match({work->keys, work->tokens, {}, work->first_depth},
                                               storage::lease_wish::grant, clocks);
                    if (files && work->match && work->match->blocks > 0)
                      work->places =
                          store->places(std::span{work->keys}.first(work->match->blocks));
                  },
              .then = [this_ = *this, work, asker]() mutable { this_.open_done(work, *asker); },
              .late = too_late,
              .skipped = too_late,
              .within = asked_within(msg.getDeadlineMs())});
  if (!taken) return refuse({error_code::no_capacity, "too many reads wait at this store"});
  state.card.count("opens");
  return promise;
}

void kv_store_core::open_done(const std::shared_ptr<open_work>& work, open_promise& promise) {
  const kv_store_state& state = self_->state;
  if (!work->match) {
    if (promise.pending()) promise.deliver(to_caf(work->match.error()));
    return;
  }
  const storage::prefix_match& match = *work->match;
  if (!promise.pending()) return close_unused(match.lease);  // nobody hears of it
  const kv_backing& backing = state.setup.backing;
  wire::draft<wire::KvOpened> out;
  out->setBlocks(match.blocks);
  out->setLease(match.lease.id);
  out->setEpoch(match.epoch);
  out->setExpiryMs(static_cast<uint64_t>(match.expiry.count()));
  out->setTtlMs(static_cast<uint32_t>(state.setup.config.store.lease_ttl.count()));
  if (!work->places.empty()) {
    out->setFolder(backing.folder);
    out->initFolderMark().setHi(backing.mark.hi);
    out->getFolderMark().setLo(backing.mark.lo);
    auto list = out->initPlaces(static_cast<uint32_t>(work->places.size()));
    for (uint32_t i = 0; i < work->places.size(); ++i) {
      list[i].setSegment(work->places[i].location.segment);
      list[i].setOffset(work->places[i].location.offset);
      list[i].setLength(work->places[i].length);
      list[i].setChecksum(work->places[i].checksum);
    }
  }
  promise.deliver(out.freeze());
}

/// Room for as many leading keys as there is; false: for none.
bool kv_store_core::make_room(read_work& work) {
  for (size_t count = work.keys.size(); count > 0; count /= 2) {
    const uint64_t bytes = work.room_for(count);
    if (bytes == 0) {  // none of them is stored
      work.admitted = count;
      return true;
    }
    auto room = self_->state.staging->reserve(bytes, now(), while_filling);
    if (!room) continue;
    work.room = *room;
    work.admitted = count;
    return true;
  }
  return false;
}

caf::typed_response_promise<wire::msg<wire::KvReadDone>> kv_store_core::read(
    wire::KvRead::Reader msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvReadDone>>();
  auto keys = read_keys(msg.getKeys(), state.setup.config.store.max_batch);
  if (!keys) {
    promise.deliver(to_caf(keys.error()));
    return promise;
  }
  auto work = std::make_shared<read_work>();
  work->keys = *std::move(keys);
  work->lease = {msg.getLease(), msg.getEpoch()};
  work->digests = false;  // the reader has the checksum
  if (msg.getReaderVerifies()) work->check = storage::read_check::by_reader;
  work->places = store().places(work->keys);
  const uint64_t number = state.next_number++;
  const auto refuse = [&](std::string_view counter, wire::KvReadStatus status) {
    state.card.count(counter);
    promise.deliver(read_done(work->keys.size(), status));
    return promise;
  };
  if (device_hangs()) return refuse("reads_refused", wire::KvReadStatus::FAILED);
  if (state.draining || state.reads.size() >= state.setup.config.max_reads || !make_room(*work))
    return refuse("reads_without_room", wire::KvReadStatus::NO_ROOM);
  const bool taken =
      submit({.lane = work_lane::reads,
              .run = [store = state.setup.backing.store, work,
                      clocks = clocks()] { read_blocks(*store, *work, clocks); },
              .then = [this_ = *this, number]() mutable { this_.read_over(number); },
              .skipped = [this_ = *this, number]() mutable { this_.read_skipped(number); },
              .within = asked_within(msg.getDeadlineMs()),
              .number = number});
  if (!taken) {
    if (work->room.lease != 0) static_cast<void>(state.staging->leases().release(work->room.lease));
    return refuse("reads_without_room", wire::KvReadStatus::NO_ROOM);
  }
  state.card.count("reads");
  state.reads.emplace(number, open_read{work, promise, now(), work->room.lease});
  return promise;
}

/// Its time was over before a worker had it.
void kv_store_core::read_skipped(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.reads.find(number);
  if (found == state.reads.end()) return;
  open_read gone = std::move(found->second);
  state.reads.erase(found);
  state.card.count("reads_late");
  if (gone.staged != 0) static_cast<void>(state.staging->leases().release(gone.staged));
  if (gone.promise.pending())
    gone.promise.deliver(read_done(gone.work->keys.size(), wire::KvReadStatus::FAILED));
}

void kv_store_core::read_over(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.reads.find(number);
  if (found == state.reads.end()) return;
  const open_read done = std::move(found->second);
  state.reads.erase(found);
  const auto& statuses = done.work->statuses;
  const auto good = std::count(statuses.begin(), statuses.end(), wire::KvReadStatus::OK);
  state.card.count("blocks_read", good);
  if (state.setup.metrics && good > 0) {
    uint64_t bytes = 0;  // parts of blocks that did not come have none
    for (const staged_part& part : done.work->parts) bytes += part.length;
    state.setup.metrics->read.took(now() - done.begun, bytes);
  }
  auto promise = done.promise;
  if (good == 0 || !promise.pending()) {
    if (done.staged != 0) static_cast<void>(state.staging->leases().release(done.staged));
    done.work->room.lease = 0;
  } else {
    static_cast<void>(
        state.staging->leases().renew(done.staged, now(), state.setup.config.read_lease));
  }
  if (promise.pending())
    promise.deliver(read_done(*done.work, state.self_ref, state.setup.config.read_lease));
  changed();  // a bad block may have gone
  answer_drain();
}

void kv_store_core::release_read(uint64_t lease) {
  for (const auto& [number, read] : self_->state.reads)
    if (read.staged == lease) return;  // nobody was told of it yet
  static_cast<void>(self_->state.staging->leases().release(lease));
}

void kv_store_core::expire_reads() {
  const auto ended = self_->state.staging->leases().expire(now());
  if (!ended.empty())
    self_->state.card.count("read_leases_expired", static_cast<int64_t>(ended.size()));
}

void kv_store_core::renew(wire::KvRenew::Reader msg) {
  if (!store().renew({msg.getLease(), msg.getEpoch()}, clocks()))
    self_->state.card.count("leases_lost");
}

void kv_store_core::close(wire::KvClose::Reader msg) {
  const auto traffic = read_traffic(msg.getTraffic());
  if (!traffic) return self_->state.card.count("closes_malformed");
  const storage::lease_ref lease{msg.getLease(), msg.getEpoch()};
  const storage::lease_use use{msg.getUsed() ? storage::use_kind::used : storage::use_kind::unused,
                               *traffic};
  const bool taken =
      submit({.run = [store = self_->state.setup.backing.store, lease, use,
                      clocks = clocks()] { static_cast<void>(store->release(lease, use, clocks)); },
              .then = [this_ = *this]() mutable { this_.changed(); },
              // by then the lease has ended by its time
              .skipped = [self = self_] { self->state.card.count("closes_dropped"); },
              .within = self_->state.setup.config.store.lease_ttl});
  if (!taken) self_->state.card.count("closes_dropped");
}

void kv_store_core::close_unused(const storage::lease_ref& lease) {
  if (lease == storage::lease_ref{}) return;
  self_->state.card.count("opens_late");
  const bool taken =
      submit({.run = [store = self_->state.setup.backing.store, lease,
                      clocks = clocks()] { static_cast<void>(store->release(lease, {}, clocks)); },
              .then = [] {}});
  if (!taken) self_->state.card.count("closes_dropped");  // the lease ends by its time
}

/// The store reads the block itself: a reader's word alone removes nothing.
void kv_store_core::report_bad(wire::KvReportBad::Reader msg) {
  kv_store_state& state = self_->state;
  state.card.count("reports_of_bad_blocks");
  const auto key = read_block_key(msg.getKey());
  const auto place = store().places({&key, 1}).front();
  if (place.length == 0 || state.suspected.size() >= most_suspected ||
      !state.suspected.insert(key).second)
    return;
  const bool taken = submit(
      {.lane = work_lane::reads,
       .run =
           [store = state.setup.backing.store, key, length = place.length, clocks = clocks()] {
             std::vector<std::byte> bytes(length);
             const storage::read_item item{key, bytes};
             static_cast<void>(store->read({&item, 1}, {}, clocks));
           },
       .then =
           [this_ = *this, key]() mutable {
             this_.self_->state.suspected.erase(key);
             this_.changed();
           }});
  if (!taken) state.suspected.erase(key);
}

}  // namespace deepinfer
