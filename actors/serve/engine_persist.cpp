#include "actors/serve/engine_core.hpp"

#include <algorithm>
#include <utility>

/// What an engine gives to the shared cache: blocks that are final, to the writer, and rings at
/// block boundaries, to the host. Only moves vectors; a step never waits for it.
namespace deepinfer {

using model::cache_block_tokens;
using schedule::engine_role;

namespace {

/// Of a hand-over that nobody took, between two looks into the mailbox: 7 MB of the largest model.
constexpr size_t blocks_read_out = 64;

bool somebody_persists(const engine_setup& setup) {
  return setup.cache.enabled && setup.writer && setup.budget && setup.cache.persist_by != "nobody";
}

bool persists(const engine_setup& setup) {
  const std::string& by = setup.cache.persist_by;
  const std::string_view own = setup.role == engine_role::decode ? "decode" : "prefill";
  return somebody_persists(setup) && (by == own || by == "both");
}

bool keeps_rings(const engine_setup& setup) {
  if (!setup.cache.enabled || !setup.rings || setup.cache.persist_by == "nobody") return false;
  // Behind blocks that nobody stores rings are of no use.
  return setup.role == engine_role::prefill || persists(setup);
}

}  // namespace

uint32_t engine_core::ring_boundary(const engine_sequence& s) const {
  const engine_setup& setup = self_->state.setup;
  if (setup.role != engine_role::prefill || !keeps_rings(setup) || !s.cache.root) return 0;
  const auto blocks = static_cast<uint32_t>(s.tokens.size() / cache_block_tokens);
  return blocks < setup.cache.min_hit_blocks ? 0 : blocks * cache_block_tokens;
}

void engine_core::plan_read_out(const engine_sequence& s,
                                const schedule::planned_row& row,
                                step_job_row& out) const {
  const engine_setup& setup = self_->state.setup;
  if (!row.ends_block || !s.cache.root) return;
  const uint32_t end = row.first + row.count;
  if (setup.role == engine_role::prefill) {
    out.export_rings = end == ring_boundary(s);
    return;
  }
  // Without drafts all that a step computes is accepted, so the block is final with it (KV-18).
  const uint32_t block = end / cache_block_tokens - 1;
  if (!persists(setup) || !s.chain.open() || block != s.chain.given()) return;
  if (!setup.budget->is_open()) return;
  out.first_block = block;
  out.block_count = 1;
  out.export_rings = keeps_rings(setup);
}

void engine_core::take_read_out(engine_sequence& s, step_result_row& row) {
  engine_state& state = self_->state;
  if (row.failed || (row.blocks.empty() && row.rings.empty())) return;
  uint32_t end = ring_boundary(s);
  if (!row.blocks.empty()) {
    end = (row.blocks.back().index + 1) * cache_block_tokens;
  }
  // A step that was under way when the sequence ended computed a token that was never taken.
  if (end > s.tokens.size()) return;
  if (!row.blocks.empty()) {
    persist(s.chain, std::span{s.tokens}.first(end), row.blocks);
  }
  if (row.rings.empty() || !state.setup.rings) return;
  s.chain.extend(std::span{s.tokens}.first(end));
  const uint32_t block = end / cache_block_tokens - 1;
  const storage::block_key key = s.chain.key(block);
  // Others begin where blocks are everybody's: a sequence that goes on does not replace those
  // rings.
  storage::block_key replaced;
  if (block >= s.cache.shared.blocks) replaced = std::exchange(s.rings, key);
  self_->send(state.setup.rings,
              keep_rings{key, replaced, s.cache.layout, s.chain.scope_of(block),
                         std::make_shared<std::vector<model::state_part>>(std::move(row.rings))});
  state.card.sent(state.setup.rings);
  state.card.count("rings_kept");
}

void engine_core::persist(sequence_chain& chain,
                          std::span<const int32_t> tokens,
                          std::vector<model::state_part>& parts) {
  engine_state& state = self_->state;
  if (!chain.open() || !state.setup.writer || !state.setup.budget) return;
  chain.extend(tokens);
  while (auto blocks = chain.take(parts, tokens)) {
    const auto count = static_cast<int64_t>(blocks->keys.size());
    if (!state.setup.budget->take(bytes_of(*blocks))) {
      // The newest go, never parents: from here on nothing of this sequence is stored (KV-21).
      chain.cut();
      state.card.count("blocks_not_persisted", count);
      return;
    }
    state.card.count("blocks_persisted", count);
    self_->send(state.setup.writer, *std::move(blocks));
    state.card.sent(state.setup.writer);
  }
}

void engine_core::persist_shared(engine_sequence& s, std::vector<model::state_part>& parts) {
  if (persists(self_->state.setup)) persist_computed(s, parts);
}

void engine_core::persist_computed(engine_sequence& s, std::vector<model::state_part>& parts) {
  if (!somebody_persists(self_->state.setup) || !s.cache.root) return;
  const std::span tokens{s.tokens.data(), s.tokens.size() - 1};  // the last one is not computed
  s.chain.skip(s.stored_blocks);
  persist(s.chain, tokens, parts);
}

std::optional<unsent_blocks> engine_core::unsent(const engine_sequence& s,
                                                 const staged_sequence& staged) const {
  const engine_setup& setup = self_->state.setup;
  const bool others_do = somebody_persists(setup) && setup.cache.persist_by == "decode";
  if (!others_do || !s.cache.root) return std::nullopt;
  unsent_blocks out{s.chain, {s.tokens.begin(), s.tokens.end() - 1}, {}};
  out.chain.skip(s.stored_blocks);
  for (const staged_part& part : staged.parts)
    if (part.kind == model::part_kind::block && part.index >= s.stored_blocks)
      out.parts.push_back(part);
  return out;
}

void engine_core::hand_over_failed(uint64_t lease) {
  engine_state& state = self_->state;
  const auto found = std::find_if(state.staged.begin(), state.staged.end(),
                                  [lease](const auto& at) { return at.second.lease == lease; });
  // Nobody could store any of this: not read out for nothing.
  const bool wanted = found != state.staged.end() && found->second.blocks &&
                      !found->second.blocks->parts.empty() && state.setup.budget->is_open();
  if (!wanted || !state.staging->leases().keep(lease, now(), state.setup.config.lease_ttl))
    return release_lease(lease);
  state.card.count("handovers_persisted");
  state.read_outs.push_back({lease, *std::move(found->second.blocks)});
  lease_ended(lease);
  if (state.read_outs.size() == 1) self_->send(self_, read_out_more{});
}

void engine_core::read_out_next() {
  engine_state& state = self_->state;
  if (state.read_outs.empty()) return;
  hand_over_read_out& one = state.read_outs.front();
  const uint64_t lease = one.lease;
  // Steps are planned in between. Behind the end of a lease the bytes are others'.
  const bool in_place =
      state.staging->leases().renew(lease, now(), state.setup.config.lease_ttl).has_value();
  std::vector<model::state_part> parts;
  for (; in_place && one.next < one.from.parts.size() && parts.size() < blocks_read_out;
       ++one.next) {
    const staged_part& part = one.from.parts[one.next];
    const auto bytes = state.staging->bytes_of(part);
    parts.push_back({part.kind, part.index, {bytes.begin(), bytes.end()}});
  }
  if (!parts.empty()) {
    const size_t end = (size_t{parts.back().index} + 1) * cache_block_tokens;
    persist(one.from.chain, std::span{one.from.tokens}.first(end), parts);
  }
  if (!in_place || !one.from.chain.open() || one.next == one.from.parts.size()) {
    state.read_outs.pop_front();
    release_lease(lease);
  }
  if (!state.read_outs.empty()) self_->send(self_, read_out_more{});
}

}  // namespace deepinfer
