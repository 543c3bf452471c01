#include "runtime/model/toy_model.hpp"

#include "runtime/model/toy_sequence.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace deepinfer::model {
namespace {

using toy::chain_hash;
using toy::mix;
using toy::toy_sequence;

int32_t token_after(const toy_options& options,
                    const chain_hash& h,
                    const sampling_params& params) {
  const uint64_t salt = params.temperature > 0 ? mix(params.seed + 1) : 0;
  const uint64_t draw = mix(h.hi ^ std::rotl(h.lo, 29) ^ salt);
  if ((draw >> 40) % 1000 < options.stop_per_1000) return options.stop_token;
  const auto other = static_cast<int32_t>((draw & 0xFFFFFFFF) % (options.vocabulary - 1));
  return other < options.stop_token ? other : other + 1;
}

// All tokens stand in a ring that begins anywhere; each is less likely than the one before it.
token_logprobs logprobs_after(const toy_options& options,
                              const chain_hash& h,
                              int32_t token,
                              uint32_t alternatives) {
  const uint64_t draw = mix(h.lo ^ std::rotl(h.hi, 23));
  const auto first = static_cast<uint32_t>((draw >> 32) % options.vocabulary);
  const float step = -static_cast<float>(1 + (draw & 0xFF)) / 256;
  const auto likely = [step](uint32_t rank) { return step * static_cast<float>(1 + rank); };
  token_logprobs out;
  out.chosen =
      likely((static_cast<uint32_t>(token) + options.vocabulary - first) % options.vocabulary);
  for (uint32_t rank = 0; rank < std::min(alternatives, options.vocabulary); ++rank)
    out.best.push_back({static_cast<int32_t>((first + rank) % options.vocabulary), likely(rank)});
  return out;
}

chain_hash hash_of(const toy_options& options, std::span<const int32_t> prefix) {
  chain_hash h = toy::start_hash(options);
  for (const int32_t token : prefix) h = toy::extended(h, static_cast<uint32_t>(token));
  return h;
}

class toy_model final : public step_model {
public:
  explicit toy_model(const toy_options& options) : options_(options) {
    info_.name = options.name;
    info_.vocabulary = options.vocabulary;
    info_.context_limit = options.context_limit;
    info_.stop_tokens = {options.stop_token};
    info_.layout = mix(options.weights ^ (uint64_t{options.vocabulary} << 32) ^
                       options.block_bytes ^ (uint64_t{options.stop_per_1000} << 20));
    info_.state_bytes_per_token = (options.block_bytes + toy_block_tokens - 1) / toy_block_tokens;
    info_.state_bytes_fixed = sizeof(chain_hash) + sizeof(int32_t) * toy_ring_tokens;
  }

  [[nodiscard]] const model_info& info() const override { return info_; }
  [[nodiscard]] std::unique_ptr<sequence> make_sequence() const override {
    return std::make_unique<toy_sequence>(options_);
  }

  void step(std::span<step_item> items) override {
    swap_patience patience{options_.swap_wait};
    for (step_item& item : items) {
      item.sampled = -1;
      item.logprobs.clear();
      item.state_missing = false;
      item.failed = !compute(item, patience);
    }
  }

  [[nodiscard]] std::vector<state_part> export_state(const sequence& from) const override {
    const auto& state = static_cast<const toy_sequence&>(from);
    return state.arrived() ? state.parts() : std::vector<state_part>{};
  }

  [[nodiscard]] result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const override;

  [[nodiscard]] restore_plan plan_restore(uint32_t prompt_tokens,
                                          uint32_t blocks,
                                          restore_mode mode) const override;
  [[nodiscard]] result<restored_sequence> begin_restore(const restore_source& from) const override;
  [[nodiscard]] std::vector<state_part> export_blocks(const sequence& from,
                                                      uint32_t first,
                                                      uint32_t count) const override {
    const auto& state = static_cast<const toy_sequence&>(from);
    const uint32_t full = state.computed_tokens() / toy_block_tokens;
    if (!state.arrived() || first > full || count > full - first) return {};
    return state.blocks(first, first + count);
  }
  [[nodiscard]] std::vector<state_part> export_rings(const sequence& from) const override {
    const auto& state = static_cast<const toy_sequence&>(from);
    if (!state.arrived() || state.computed_tokens() % toy_block_tokens != 0) return {};
    return state.rest();
  }
  [[nodiscard]] uint64_t block_bytes() const override { return options_.block_bytes; }

private:
  bool compute(step_item& item, swap_patience& patience) {
    auto& target = static_cast<toy_sequence&>(*item.target);
    const int32_t next = target.last_sampled();
    const auto tokens = item.tokens.empty() ? std::span(&next, 1) : item.tokens;
    if (tokens.size() > options_.context_limit - target.computed_tokens()) return false;
    if (!std::ranges::all_of(tokens, [this](int32_t t) { return in_vocabulary(t); })) return false;
    const auto blocks = target.await_blocks(patience, options_.import);
    item.state_missing = blocks == toy_sequence::arrival::missing;
    if (blocks != toy_sequence::arrival::complete) return false;
    for (const int32_t token : tokens) target.push(token);
    if (item.sample) {
      item.sampled = token_after(options_, target.hash(), item.sampling);
      if (item.sampling.logprobs != 0)
        item.logprobs.push_back(
            logprobs_after(options_, target.hash(), item.sampled, item.sampling.logprobs - 1));
      target.set_last_sampled(item.sampled);
    }
    return true;
  }
  [[nodiscard]] result<void> take(std::span<const state_part> parts,
                                  const std::vector<state_part>& wanted,
                                  toy_sequence& target) const;
  [[nodiscard]] result<void> check_tokens(std::span<const int32_t> tokens) const;
  [[nodiscard]] bool in_vocabulary(int32_t token) const {
    return token >= 0 && static_cast<uint32_t>(token) < options_.vocabulary;
  }

  toy_options options_;
  model_info info_;
};

failure refused(const char* why) {
  return failure{error_code::invalid_argument, why};
}

// Compares what came with what the tokens demand. A missing or doubled part, or one of the wrong
// size, is refused in both import modes: no real model could take it over either.
result<void> toy_model::take(std::span<const state_part> parts,
                             const std::vector<state_part>& wanted,
                             toy_sequence& target) const {
  if (parts.size() != wanted.size()) return refused("parts do not add up to the tokens");
  for (const state_part& want : wanted) {
    const auto same_place = [&want](const state_part& p) {
      return p.kind == want.kind && p.index == want.index;
    };
    const auto got = std::ranges::find_if(parts, same_place);
    if (got == parts.end() || got->bytes.size() != want.bytes.size())
      return refused("a part is missing or has the wrong size");
    if (got->bytes == want.bytes) continue;
    if (options_.import == toy_import::refuse)
      return failure{error_code::corrupt, "a part does not belong to these tokens"};
    target.taint(toy::sum_of(got->bytes));
  }
  return {};
}

result<void> toy_model::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.size() > options_.context_limit) return refused("more tokens than the context limit");
  if (!std::ranges::all_of(tokens, [this](int32_t t) { return in_vocabulary(t); }))
    return refused("a token lies outside the vocabulary");
  return {};
}

result<std::unique_ptr<sequence>> toy_model::import_state(std::span<const state_part> parts,
                                                          std::span<const int32_t> tokens) const {
  if (auto ok = check_tokens(tokens); !ok) return ok.error();
  auto target = std::make_unique<toy_sequence>(options_);
  for (const int32_t token : tokens) target->push(token);
  if (auto taken = take(parts, target->parts(), *target); !taken) return taken.error();
  return std::unique_ptr<sequence>(std::move(target));
}

// Shaped like the real model's: rings that were kept end before the prompt's last tokens, a
// bounded replay is short, an exact one longer. All three give the tokens of the cold run.
restore_plan toy_model::plan_restore(uint32_t prompt_tokens,
                                     uint32_t blocks,
                                     restore_mode mode) const {
  if (prompt_tokens == 0) return {};
  const uint32_t behind = mode == restore_mode::ring ? toy_kept_tokens : 1;
  const uint32_t before = prompt_tokens - std::min(prompt_tokens, behind);
  const uint32_t hit = std::min(blocks, before / toy_block_tokens) * toy_block_tokens;
  if (hit == 0) return {};
  return {hit, hit - (mode == restore_mode::ring      ? 0
                      : mode == restore_mode::bounded ? toy_ring_tokens
                                                      : toy_exact_tokens)};
}

result<restored_sequence> toy_model::begin_restore(const restore_source& from) const {
  if (auto ok = check_tokens(from.prompt); !ok) return ok.error();
  const auto prompt = static_cast<uint32_t>(from.prompt.size());
  const restore_plan plan = plan_restore(prompt, from.hit / toy_block_tokens, from.mode);
  if (plan.hit != from.hit) return refused("the hit is not one of this prompt that can be used");
  const auto prefix = from.prompt.first(from.hit);
  auto state = std::make_unique<toy_sequence>(options_, prefix, plan.start);
  if (from.mode == restore_mode::ring) {
    toy_sequence whole(options_);
    for (const int32_t token : prefix) whole.push(token);
    if (auto taken = take(from.rings, whole.rest(), *state); !taken) return taken.error();
    state->keep_ring(prefix);
  } else if (!from.rings.empty()) {
    return refused("a restore without kept rings takes none");
  }
  auto loading = state->loading();
  return restored_sequence{std::move(state), std::move(loading)};
}

}  // namespace

result<std::unique_ptr<step_model>> make_toy_model(const toy_options& options) {
  const auto refuse = [](const char* why) { return failure{error_code::invalid_argument, why}; };
  if (options.vocabulary < 4 || options.vocabulary > (1u << 20))
    return refuse("toy model: vocabulary must lie in 4..1048576");
  if (options.stop_token < 0 || static_cast<uint32_t>(options.stop_token) >= options.vocabulary)
    return refuse("toy model: the stop token must lie in the vocabulary");
  if (options.stop_per_1000 > 1000) return refuse("toy model: stop_per_1000 must be at most 1000");
  if (options.block_bytes < 16 || options.block_bytes > (1u << 24))
    return refuse("toy model: block_bytes must lie in 16..16777216");
  if (options.context_limit == 0) return refuse("toy model: context_limit must be above 0");
  return std::unique_ptr<step_model>(std::make_unique<toy_model>(options));
}

int32_t toy_next_token(const toy_options& options,
                       std::span<const int32_t> prefix,
                       const sampling_params& params) {
  return token_after(options, hash_of(options, prefix), params);
}

token_logprobs toy_logprobs(const toy_options& options,
                            std::span<const int32_t> prefix,
                            int32_t token,
                            uint32_t alternatives) {
  return logprobs_after(options, hash_of(options, prefix), token, alternatives);
}

}  // namespace deepinfer::model
