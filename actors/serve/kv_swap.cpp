#include "actors/serve/kv_swap.hpp"

#include "storage/block/block_checksum.hpp"

#include <algorithm>
#include <string>

namespace deepinfer {
namespace {

using self_ptr = kv_swap_actor::stateful_pointer<kv_swap_state>;
using hit_key = kv_swap_state::hit_key;
using copied_hit = kv_swap_state::copied_hit;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

// False: it is not the block that was stored. Its copy is what counts.
bool copy_next(copied_hit& hit) {
  const size_t index = hit.blocks.size();
  const fetched_block& block = hit.from->blocks[index];
  if (block.bytes.size() != hit.block_bytes) return false;
  std::vector<std::byte> copy(block.bytes.begin(), block.bytes.end());
  if (storage::block_checksum((*hit.keys)[index], copy) != block.checksum) return false;
  hit.blocks.push_back(std::move(copy));
  return true;
}

bool load(model::swap_in& into, const std::vector<std::vector<std::byte>>& blocks) {
  if (blocks.size() < into.blocks()) return false;
  for (uint32_t stage = 0; stage < into.stages(); ++stage) {
    for (uint32_t block = 0; block < into.blocks(); ++block)
      if (!into.load(stage, block, blocks[block])) return false;
    into.ready(stage);
  }
  return true;
}

// First come, first served, so that a long hit is not passed by short ones for ever.
void begin_next(self_ptr self) {
  kv_swap_state& state = self->state;
  if (state.copying || state.waiting.empty()) return;
  swap_check& next = state.waiting.front();
  copied_hit hit{next.from, next.keys, next.block_bytes, 0, now_of(self), {}};
  hit.wanted = std::min(next.from->blocks.size(), next.keys->size());
  if (hit.block_bytes > 0)
    hit.wanted = std::min<uint64_t>(hit.wanted, state.config.copy_bytes / hit.block_bytes);
  if (hit.bytes() > state.config.copy_bytes - state.copy_bytes) return;  // its turn will come
  if (hit.wanted < next.from->blocks.size()) state.card.count("hits_cut");
  state.copy_bytes += hit.bytes();
  state.peak = std::max(state.peak, state.copy_bytes);
  hit.blocks.reserve(hit.wanted);
  state.copying = hit_key{next.slot, next.life};
  state.hits.insert_or_assign(*state.copying, std::move(hit));
  state.waiting.pop_front();
  self->send(self, swap_more{});
}

void forget(self_ptr self, const hit_key& key) {
  kv_swap_state& state = self->state;
  const auto found = state.hits.find(key);
  if (found == state.hits.end()) return;
  state.copy_bytes -= found->second.bytes();
  state.hits.erase(found);
  if (state.copying == key) state.copying.reset();
  begin_next(self);
}

void on_more(self_ptr self) {
  kv_swap_state& state = self->state;
  if (!state.copying) return;  // it was dropped
  const hit_key key = *state.copying;
  copied_hit& hit = state.hits.at(key);
  bool good = true;
  for (uint32_t i = 0; i < state.config.blocks_at_once && good; ++i) {
    if (hit.blocks.size() == hit.wanted) break;
    good = copy_next(hit);
  }
  if (good && hit.blocks.size() < hit.wanted) return self->send(self, swap_more{});
  if (!good) state.card.count("checks_failed");
  state.card.count("blocks_checked", static_cast<int64_t>(hit.blocks.size()));
  state.copy_bytes -= hit.bytes();
  hit.wanted = hit.blocks.size();
  state.copy_bytes += hit.bytes();
  hit.from.reset();
  state.copying.reset();
  self->send(state.engine,
             swap_checked{key.first, key.second, static_cast<uint32_t>(hit.wanted), good});
  state.card.sent(state.engine);
  begin_next(self);
}

void on_load(self_ptr self, const swap_load& what) {
  kv_swap_state& state = self->state;
  const auto found = state.hits.find({what.slot, what.life});
  self->send(state.engine, swap_begun{what.slot, what.life, what.start});
  state.card.sent(state.engine);
  if (found != state.hits.end() && load(*what.into, found->second.blocks)) {
    state.card.count("hits_loaded");
    state.card.count("blocks_loaded", what.into->blocks());
    if (state.config.metrics)
      state.config.metrics->swap.took(now_of(self) - found->second.begun,
                                      what.into->blocks() * found->second.block_bytes);
  } else {
    what.into->give_up();
    state.card.count("hits_given_up");
  }
  forget(self, {what.slot, what.life});
}

void on_drop(self_ptr self, const swap_drop& what) {
  std::erase_if(self->state.waiting, [&what](const swap_check& waits) {
    return waits.slot == what.slot && waits.life == what.life;
  });
  self->state.card.count("hits_dropped");
  forget(self, {what.slot, what.life});
  begin_next(self);  // who was dropped may have been first, and too long
}

wire::msg<wire::ActorInfo> inspect(self_ptr self) {
  kv_swap_state& state = self->state;
  state.card.set("hits", static_cast<int64_t>(state.hits.size()));
  state.card.set("hits_waiting", static_cast<int64_t>(state.waiting.size()));
  state.card.set("copy_bytes", static_cast<int64_t>(state.copy_bytes));
  state.card.set("copy_bytes_peak", static_cast<int64_t>(state.peak));
  return state.card.info(*self, std::to_string(state.hits.size()) + " hits copied, " +
                                    std::to_string(state.waiting.size()) + " wait");
}

}  // namespace

kv_swap_actor::behavior_type kv_swap(self_ptr self,
                                     const kv_swap_config& config,
                                     const swap_sink_actor& engine) {
  self->state.card = actor_card{"kv_swap", *config.hub};
  self->state.config = config;
  self->state.engine = engine;
  return {
      [self](const swap_check& what) {
        self->state.waiting.push_back(what);
        begin_next(self);
      },
      [self](const swap_load& what) { on_load(self, what); },
      [self](const swap_drop& what) { on_drop(self, what); },
      [self](const swap_more&) { on_more(self); },
      [self](const wire::msg<wire::Inspect>&) { return inspect(self); },
  };
}

}  // namespace deepinfer
