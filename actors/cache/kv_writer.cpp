#include "actors/cache/kv_writer.hpp"

#include "actors/cache/kv_wire.hpp"
#include "actors/messages/errors.hpp"
#include "actors/serve/sequence_chain.hpp"
#include "actors/serve/staged_wire.hpp"
#include "proto/types/check.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/block/chain_hasher.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace deepinfer {
namespace {

using self_ptr = kv_writer_actor::stateful_pointer<kv_writer_state>;
using policy::write_end;

constexpr std::chrono::milliseconds tick_interval{500};
constexpr std::chrono::seconds ask_again{5};
/// A store answers by the deadline in the message; that answer's way, and no longer.
constexpr std::chrono::seconds answer_slack{1};
constexpr size_t max_purges = 64;

constexpr std::array<const char*, policy::write_ends> end_names{"stored",
                                                                "refreshed",
                                                                "diverged",
                                                                "known",
                                                                "dropped_no_parent",
                                                                "dropped_quota",
                                                                "dropped_full",
                                                                "dropped_busy",
                                                                "dropped_stale",
                                                                "dropped_corrupt",
                                                                "dropped_failed",
                                                                "dropped_unreachable",
                                                                "dropped_no_store",
                                                                "dropped_orphan",
                                                                "dropped_purged"};

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

write_end end_of(wire::KvPutOutcome outcome) {
  const auto number = static_cast<size_t>(outcome);
  constexpr std::array ends{write_end::stored,    write_end::refreshed,  write_end::diverged,
                            write_end::no_parent, write_end::over_quota, write_end::full,
                            write_end::busy,      write_end::stale,      write_end::corrupt,
                            write_end::failed};
  return number < ends.size() ? ends[number] : write_end::failed;
}

std::vector<write_end> ends_of(const wire::msg<wire::KvPutDone>& done) {
  std::vector<write_end> ends;
  for (const auto outcome : done.get().getOutcomes()) ends.push_back(end_of(outcome));
  return ends;
}

wire::msg<wire::KvPut> put_of(const kv_writer_state& state,
                              const persist_blocks& job,
                              uint32_t first,
                              const staged_sequence& staged) {
  wire::draft<wire::KvPut> out;
  out->setWriter(state.setup.writer.id);
  out->setWriterEpoch(state.setup.writer.epoch);
  out->setScope(job.line.scope);
  out->setTraffic(static_cast<uint8_t>(job.line.traffic));
  out->setDeadlineMs(static_cast<uint32_t>(state.setup.config.put_deadline.count()));
  auto blocks = out->initBlocks(static_cast<uint32_t>(staged.parts.size()));
  for (uint32_t i = 0; i < staged.parts.size(); ++i) {
    const uint32_t at = first + i;
    write_block_key(blocks[i].initKey(), job.keys[at]);
    write_block_key(blocks[i].initParent(), at == 0 ? job.parent : job.keys[at - 1]);
    blocks[i].setDepth(job.first_block + at);
    const std::span tokens{job.tokens.data() + size_t{at} * model::cache_block_tokens,
                           model::cache_block_tokens};
    const auto content = storage::content_of(tokens, job.first_block + at, {});
    blocks[i].setContent({reinterpret_cast<const kj::byte*>(content.data()), content.size()});
    write_bytes(blocks[i].initBytes(), {staged.region, staged.generation}, staged.parts[i]);
    blocks[i].setChecksum(storage::block_checksum(job.keys[at], (*job.blocks)[at].bytes));
  }
  write_lease(out->initLease(), staged.lease, state.self_ref, state.setup.config.put_deadline);
  return out.freeze();
}

void answer_purges(kv_writer_state& state) {
  for (auto it = state.purges.begin(); it != state.purges.end();) {
    if (state.lanes.purging(it->scope)) {
      ++it;
      continue;
    }
    wire::draft<wire::KvPurged> out;
    out->setBlocks(it->blocks);
    it->promise.deliver(out.freeze());
    it = state.purges.erase(it);
  }
}

void collect(self_ptr self) {
  kv_writer_state& state = self->state;
  for (const policy::ended_job& ended : state.lanes.ended()) {
    const auto job = state.jobs.find(ended.number);
    for (size_t i = 0; i < ended.ends.size(); ++i) {
      state.card.count(end_names[static_cast<size_t>(ended.ends[i])]);
      if (ended.ends[i] == write_end::stored)
        state.stored_bytes += (*job->second.blocks)[i].bytes.size();
      else if (!policy::is_kept(ended.ends[i]))
        state.card.count("dropped");
    }
    state.setup.budget->give(bytes_of(job->second));
    state.jobs.erase(job);
  }
  answer_purges(state);
  if (!state.lanes.idle()) return;
  for (auto& promise : std::exchange(state.drains, {})) promise.deliver(wire::msg<wire::Ack>{});
}

void pump(self_ptr self);

void on_answer(self_ptr self,
               const policy::write_put& put,
               uint64_t lease,
               const wire::msg<wire::KvPutDone>& done) {
  static_cast<void>(self->state.staging->leases().release(lease));
  self->state.lanes.answered(put.number, ends_of(done), now_of(self));
  pump(self);
}

// Without an answer the store may still be reading: the bytes stay until the lease ends by itself.
void on_no_answer(self_ptr self, const policy::write_put& put, uint64_t lease, const failure& why) {
  kv_writer_state& state = self->state;
  const bool refused = why.code != error_code::unreachable &&
                       why.code != error_code::deadline_exceeded &&
                       why.code != error_code::cancelled && why.code != error_code::not_found;
  state.card.count(refused ? "puts_refused" : "puts_unanswered");
  if (refused) {
    static_cast<void>(state.staging->leases().release(lease));
    state.lanes.answered(put.number, {}, now_of(self));
  } else {
    state.lanes.unanswered(put.number, now_of(self));
  }
  pump(self);
}

// False: no room to stage it now.
bool send_put(self_ptr self, const policy::write_put& put) {
  kv_writer_state& state = self->state;
  const auto store = state.directory.find(*state.setup.hub, put.store);
  if (!store) {  // no link to it now
    state.card.count("puts_unanswered");
    state.lanes.unanswered(put.number, now_of(self));
    return true;
  }
  const persist_blocks& job = state.jobs.at(put.job);
  const auto deadline = state.setup.config.put_deadline;
  const std::span parts = std::span{*job.blocks}.subspan(put.first);
  const auto staged = state.staging->stage(parts, now_of(self), deadline + 2 * answer_slack);
  if (!staged && staged.error().code == error_code::no_capacity) return false;
  if (!staged) {  // it can never fit
    state.lanes.answered(put.number, {}, now_of(self));
    return true;
  }
  const uint64_t lease = staged->lease;
  self->request(*store, deadline + answer_slack, put_of(state, job, put.first, *staged))
      .then(
          [self, put, lease](const wire::msg<wire::KvPutDone>& done) {
            on_answer(self, put, lease, done);
          },
          [self, put, lease](const caf::error& e) { on_no_answer(self, put, lease, from_caf(e)); });
  state.card.sent(*store);
  state.card.count("puts");
  return true;
}

void pump(self_ptr self) {
  kv_writer_state& state = self->state;
  while (const auto put = state.lanes.next()) {
    if (send_put(self, *put)) continue;
    state.lanes.put_back(*put);
    break;
  }
  collect(self);
}

void on_blocks(self_ptr self, const persist_blocks& blocks) {
  kv_writer_state& state = self->state;
  const size_t count = blocks.keys.size();
  DEEPINFER_CHECK(count > 0 && blocks.blocks->size() == count);
  DEEPINFER_CHECK(blocks.tokens.size() == count * model::cache_block_tokens);
  const uint64_t number = state.next_job++;
  state.jobs.emplace(number, blocks);
  state.card.count("blocks", static_cast<int64_t>(count));
  state.lanes.add({number, blocks.head, blocks.parent, blocks.line.group_blocks, blocks.keys,
                   blocks.line.scope},
                  now_of(self));
  pump(self);
}

// Answered when no store can come to have what was here: puts that are sent end by their deadlines.
caf::typed_response_promise<wire::msg<wire::KvPurged>> on_purge(self_ptr self, uint64_t scope) {
  kv_writer_state& state = self->state;
  auto promise = self->make_response_promise<wire::msg<wire::KvPurged>>();
  if (state.purges.size() >= max_purges) {
    promise.deliver(to_caf({error_code::no_capacity, "too many purges at once: purge again"}));
    return promise;
  }
  state.card.count("purges");
  state.purges.push_back({scope, state.lanes.purge(scope, now_of(self)), promise});
  pump(self);
  return promise;
}

void use_store(self_ptr self,
               const store_directory::service_key& key,
               const wire::KvInfo::Reader& info) {
  kv_writer_state& state = self->state;
  const auto named = state.directory.name(key, info);
  if (named == store_directory::named::older_life) state.card.count("older_lives");
  if (named != store_directory::named::taken) return;
  const policy::store_site site{info.getStore().getHi(), info.getStore().getLo(),
                                std::max<uint64_t>(1, info.getCapacityBytes())};
  state.lanes.set_store({site, info.getGroupBlocks(), std::clamp(info.getReplicas(), 1u, 3u)},
                        now_of(self));
  state.setup.budget->open(state.lanes.stores());
  pump(self);
}

// Every store that is named and has not said who it is, again after a while.
void ask_stores(self_ptr self) {
  kv_writer_state& state = self->state;
  for (const auto& [key, store] :
       state.directory.to_ask(*state.setup.hub, now_of(self), ask_again)) {
    self->request(store, ask_again, wire::draft<wire::KvInfoQuery>{}.freeze())
        .then([self, key = key](
                  const wire::msg<wire::KvInfo>& info) { use_store(self, key, info.get()); },
              [self](const caf::error&) { self->state.card.count("stores_silent"); });
    state.card.sent(store);
  }
}

void on_members(self_ptr self, const wire::Members::Reader& members) {
  kv_writer_state& state = self->state;
  for (const storage::block_key& id : state.directory.take(members))
    state.lanes.remove_store(id, now_of(self));
  state.setup.budget->open(state.lanes.stores());
  ask_stores(self);
  pump(self);
}

void on_tick(self_ptr self) {
  kv_writer_state& state = self->state;
  static_cast<void>(state.staging->leases().expire(now_of(self)));
  ask_stores(self);
  pump(self);
  const auto passed = std::chrono::duration<double>(now_of(self) - state.told_at).count();
  const uint64_t more = state.stored_bytes - std::exchange(state.told_bytes, state.stored_bytes);
  if (passed > 0)
    state.card.set("bytes_per_s", static_cast<int64_t>(static_cast<double>(more) / passed));
  state.told_at = now_of(self);
  self->delayed_send(self, tick_interval, cache_tick{});
}

wire::msg<wire::ActorInfo> inspect(self_ptr self) {
  kv_writer_state& state = self->state;
  state.card.set("queue_bytes", static_cast<int64_t>(state.setup.budget->used()));
  state.card.set("in_flight", static_cast<int64_t>(state.lanes.puts_in_flight()));
  state.card.set("jobs", static_cast<int64_t>(state.jobs.size()));
  state.card.set("stores", static_cast<int64_t>(state.lanes.stores()));
  state.card.set("lanes", static_cast<int64_t>(state.lanes.lanes()));
  state.card.set("staged_bytes", static_cast<int64_t>(state.staging->leases().used_bytes()));
  state.card.set("stored_bytes", static_cast<int64_t>(state.stored_bytes));
  return state.card.info(*self, std::to_string(state.lanes.stores()) + " stores, " +
                                    std::to_string(state.jobs.size()) + " jobs, " +
                                    std::to_string(state.setup.budget->used()) + " bytes wait");
}

}  // namespace

kv_writer_actor::behavior_type kv_writer(self_ptr self, const kv_writer_setup& setup) {
  kv_writer_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"kv_writer", *setup.hub};
  policy::write_limits limits;
  limits.puts_per_store = setup.config.puts_per_store;
  limits.known_for = setup.config.known_for;
  limits.left_out = setup.config.left_out;
  state.lanes = policy::write_lanes{limits};
  auto staging = staging_area::make(*setup.transport, setup.config.staging_bytes);
  const auto ref = setup.hub->export_actor(lease_owner_actor{self});
  if (!staging || !ref) {
    self->quit(to_caf(staging ? ref.error() : staging.error()));
    return kv_writer_actor::behavior_type::make_empty_behavior();
  }
  state.staging = *std::move(staging);
  state.self_ref = *ref;
  state.told_at = now_of(self);
  self->delayed_send(self, tick_interval, cache_tick{});
  return {
      [self](const persist_blocks& blocks) { on_blocks(self, blocks); },
      [self](const drain_writer&) {
        auto promise = self->make_response_promise<wire::msg<wire::Ack>>();
        self->state.drains.push_back(promise);
        collect(self);
        return promise;
      },
      [self](const wire::msg<wire::Members>& msg) { on_members(self, msg.get()); },
      // The answer to a put follows, and says the same.
      [self](const wire::msg<wire::LeaseRelease>&) {},
      [self](const wire::msg<wire::KvPurge>& msg) { return on_purge(self, msg.get().getScope()); },
      [self](const cache_tick&) { on_tick(self); },
      [self](const wire::msg<wire::Inspect>&) { return inspect(self); },
  };
}

}  // namespace deepinfer
