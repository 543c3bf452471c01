#include "actors/serve/sequence_wire.hpp"

#include "actors/serve/staged_wire.hpp"
#include "proto/types/limits.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/model/sampler.hpp"

#include <atomic>
#include <cstring>
#include <mutex>

namespace deepinfer {
namespace {

/// The reads of one hand-over; lives until the last of them called back.
struct pull {
  std::vector<model::state_part> parts;
  std::vector<digest128> digests;
  std::atomic<size_t> open{0};
  std::mutex mutex;  ///< guards `outcome`: lanes may have threads of their own
  result<void> outcome;
  std::function<void(result<void>, std::vector<model::state_part>)> done;

  void note(const result<void>& read, size_t index) {
    result<void> verdict = read;
    if (verdict && digest_of(parts[index].bytes) != digests[index])
      verdict = failure{error_code::corrupt,
                        "part " + std::to_string(index) + " of a sequence arrived damaged"};
    if (!verdict) {
      const std::lock_guard lock{mutex};
      if (outcome) outcome = verdict;
    }
    if (open.fetch_sub(1) == 1)
      done(outcome, outcome ? std::move(parts) : std::vector<model::state_part>{});
  }
};

/// What a hand-over may claim: what the model says such a sequence needs, twice, and a little.
result<void> check_claim(capnp::List<wire::BulkPart>::Reader parts,
                         uint64_t tokens,
                         const model::model_info& model) {
  constexpr uint64_t block_tokens = 128;
  const uint64_t limit =
      2 * (model.state_bytes_per_token * (tokens + block_tokens) + model.state_bytes_fixed) +
      64 * 1024;
  if (parts.size() > limits::max_bulk_parts)
    return failure{error_code::too_large,
                   "a sequence of " + std::to_string(parts.size()) + " parts"};
  uint64_t bytes = 0;
  for (const auto part : parts) {
    const uint64_t length = part.getBytes().getLength();
    if (length > limit - bytes)
      return failure{error_code::too_large, "a sequence of " + std::to_string(tokens) +
                                                " tokens that claims more than " +
                                                std::to_string(limit) + " bytes"};
    bytes += length;
  }
  return {};
}

}  // namespace

request_id read_request_id(wire::RequestKey::Reader key) {
  return {key.getId().getHi(), key.getId().getLo()};
}

leg_epoch read_leg(wire::RequestKey::Reader key) {
  return leg_epoch{key.getLeg()};
}

void write_key(wire::RequestKey::Builder out, const request_id& id, leg_epoch leg) {
  out.initId().setHi(id.hi);
  out.getId().setLo(id.lo);
  out.setLeg(static_cast<uint32_t>(leg));
}

result<model::sampling_params> read_sampling(wire::Sampling::Reader in) {
  const model::sampling_params params{in.getTemperature(), in.getTopP(), in.getTopK(), in.getSeed(),
                                      in.getLogprobs()};
  if (const auto valid = model::validate(params); !valid) return valid.error();
  return params;
}

void write_sampling(wire::Sampling::Builder out, const model::sampling_params& params) {
  out.setTemperature(params.temperature);
  out.setTopP(params.top_p);
  out.setTopK(params.top_k);
  out.setSeed(params.seed);
  out.setLogprobs(static_cast<uint8_t>(params.logprobs));
}

result<std::vector<int32_t>> read_tokens(capnp::Data::Reader in, uint32_t vocabulary) {
  if (in.size() % sizeof(int32_t) != 0)
    return failure{error_code::invalid_argument, "token ids are not a multiple of four bytes"};
  std::vector<int32_t> ids(in.size() / sizeof(int32_t));
  if (ids.size() > limits::max_prompt_tokens)
    return failure{error_code::too_large, std::to_string(ids.size()) + " tokens in one message"};
  if (!ids.empty()) std::memcpy(ids.data(), in.begin(), in.size());
  for (const int32_t id : ids)
    if (id < 0 || static_cast<uint32_t>(id) >= vocabulary)
      return failure{error_code::invalid_argument,
                     "token id " + std::to_string(id) + " is not in the vocabulary"};
  return ids;
}

capnp::Data::Reader token_bytes(std::span<const int32_t> ids) {
  return {reinterpret_cast<const kj::byte*>(ids.data()), ids.size_bytes()};
}

cache_line read_line(wire::CacheLine::Reader in, uint64_t layout) {
  const auto traffic = static_cast<storage::traffic_class>(in.getTraffic());
  const bool known =
      traffic == storage::traffic_class::agent || traffic == storage::traffic_class::chat;
  if (in.getLayout() != layout || !known || in.getGroupBlocks() == 0) return {};
  const storage::shared_prefix shared{{in.getSharedRoot().getHi(), in.getSharedRoot().getLo()},
                                      in.getSharedBlocks()};
  if (shared.blocks != 0 && !shared.root) return {};
  return {{in.getRoot().getHi(), in.getRoot().getLo()},
          in.getLayout(),
          in.getScope(),
          traffic,
          in.getGroupBlocks(),
          shared};
}

void write_line(wire::CacheLine::Builder out, const cache_line& line) {
  out.initRoot().setHi(line.root.hi);
  out.getRoot().setLo(line.root.lo);
  out.setLayout(line.layout);
  out.setScope(line.scope);
  out.setTraffic(static_cast<uint8_t>(line.traffic));
  out.setGroupBlocks(line.group_blocks);
  if (line.shared.blocks == 0) return;
  out.initSharedRoot().setHi(line.shared.root.hi);
  out.getSharedRoot().setLo(line.shared.root.lo);
  out.setSharedBlocks(line.shared.blocks);
}

void write_sequence(wire::SequenceState::Builder out,
                    const engine_sequence& from,
                    const model::model_info& model,
                    const staged_sequence& staged,
                    const actor_ref& owner,
                    std::chrono::milliseconds ttl) {
  out.setModel(model.name);
  out.setLayout(model.layout);
  out.setTokens(token_bytes(from.tokens));
  out.setPromptTokens(from.prompt_tokens);
  out.setComputedTokens(static_cast<uint32_t>(from.tokens.size()) - 1);
  auto sampling = out.initSampling();
  write_sampling(sampling, from.sampling);
  sampling.setMaxTokens(from.max_tokens);
  sampling.setIgnoreEos(from.ignore_eos);
  if (from.cache.root) {
    write_line(out.initCache(), from.cache);
    out.setStoredBlocks(from.stored_blocks);
  }
  write_parts(out.initParts(static_cast<uint32_t>(staged.parts.size())), staged);
  write_lease(out.initLease(), staged.lease, owner, ttl);
}

result<engine_sequence> read_sequence(wire::SequenceState::Reader in,
                                      const model::model_info& model,
                                      const cache_config& cache) {
  if (in.getModel() != model.name.c_str() || in.getLayout() != model.layout)
    return failure{
        error_code::unsupported,
        "the sequence belongs to model " + std::string{in.getModel().cStr()} +
            " with another layout or other weights: run the same checkpoint on all nodes"};
  auto tokens = read_tokens(in.getTokens(), model.vocabulary);
  if (!tokens) return tokens.error();
  engine_sequence s;
  s.tokens = *std::move(tokens);
  s.prompt_tokens = in.getPromptTokens();
  s.max_tokens = in.getSampling().getMaxTokens();
  s.ignore_eos = in.getSampling().getIgnoreEos();
  const auto sampling = read_sampling(in.getSampling());
  if (!sampling) return sampling.error();
  s.sampling = *sampling;
  const bool adds_up = s.prompt_tokens > 0 && s.prompt_tokens < s.tokens.size() &&
                       in.getComputedTokens() + size_t{1} == s.tokens.size() &&
                       s.outputs() < s.max_tokens && s.tokens.size() <= model.context_limit &&
                       uint64_t{in.getStoredBlocks()} * model::cache_block_tokens < s.tokens.size();
  if (!adds_up)
    return failure{error_code::invalid_argument, "the token counts of a hand-over do not add up"};
  s.cache = read_line(in.getCache(), chain_layout(cache, model.layout));
  if (s.cache.root) s.stored_blocks = in.getStoredBlocks();
  if (const auto fits = check_claim(in.getParts(), s.tokens.size(), model); !fits)
    return fits.error();
  return s;
}

void pull_parts(net::transport& transport,
                capnp::List<wire::BulkPart>::Reader parts,
                const node_id& owner,
                std::chrono::milliseconds deadline,
                std::function<void(result<void>, std::vector<model::state_part>)> done) {
  auto state = std::make_shared<pull>();
  state->done = std::move(done);
  for (const auto part : parts) {
    state->parts.push_back({static_cast<model::part_kind>(part.getKind()), part.getIndex(),
                            std::vector<std::byte>(part.getBytes().getLength())});
    state->digests.push_back({part.getBytes().getDigestHi(), part.getBytes().getDigestLo()});
  }
  // One more than there are reads, so that an empty list ends too, and nothing ends early.
  state->open = parts.size() + 1;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const auto bytes = parts[i].getBytes();
    transport.read(owner, {bytes.getRegion(), bytes.getOffset(), bytes.getLength()},
                   state->parts[i].bytes, deadline,
                   [state, i](const result<void>& read) { state->note(read, i); });
  }
  if (state->open.fetch_sub(1) == 1)
    state->done(state->outcome,
                state->outcome ? std::move(state->parts) : std::vector<model::state_part>{});
}

void pull_sequence(net::transport& transport,
                   wire::SequenceState::Reader from,
                   std::chrono::milliseconds deadline,
                   std::function<void(result<void>, std::vector<model::state_part>)> done) {
  const node_id owner{from.getLease().getNode().getHi(), from.getLease().getNode().getLo()};
  pull_parts(transport, from.getParts(), owner, deadline, std::move(done));
}

}  // namespace deepinfer
