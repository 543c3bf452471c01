#include "actors/serve/kv_swap.hpp"

#include "storage/block/block_checksum.hpp"

#include <algorithm>

namespace deepinfer {
namespace {

swap_checked check(const swap_check& what) {
  swap_checked out{what.slot, what.life, nullptr, true};
  auto own = std::make_shared<own_blocks>();
  const size_t count = std::min(what.from->blocks.size(), what.keys->size());
  own->bytes.reserve(count);
  for (size_t i = 0; i < count && out.all_good; ++i) {
    const fetched_block& block = what.from->blocks[i];
    if (block.bytes.size() != what.block_bytes) {
      out.all_good = false;
      break;
    }
    std::vector<std::byte> copy(block.bytes.begin(), block.bytes.end());
    out.all_good = storage::block_checksum((*what.keys)[i], copy) == block.checksum;
    if (out.all_good) own->bytes.push_back(std::move(copy));
  }
  out.blocks = std::move(own);
  return out;
}

bool load(model::swap_in& into, const own_blocks& blocks) {
  if (blocks.bytes.size() < into.blocks()) return false;
  for (uint32_t stage = 0; stage < into.stages(); ++stage) {
    for (uint32_t block = 0; block < into.blocks(); ++block)
      if (!into.load(stage, block, blocks.bytes[block])) return false;
    into.ready(stage);
  }
  return true;
}

}  // namespace

kv_swap_actor::behavior_type kv_swap(kv_swap_actor::stateful_pointer<kv_swap_state> self,
                                     remote_hub* hub,
                                     const swap_sink_actor& engine) {
  self->state.card = actor_card{"kv_swap", *hub};
  return {
      [self, engine](const swap_check& what) {
        swap_checked done = check(what);
        self->state.card.count("blocks_checked", static_cast<int64_t>(done.blocks->bytes.size()));
        if (!done.all_good) self->state.card.count("blocks_bad");
        self->send(engine, std::move(done));
        self->state.card.sent(engine);
      },
      [self, engine](const swap_load& what) {
        self->send(engine, swap_begun{what.slot, what.life, what.start});
        self->state.card.sent(engine);
        if (load(*what.into, *what.blocks)) {
          self->state.card.count("hits_loaded");
          self->state.card.count("blocks_loaded", what.into->blocks());
        } else {
          what.into->give_up();
          self->state.card.count("hits_given_up");
        }
      },
      [self](const wire::msg<wire::Inspect>&) { return self->state.card.info(*self, "idle"); },
  };
}

}  // namespace deepinfer
