#include "actors/cache/kv_wire.hpp"
#include "actors/messages/errors.hpp"
#include "actors/serve/engine_core.hpp"
#include "actors/serve/sequence_wire.hpp"

#include <algorithm>
#include <utility>

/// What an engine takes from the shared cache: blocks by way of kv_fetch, rings from their host,
/// and the sequence that stands behind them. Every way out that is not a hit ends in computing.
namespace deepinfer {

using model::cache_block_tokens;
using model::restore_mode;
using schedule::slot_id;

namespace {

/// Beyond the answer's own deadline; only says how long a dead fetch process is waited for.
constexpr std::chrono::milliseconds answer_margin{500};
constexpr std::chrono::milliseconds shortest_fetch{10};
/// The way of an answer that is there already, and no longer.
constexpr std::chrono::milliseconds answer_at_once{10};
constexpr uint32_t most_ring_offers = 8;
constexpr uint32_t most_ring_parts = 8;

storage::block_key ticket_of(const engine_sequence& s) {
  // unique among the open fetches of all engines: choices of a request have ids of their own
  return {s.request.hi, s.request.lo ^ (uint64_t{static_cast<uint32_t>(s.leg)} << 48)};
}

std::vector<schedule::ring_offer> offers_of(wire::CacheHint::Reader hint, const node_id& here) {
  std::vector<schedule::ring_offer> out;
  for (const auto ring : hint.getRings()) {
    if (out.size() == most_ring_offers) break;
    const actor_ref host = read_ref(ring.getHost());
    out.push_back({ring.getBlocks(), host.node == here ? 0 : ring.getBytes()});
  }
  return out;
}

/// Rings and the little state beside them, no more of it than a sequence has.
result<void> check_rings(wire::RingReady::Reader ready, const model::model_info& model) {
  const uint64_t most = 2 * model.state_bytes_fixed + 64 * 1024;
  uint64_t bytes = 0;
  if (ready.getParts().size() > most_ring_parts)
    return failure{error_code::too_large, "rings of too many parts"};
  for (const auto part : ready.getParts()) {
    if (part.getKind() != wire::PartKind::RING && part.getKind() != wire::PartKind::STATE)
      return failure{error_code::invalid_argument, "what a host of rings sent is none"};
    if (part.getBytes().getLength() > most - bytes)
      return failure{error_code::too_large, "rings that claim too many bytes"};
    bytes += part.getBytes().getLength();
  }
  return {};
}

}  // namespace

schedule::restore_rates engine_core::rates() const {
  const engine_state& state = self_->state;
  return {state.prefill_rate.at(now()), state.fetch_rate.at(now()), state.pull_rate.at(now())};
}

schedule::restore_choice engine_core::choose(const engine_sequence& s,
                                             uint32_t blocks,
                                             uint64_t block_bytes,
                                             std::span<const schedule::ring_offer> rings) const {
  const engine_setup& setup = self_->state.setup;
  schedule::restore_offer offer;
  offer.prompt_tokens = static_cast<uint32_t>(s.tokens.size());
  offer.hit_blocks = blocks;
  offer.min_hit_blocks = setup.cache.min_hit_blocks;
  offer.block_bytes = block_bytes;
  offer.queued_bytes = block_bytes == 0 ? 0 : queued_fetch_bytes();
  offer.replay = replay_mode(setup.cache);
  offer.rings = rings;
  return schedule::choose_restore(
      offer, rates(), [&model = *setup.model](uint32_t prompt, uint32_t hit, restore_mode mode) {
        return model.plan_restore(prompt, hit, mode);
      });
}

uint64_t engine_core::queued_fetch_bytes() const {
  const engine_state& state = self_->state;
  uint64_t blocks = 0;
  for (const auto& [slot, s] : state.sequences)
    if (s.hit && s.hit->fetching) blocks += s.hit->choice.plan.hit / cache_block_tokens;
  return blocks * state.setup.model->block_bytes();
}

bool engine_core::plan_hit(engine_sequence& s, wire::CacheHint::Reader hint) {
  engine_state& state = self_->state;
  const auto full = static_cast<uint32_t>(s.tokens.size() / cache_block_tokens);
  const uint32_t blocks = std::min(hint.getHitBlocks(), full);
  if (!s.cache.root || !state.swap) return false;
  if (blocks == 0) {
    state.card.count("restore_none_stored");
    return false;
  }
  if (!state.fetch) {
    state.card.count("restore_no_fetcher");
    return false;
  }
  const auto rings = offers_of(hint, state.self_ref.node);
  const auto choice = choose(s, blocks, state.setup.model->block_bytes(), rings);
  state.card.count("restore_" + std::string{to_string(choice.reason)});
  if (choice.plan.hit == 0) return false;
  s.chain.extend(s.tokens);
  auto keys = std::make_shared<std::vector<storage::block_key>>();
  for (uint32_t i = 0; i < full; ++i) keys->push_back(s.chain.key(i));
  auto hit = std::make_shared<prefix_hit_state>();
  hit->choice = choice;
  hit->hinted_blocks = blocks;
  hit->keys = std::move(keys);
  hit->asked = now();
  hit->came_before = state.fetched_bytes;
  s.hit = std::move(hit);
  return true;
}

// A hit that takes longer than computing what it saves would be no help (KV-27).
std::chrono::milliseconds engine_core::fetch_deadline(const engine_sequence& s) const {
  using std::chrono::milliseconds;
  const cache_config& cache = self_->state.setup.cache;
  auto limit =
      std::min(cache.fetch_within, std::chrono::duration_cast<milliseconds>(s.deadline - now()));
  const auto saved = schedule::computing_time(s.hit->choice.plan.start, rates());
  if (cache.fetch_policy == "timeout" && saved)
    limit = std::min(limit, std::chrono::duration_cast<milliseconds>(*saved));
  return std::max(limit, shortest_fetch);
}

void engine_core::start_hit(slot_id slot, wire::CacheHint::Reader hint) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  prefix_hit_state& hit = *s.hit;
  const uint32_t blocks = hit.choice.plan.hit / cache_block_tokens;
  const auto within = fetch_deadline(s);
  hit.rings_within = std::min(within, state.setup.cache.ring_within);
  hit.held_until = hit.asked + within;
  wire::draft<wire::KvFetch> out;
  write_block_key(out->initTicket(), ticket_of(s));
  out->setDeadlineMs(static_cast<uint32_t>(within.count()));
  const auto keys = keys_as_data(std::span{*hit.keys}.first(blocks));
  out->setKeys({reinterpret_cast<const kj::byte*>(keys.data()), keys.size()});
  out->setTokens(token_bytes(std::span{s.tokens}.first(size_t{blocks} * cache_block_tokens)));
  out->setGroupBlocks(s.cache.group_blocks);
  out->setSharedBlocks(s.cache.shared.blocks);
  out->setTraffic(static_cast<uint8_t>(s.cache.traffic));
  out->setGroups(hint.getGroups());
  hit.fetching = hit.holding = true;
  hit.fetcher = state.fetch;
  self_->request(state.fetch, within + answer_margin, out.freeze())
      .then(
          [self = self_, slot, life = s.life](const wire::msg<wire::KvFetched>& got) {
            engine_core{self}.fetched(slot, life, got);
          },
          [self = self_, slot, life = s.life](const caf::error& e) {
            engine_core{self}.fetch_failed(slot, life, from_caf(e));
          });
  state.card.sent(state.fetch);
  state.card.count("hits_fetched");
  if (hit.choice.mode == restore_mode::ring) ask_rings(slot, hint);
}

void engine_core::ask_rings(slot_id slot, wire::CacheHint::Reader hint) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  prefix_hit_state& hit = *s.hit;
  const auto offer = hint.getRings()[static_cast<uint32_t>(*hit.choice.ring)];
  const auto host = state.setup.hub->resolve<ring_host_actor>(read_ref(offer.getHost()));
  if (!host) {
    state.card.count("rings_unreachable");
    return;
  }
  wire::draft<wire::RingPull> out;
  write_block_key(out->initKey(), (*hit.keys)[hit.choice.plan.hit / cache_block_tokens - 1]);
  out->setLayout(s.cache.layout);
  hit.pulling = true;
  ++state.ring_pulls;
  self_->request(*host, hit.rings_within, out.freeze())
      .then(
          [self = self_, slot, life = s.life](const wire::msg<wire::RingReady>& ready) {
            engine_core{self}.pull_rings(slot, life, ready);
          },
          [self = self_, slot, life = s.life](const caf::error& e) {
            engine_core{self}.rings_pulled({slot, life, from_caf(e), {}});
          });
  state.card.sent(*host);
}

engine_sequence* engine_core::hit_of(slot_id slot, uint32_t life) {
  const auto found = self_->state.sequences.find(slot);
  if (found == self_->state.sequences.end()) return nullptr;
  engine_sequence& s = found->second;
  return s.ended || s.life != life || !s.hit ? nullptr : &s;
}

void engine_core::pull_rings(slot_id slot, uint32_t life, const wire::msg<wire::RingReady>& ready) {
  engine_state& state = self_->state;
  const auto give_back = [hub = state.setup.hub, ready] {
    const auto lease = ready.get().getLease();
    wire::draft<wire::LeaseRelease> out;
    out->setId(lease.getId());
    if (const auto owner = hub->resolve<lease_owner_actor>(read_ref(lease.getOwner())))
      caf::anon_send(*owner, out.freeze());
  };
  const engine_sequence* s = hit_of(slot, life);
  const auto fits = check_rings(ready.get(), state.setup.model->info());
  if (!fits || s == nullptr) {
    give_back();
    return rings_pulled({slot, life, fits, {}});
  }
  const engine_impl_actor me{self_};
  pull_parts(*state.setup.transport, ready.get().getParts(),
             {ready.get().getLease().getNode().getHi(), ready.get().getLease().getNode().getLo()},
             s->hit->rings_within,
             [me, slot, life, give_back](const result<void>& outcome,
                                         std::vector<model::state_part> parts) {
               give_back();
               caf::anon_send(me, rings_arrived{slot, life, outcome, std::move(parts)});
             });
}

// Once for each that was asked for, also when its sequence has ended: until then reads may be under
// way, and somebody's lease is not given back.
void engine_core::rings_pulled(rings_arrived what) {
  engine_state& state = self_->state;
  --state.ring_pulls;
  answer_drain();
  engine_sequence* s = hit_of(what.slot, what.life);
  if (s == nullptr || !s->hit->pulling) return;
  s->hit->pulling = false;
  if (what.outcome) {
    s->hit->rings = std::move(what.parts);
    uint64_t bytes = 0;
    for (const model::state_part& part : s->hit->rings) bytes += part.bytes.size();
    state.pull_rate.measured(static_cast<double>(bytes), now() - s->hit->asked, now());
    if (state.setup.hits) state.setup.hits->rings.took(now() - s->hit->asked, bytes);
    state.card.count("rings_pulled");
  } else {
    state.card.count("rings_missed");
  }
  hit_arrived(what.slot);
}

void engine_core::fetched(slot_id slot, uint32_t life, const wire::msg<wire::KvFetched>& got) {
  engine_sequence* s = hit_of(slot, life);
  if (s == nullptr) return;  // given back when the sequence ended
  engine_state& state = self_->state;
  s->hit->fetching = false;
  s->hit->held_until += std::chrono::milliseconds(got.get().getHoldMs());
  auto opened = open_fetched(*state.arenas, got.get());
  if (s->hit->fetcher != state.fetch) state.arenas->forget();  // it comes late: nothing will follow
  if (!opened) return fetch_failed(slot, life, opened.error());
  uint64_t bytes = 0;
  for (const fetched_block& block : opened->blocks) bytes += block.bytes.size();
  if (state.setup.hits) state.setup.hits->fetch.took(now() - s->hit->asked, bytes);
  // Hits come beside and behind one another: the rate is that of all that came meanwhile.
  state.fetched_bytes += bytes;
  state.fetch_rate.measured(static_cast<double>(state.fetched_bytes - s->hit->came_before),
                            now() - s->hit->asked, now());
  if (opened->blocks.size() * cache_block_tokens < s->hit->choice.plan.hit)
    state.card.count("hits_shortened");
  s->hit->fetched = std::make_shared<const fetched_prefix>(*std::move(opened));
  hit_arrived(slot);
}

void engine_core::fetch_failed(slot_id slot, uint32_t life, const failure&) {
  engine_sequence* s = hit_of(slot, life);
  if (s == nullptr) return;
  s->hit->fetching = false;
  self_->state.card.count("fetches_failed");
  compute_all(slot);
}

// Best effort (KV-27): whoever could be computed now waits for nothing that is on its way.
void engine_core::hurry_hits() {
  engine_state& state = self_->state;
  if (state.setup.cache.fetch_policy != "best_effort") return;
  for (const slot_id slot : state.planner.due()) {
    engine_sequence& s = state.sequences.at(slot);
    if (!s.hit || std::exchange(s.hit->hurried, true)) continue;
    state.card.count("hits_hurried");
    if (std::exchange(s.hit->pulling, false)) state.card.count("rings_missed");
    if (!s.hit->fetching) {
      hit_arrived(slot);
      continue;
    }
    wire::draft<wire::KvFetchNow> out;
    write_block_key(out->initTicket(), ticket_of(s));
    self_->send(s.hit->fetcher, out.freeze());
    state.card.sent(s.hit->fetcher);
    self_->delayed_send(self_, answer_at_once, fetch_overdue{slot, s.life});
  }
}

void engine_core::fetch_overdue_at(const fetch_overdue& late) {
  const engine_sequence* s = hit_of(late.slot, late.life);
  if (s == nullptr || !s->hit->fetching) return;
  fetch_failed(late.slot, late.life, {error_code::deadline_exceeded, "the fetch process is slow"});
}

// Nothing of the hit is used (any more).
void engine_core::compute_all(slot_id slot) {
  abandon_hit(slot);
  self_->state.planner.begin(slot, 0);
  pump();
}

void engine_core::hit_arrived(slot_id slot) {
  engine_state& state = self_->state;
  prefix_hit_state& hit = *state.sequences.at(slot).hit;
  if (hit.fetching || hit.pulling || !hit.fetched) return;
  if (hit.fetched->blocks.empty()) return compute_all(slot);
  state.planner.arrived(slot);
  pump();
}

// The slot has its place: memory for its state may be taken.
void engine_core::check_hit(slot_id slot) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  if (!s.hit || !s.hit->fetched) return state.planner.begin(slot, 0);
  self_->send(state.swap, swap_check{slot, s.life, s.hit->fetched, s.hit->keys,
                                     state.setup.model->block_bytes()});
  s.hit->copying = true;
  s.hit->fetched.reset();
  state.card.sent(state.swap);
}

void engine_core::hit_checked(const swap_checked& what) {
  engine_sequence* s = hit_of(what.slot, what.life);
  if (s == nullptr) return;  // dropped when the sequence ended
  engine_state& state = self_->state;
  prefix_hit_state& hit = *s->hit;
  // Whose hold has run out reads what others put there since: nobody's bytes are bad.
  if (!what.all_good) state.card.count(now() < hit.held_until ? "blocks_bad" : "holds_ran_out");
  const uint32_t blocks = what.blocks;
  schedule::restore_choice& choice = hit.choice;
  // Fewer blocks, or no rings: what is there decides anew (KV-9, KV-26).
  const bool whole = blocks * cache_block_tokens >= choice.plan.hit;
  if (!whole || (choice.mode == restore_mode::ring && hit.rings.empty())) {
    choice = choose(*s, std::min(blocks, hit.hinted_blocks), 0, {});
    hit.rings.clear();  // they belong to the longer hit
    state.card.count("restores_replanned");
  }
  if (choice.plan.hit == 0) return compute_all(what.slot);
  auto restored =
      state.setup.model->begin_restore({s->tokens, choice.plan.hit, choice.mode, hit.rings, {}});
  if (!restored) {
    state.card.count("restores_refused");
    return compute_all(what.slot);
  }
  release_fetch(*s, choice.plan.hit / cache_block_tokens);
  s->cell->state = std::move(restored->state);
  s->cached_tokens = std::min(choice.plan.hit, s->prompt_tokens);
  s->stored_blocks = choice.plan.hit / cache_block_tokens;
  state.card.count("hits_used");
  state.card.count("tokens_cached", choice.plan.hit);
  state.card.count("tokens_replayed", choice.plan.hit - choice.plan.start);
  hit.rings.clear();
  if (!restored->loading) {
    drop_copies(what.slot, *s);
    return begin_hit({what.slot, what.life, choice.plan.start});
  }
  hit.copying = false;
  self_->send(state.swap, swap_load{what.slot, what.life, choice.plan.start, restored->loading});
  state.card.sent(state.swap);
}

void engine_core::drop_copies(slot_id slot, engine_sequence& s) {
  if (!std::exchange(s.hit->copying, false)) return;
  self_->send(self_->state.swap, swap_drop{slot, s.life});
  self_->state.card.sent(self_->state.swap);
}

void engine_core::begin_hit(const swap_begun& what) {
  if (hit_of(what.slot, what.life) == nullptr) return;
  self_->state.planner.begin(what.slot, what.start);
  pump();
}

// Blocks that were verified did not get into the sequence: a fresh one computes everything.
void engine_core::restart(slot_id slot) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  state.card.count("restores_failed");
  abandon_hit(slot);
  ++s.life;
  s.cell = std::make_shared<sequence_cell>();
  s.cell->state = state.setup.model->make_sequence();
  s.cached_tokens = s.stored_blocks = 0;
  state.planner.restart(slot);
}

void engine_core::release_fetch(engine_sequence& s, uint32_t used_blocks) {
  engine_state& state = self_->state;
  if (!s.hit || !std::exchange(s.hit->holding, false)) return;
  wire::draft<wire::KvFetchRelease> out;
  write_block_key(out->initTicket(), ticket_of(s));
  out->setUsedBlocks(used_blocks);
  self_->send(s.hit->fetcher, out.freeze());
  state.card.sent(s.hit->fetcher);
}

void engine_core::abandon_hit(slot_id slot) {
  engine_sequence& s = self_->state.sequences.at(slot);
  if (!s.hit) return;
  release_fetch(s, 0);
  drop_copies(slot, s);
  s.hit.reset();
}

void engine_core::members(wire::Members::Reader table) {
  engine_state& state = self_->state;
  const auto ref = choose_fetcher(table);
  kv_fetch_actor found;
  if (ref)
    if (auto handle = state.setup.hub->resolve<kv_fetch_actor>(*ref)) found = *std::move(handle);
  // what died with an arena left that memory to its readers, and its successor takes as much again
  if (found != state.fetch) state.arenas->forget();
  state.fetch = found;
}

}  // namespace deepinfer
