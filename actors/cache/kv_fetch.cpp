#include "actors/cache/kv_fetch.hpp"

#include "actors/cache/fetch_pull.hpp"
#include "actors/cache/store_directory.hpp"
#include "actors/messages/errors.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace deepinfer {
namespace {

using fetch::ticket_id;
using self_ptr = fetch_pull::self_ptr;

constexpr std::chrono::milliseconds tick_every{20};  // while there is anything to wait for
constexpr std::chrono::seconds close_files_every{30};

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

bool busy(const kv_fetch_state& state) {
  const auto figures = state.core->state();
  return figures.fetches > 0 || figures.jobs > 0 || figures.batches > 0;
}

void keep_ticking(self_ptr self) {
  // files that were read stay open until a tick closes them, also when nothing follows
  const bool has_files = self->state.folders_closed < self->state.files_used;
  if (self->state.ticking || (!busy(self->state) && !has_files)) return;
  self->state.ticking = true;
  self->delayed_send(self, tick_every, fetch_tick{});
}

result<fetch::order> read_order(wire::KvFetch::Reader msg, std::chrono::nanoseconds now) {
  const auto keys = msg.getKeys();
  const auto tokens = msg.getTokens();
  if (keys.size() % storage::key_bytes != 0 || tokens.size() % sizeof(int32_t) != 0)
    return failure{error_code::invalid_argument, "keys are 16 bytes each, tokens 4"};
  fetch::order order;
  order.ticket = {msg.getTicket().getHi(), msg.getTicket().getLo()};
  order.deadline = now + std::chrono::milliseconds(msg.getDeadlineMs());
  for (size_t at = 0; at < keys.size(); at += storage::key_bytes)
    order.keys.push_back(
        storage::key_from_bytes(reinterpret_cast<const std::byte*>(keys.begin()) + at));
  order.tokens.resize(tokens.size() / sizeof(int32_t));
  if (!order.tokens.empty()) std::memcpy(order.tokens.data(), tokens.begin(), tokens.size());
  order.cut = {msg.getGroupBlocks(), msg.getSharedBlocks()};
  for (const auto group : msg.getGroups()) {
    auto& stores = order.groups.emplace_back();
    for (const auto store : group.getStores()) stores.push_back(read_ref(store));
  }
  const auto traffic = static_cast<storage::traffic_class>(msg.getTraffic());
  order.traffic = traffic == storage::traffic_class::agent ? traffic : storage::traffic_class::chat;
  return order;
}

void watch(self_ptr self, const caf::actor_addr& asker, const ticket_id& ticket) {
  if (!asker) return;
  auto& tickets = self->state.askers[asker];
  if (tickets.empty()) self->monitor(asker);
  tickets.insert(ticket);
}

void unwatch(self_ptr self, const caf::actor_addr& asker, const ticket_id& ticket) {
  const auto found = self->state.askers.find(asker);
  if (found == self->state.askers.end()) return;
  found->second.erase(ticket);
  if (!found->second.empty()) return;
  self->demonitor(asker);
  self->state.askers.erase(found);
}

caf::typed_response_promise<wire::msg<wire::KvFetched>> on_fetch(self_ptr self,
                                                                 wire::KvFetch::Reader msg) {
  kv_fetch_state& state = self->state;
  // before the promise, which takes the sender with it
  const auto asker = caf::actor_cast<caf::actor_addr>(self->current_sender());
  auto promise = self->make_response_promise<wire::msg<wire::KvFetched>>();
  auto order = read_order(msg, now_of(self));
  if (!order) {
    promise.deliver(to_caf(order.error()));
    return promise;
  }
  const ticket_id ticket = order->ticket;
  if (const auto taken = state.core->submit(*std::move(order), now_of(self)); !taken) {
    state.card.count("fetches_refused");
    promise.deliver(to_caf(taken.error()));
    return promise;
  }
  state.card.count("fetches");
  state.fetches[ticket] = {promise, asker};
  watch(self, asker, ticket);
  run_effects(self);
  return promise;
}

void release(self_ptr self, const ticket_id& ticket, uint32_t used) {
  self->state.core->release(ticket, used, now_of(self));
  run_effects(self);
}

void on_down(self_ptr self, const caf::actor_addr& asker) {
  const auto found = self->state.askers.find(asker);
  if (found == self->state.askers.end()) return;
  const auto tickets = std::move(found->second);
  self->state.askers.erase(found);
  for (const ticket_id& ticket : tickets) {
    self->state.card.count("fetches_orphaned");
    release(self, ticket, 0);
  }
}

void send_answer(self_ptr self, const fetch::answer& answer) {
  kv_fetch_state& state = self->state;
  const auto found = state.fetches.find(answer.ticket);
  if (found == state.fetches.end()) return;
  const auto& place = state.memory->place();
  wire::draft<wire::KvFetched> out;
  out->setArenaProcess(place.process);
  out->setArenaDescriptor(place.descriptor);
  out->setArenaBytes(place.bytes);
  out->setArenaEpoch(place.epoch);
  auto blocks = out->initBlocks(static_cast<uint32_t>(answer.blocks.size()));
  for (uint32_t i = 0; i < answer.blocks.size(); ++i) {
    blocks[i].setOffset(answer.blocks[i].offset);
    blocks[i].setLength(answer.blocks[i].length);
    blocks[i].setChecksum(answer.blocks[i].checksum);
  }
  out->initWhy().setCode(static_cast<uint16_t>(answer.why.code));
  out->getWhy().setDetail(answer.why.detail);
  out->setHoldMs(static_cast<uint32_t>(state.setup.config.hold.count()));
  found->second.promise.deliver(out.freeze());
}

/// Fetches that the core let go of: released, or not released within their time.
void forget_ended(self_ptr self) {
  kv_fetch_state& state = self->state;
  if (state.fetches.size() == state.core->state().fetches) return;
  for (auto at = state.fetches.begin(); at != state.fetches.end();) {
    if (state.core->is_open(at->first)) {
      ++at;
      continue;
    }
    unwatch(self, at->second.asker, at->first);
    at = state.fetches.erase(at);
  }
}

void on_tick(self_ptr self) {
  kv_fetch_state& state = self->state;
  state.ticking = false;
  state.core->tick(now_of(self));
  if (busy(state)) state.files_used = now_of(self);
  if (now_of(self) - state.folders_closed >= close_files_every) {
    state.folders_closed = now_of(self);
    state.folders->close_idle();
  }
  for (const auto& refuse : state.pool->hopeless(now_of(self))) {
    state.card.count("reads_of_hanging_folders");
    refuse();
  }
  run_effects(self);
}

/// Stores that could be read from now.
uint64_t reachable_stores(const kv_fetch_state& state) {
  return static_cast<uint64_t>(
      std::count_if(state.stores.begin(), state.stores.end(), [&](const actor_ref& store) {
        return bool(state.setup.hub->resolve<kv_store_actor>(store));
      }));
}

std::string describe(const kv_fetch_state& state) {
  const auto f = state.core->state();
  return std::to_string(f.fetches) + " fetches, " + std::to_string(f.batches) +
         " reads under way, " + std::to_string(state.core->shelf().blocks()) + " blocks in memory";
}

// Gauges are read from the state at the moment of the question, so they cannot drift from it.
void set_gauges(kv_fetch_state& state, std::chrono::nanoseconds now) {
  const auto f = state.core->state();
  const block_shelf& shelf = state.core->shelf();
  const std::pair<const char*, uint64_t> gauges[] = {
      {"open_fetches", f.fetches},
      {"waiting_fetches", f.waiting_fetches},
      {"jobs", f.jobs},
      {"open_groups", f.sessions},
      {"reads_under_way", f.batches},
      {"reading_bytes", f.reading_bytes},
      {"arena_bytes", shelf.total_bytes()},
      {"arena_used_bytes", shelf.used_bytes()},
      {"blocks_in_memory", shelf.blocks()},
      {"blocks_held", shelf.blocks() - shelf.idle_blocks()},
      {"blocks_made_way", shelf.made_way()},
      {"blocks_asked", f.asked_blocks},
      {"blocks_found_in_memory", f.hit_blocks},
      {"blocks_shared", f.shared_blocks},
      {"blocks_read", f.read_blocks},
      {"bytes_read", f.read_bytes},
      {"blocks_of_files", f.file_blocks},
      {"blocks_missing", f.missing_blocks},
      {"blocks_bad", f.bad_blocks},
      {"reads_failed", f.failed_reads},
      {"reads_late", f.late_reads},
      {"answers_late", f.late_answers},
      {"reads_without_room", f.starved},
      {"askers", state.askers.size()},
      {"stores", reachable_stores(state)},
      {"works_waiting", state.pool->waiting()},
      {"works_late", state.pool->late(now)},
      {"process", static_cast<uint64_t>(::getpid())}};
  for (const auto& [name, value] : gauges) state.card.set(name, static_cast<int64_t>(value));
}

void start(self_ptr self, const fetch_setup& setup) {
  kv_fetch_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"kv_fetch", *setup.hub};
  state.memory = setup.memory;
  state.core.emplace(setup.config, storage::memory_header_bytes, state.memory->bytes().size());
  storage::disk_options disk;
  if (setup.config.direct_io) disk.cache = storage::disk_options::caching::direct;
  state.folders = std::make_shared<folder_reader>(disk);
  state.pool.emplace(setup.config.io_threads, setup.config.read_timeout);
  for (uint32_t i = 0; i < setup.config.io_threads; ++i) {
    state.io.push_back(setup.spawn_io());
    self->link_to(state.io.back());  // without them nothing arrives
  }
}

}  // namespace

void run_effects(self_ptr self) {
  fetch_pull pull{self};
  struct {
    self_ptr self;
    fetch_pull& pull;
    void operator()(const fetch::open_group& e) { pull.open(e); }
    void operator()(const fetch::read_blocks& e) { pull.read(e); }
    void operator()(const fetch::renew_lease& e) { pull.renew(e); }
    void operator()(const fetch::close_lease& e) { pull.close(e); }
    void operator()(const fetch::report_bad& e) { pull.report(e); }
    void operator()(const fetch::answer& e) { send_answer(self, e); }
  } act{self, pull};
  // An effect may fail at once, and so give others: those run in the loop of the first call.
  if (std::exchange(self->state.running_effects, true)) return;
  for (auto todo = self->state.core->effects(); !todo.empty(); todo = self->state.core->effects())
    for (const fetch::effect& effect : todo) std::visit(act, effect);
  self->state.running_effects = false;
  forget_ended(self);
  keep_ticking(self);
}

kv_fetch_impl_actor::behavior_type kv_fetch(
    kv_fetch_impl_actor::stateful_pointer<kv_fetch_state> self, const fetch_setup& setup) {
  start(self, setup);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down.source); });
  return {
      [self](const wire::msg<wire::KvFetch>& msg) { return on_fetch(self, msg.get()); },
      [self](const wire::msg<wire::KvFetchRelease>& msg) {
        release(self, {msg.get().getTicket().getHi(), msg.get().getTicket().getLo()},
                msg.get().getUsedBlocks());
      },
      [self](const wire::msg<wire::KvFetchNow>& msg) {
        const auto ticket = msg.get().getTicket();
        self->state.card.count("fetches_hurried");
        self->state.core->answer_now({ticket.getHi(), ticket.getLo()}, now_of(self));
        run_effects(self);
      },
      [self](const wire::msg<wire::KvPurge>&) {
        // Whose a block is nobody told us: all are read again, by those who may.
        const size_t blocks = self->state.core->retire_blocks();
        self->state.card.count("purges");
        self->state.card.count("blocks_retired", static_cast<int64_t>(blocks));
        return wire::msg<wire::KvPurged>{};
      },
      [self](const wire::msg<wire::Inspect>&) {
        set_gauges(self->state, now_of(self));
        return self->state.card.info(*self, describe(self->state));
      },
      [self](const wire::msg<wire::Members>& msg) {
        self->state.stores =
            store_directory::listed_in(msg.get(), store_directory::own_node::listed);
      },
      [self](const fetch_pulled& pulled) { fetch_pull{self}.pulled(pulled); },
      [self](const fetch_verified& part) { fetch_pull{self}.verified(part); },
      [self](const fetch_read_over& over) { fetch_pull{self}.read_over(over); },
      [self](const fetch_io_over& over) { fetch_pull{self}.worked(over.worker); },
      [self](const fetch_tick&) { on_tick(self); },
  };
}

}  // namespace deepinfer
