#include "runtime/model/toy_model.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <utility>

namespace deepinfer::model {
namespace {

struct chain_hash {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend bool operator==(const chain_hash&, const chain_hash&) = default;
};

// Finaliser of splitmix64: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

chain_hash start_hash(const toy_options& options) {
  return {mix(options.weights + 0x9E3779B97F4A7C15u), mix(options.weights ^ 0x2545F4914F6CDD1Du)};
}

chain_hash extended(const chain_hash& h, uint64_t word) {
  const uint64_t lo = mix(h.lo ^ (word + 0x9E3779B97F4A7C15u));
  const uint64_t hi = mix(h.hi + std::rotl(lo, 17) + word);
  return {hi, lo ^ std::rotl(hi, 41)};
}

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
  chain_hash h = start_hash(options);
  for (const int32_t token : prefix) h = extended(h, static_cast<uint32_t>(token));
  return h;
}

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), raw, raw + sizeof(T));
}

// Bytes that only the right tokens before and in the block can explain.
std::vector<std::byte> bytes_of(const chain_hash& h, size_t count) {
  std::vector<std::byte> out;
  out.reserve(count + sizeof(uint64_t));
  chain_hash stream = h;
  while (out.size() < count) {
    append(out, stream.lo);
    stream = extended(stream, out.size());
  }
  out.resize(count);
  return out;
}

class toy_sequence final : public sequence {
public:
  explicit toy_sequence(const toy_options& options)
      : hash_(start_hash(options)), block_bytes_(options.block_bytes) {}

  [[nodiscard]] uint32_t computed_tokens() const override { return computed_; }
  [[nodiscard]] uint64_t state_bytes() const override {
    return uint64_t{block_bytes_} * block_ends_.size() + sizeof(uint64_t) * tail_.size() +
           sizeof(int32_t) * ring_.size() + sizeof(hash_);
  }

  void push(int32_t token) {
    hash_ = extended(hash_, static_cast<uint32_t>(token));
    ++computed_;
    tail_.push_back(hash_.lo);
    ring_.push_back(token);
    if (ring_.size() > toy_ring_tokens) ring_.pop_front();
    if (computed_ % toy_block_tokens == 0) {
      block_ends_.push_back(hash_);
      tail_.clear();
    }
  }
  // A wrong byte in an imported part: from here on every token is another.
  void taint(uint64_t by) { hash_ = extended(hash_, by); }

  [[nodiscard]] const chain_hash& hash() const { return hash_; }

  [[nodiscard]] std::vector<state_part> parts() const {
    std::vector<state_part> out;
    for (const chain_hash& end : block_ends_)
      out.push_back(
          {part_kind::block, static_cast<uint32_t>(out.size()), bytes_of(end, block_bytes_)});
    if (!tail_.empty()) {
      state_part part{part_kind::block_tail, 0, {}};
      for (const uint64_t word : tail_) append(part.bytes, word);
      out.push_back(std::move(part));
    }
    if (!ring_.empty()) {
      state_part part{part_kind::ring, 0, {}};
      for (const int32_t token : ring_) append(part.bytes, token);
      out.push_back(std::move(part));
    }
    state_part state{part_kind::state, 0, {}};
    append(state.bytes, hash_);
    append(state.bytes, computed_);
    out.push_back(std::move(state));
    return out;
  }

private:
  chain_hash hash_;
  uint32_t block_bytes_;
  uint32_t computed_ = 0;
  std::vector<chain_hash> block_ends_;  ///< hash behind each full block
  std::vector<uint64_t> tail_;          ///< one word per token behind the last full block
  std::deque<int32_t> ring_;            ///< the last `toy_ring_tokens` tokens
};

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
    for (step_item& item : items) {
      item.sampled = -1;
      item.logprobs.clear();
      item.failed = !compute(item);
    }
  }

  [[nodiscard]] std::vector<state_part> export_state(const sequence& from) const override {
    return static_cast<const toy_sequence&>(from).parts();
  }

  [[nodiscard]] result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const override;

private:
  bool compute(step_item& item) {
    auto& target = static_cast<toy_sequence&>(*item.target);
    const int32_t next = target.last_sampled();
    const auto tokens = item.tokens.empty() ? std::span(&next, 1) : item.tokens;
    if (tokens.size() > options_.context_limit - target.computed_tokens()) return false;
    if (!std::ranges::all_of(tokens, [this](int32_t t) { return in_vocabulary(t); })) return false;
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
  [[nodiscard]] bool in_vocabulary(int32_t token) const {
    return token >= 0 && static_cast<uint32_t>(token) < options_.vocabulary;
  }

  toy_options options_;
  model_info info_;
};

// Compares what came with what the tokens demand. A missing or doubled part, or one of the wrong
// size, is refused in both import modes: no real model could take it over either.
result<std::unique_ptr<sequence>> toy_model::import_state(std::span<const state_part> parts,
                                                          std::span<const int32_t> tokens) const {
  if (tokens.size() > options_.context_limit)
    return failure{error_code::invalid_argument, "more tokens than the context limit"};
  auto target = std::make_unique<toy_sequence>(options_);
  for (const int32_t token : tokens) {
    if (!in_vocabulary(token))
      return failure{error_code::invalid_argument, "a token lies outside the vocabulary"};
    target->push(token);
  }
  const std::vector<state_part> wanted = target->parts();
  if (parts.size() != wanted.size())
    return failure{error_code::invalid_argument, "parts do not add up to the tokens"};
  for (const state_part& want : wanted) {
    const auto same_place = [&want](const state_part& p) {
      return p.kind == want.kind && p.index == want.index;
    };
    const auto got = std::ranges::find_if(parts, same_place);
    if (got == parts.end() || got->bytes.size() != want.bytes.size())
      return failure{error_code::invalid_argument, "a part is missing or has the wrong size"};
    if (got->bytes == want.bytes) continue;
    if (options_.import == toy_import::refuse)
      return failure{error_code::corrupt, "a part does not belong to these tokens"};
    uint64_t sum = 0;
    for (const std::byte b : got->bytes) sum = mix(sum ^ static_cast<uint64_t>(b));
    target->taint(sum);
  }
  return std::unique_ptr<sequence>(std::move(target));
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
