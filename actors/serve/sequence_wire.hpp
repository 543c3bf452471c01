#pragma once

#include "actors/messages/engine.hpp"
#include "actors/serve/engine.hpp"
#include "proto/wire/request.capnp.h"
#include "proto/wire/sequence.capnp.h"

#include <functional>
#include <span>
#include <vector>

/// Between the words of `proto/wire` and plain values. A sequence that travels is described
/// completely here; see `sequence.capnp`.
namespace deepinfer {

[[nodiscard]] request_id read_request_id(wire::RequestKey::Reader key);
[[nodiscard]] leg_epoch read_leg(wire::RequestKey::Reader key);
void write_key(wire::RequestKey::Builder out, const request_id& id, leg_epoch leg);

/// `invalid_argument` for settings out of range.
[[nodiscard]] result<model::sampling_params> read_sampling(wire::Sampling::Reader in);
void write_sampling(wire::Sampling::Builder out, const model::sampling_params& params);

/// `invalid_argument` unless a whole number of ids, none beyond the vocabulary, at most
/// `limits::max_prompt_tokens`.
[[nodiscard]] result<std::vector<int32_t>> read_tokens(capnp::Data::Reader in, uint32_t vocabulary);
[[nodiscard]] capnp::Data::Reader token_bytes(std::span<const int32_t> ids);

/// Which chain a sequence belongs to. Root zero for a line of another layout than this engine's
/// chains have, and for one whose numbers are out of range.
[[nodiscard]] cache_line read_line(wire::CacheLine::Reader in, uint64_t layout);
void write_line(wire::CacheLine::Builder out, const cache_line& line);

/// Describes `from` and where its state lies.
void write_sequence(wire::SequenceState::Builder out,
                    const engine_sequence& from,
                    const model::model_info& model,
                    const staged_sequence& staged,
                    const actor_ref& owner,
                    std::chrono::milliseconds ttl);

/// Checks a hand-over against what this engine computes with; `unsupported` for another model,
/// weights or layout, `invalid_argument` for numbers that do not add up.
[[nodiscard]] result<engine_sequence> read_sequence(wire::SequenceState::Reader in,
                                                    const model::model_info& model,
                                                    const cache_config& cache);

/// Reads parts one-sided and verifies their digests. `done` is called once, on the transport's
/// thread: parts in order, or why not (`corrupt` for bytes that are not what was described).
void pull_parts(net::transport& transport,
                capnp::List<wire::BulkPart>::Reader parts,
                const node_id& owner,
                std::chrono::milliseconds deadline,
                std::function<void(result<void>, std::vector<model::state_part>)> done);

/// The same for all parts of a sequence.
void pull_sequence(net::transport& transport,
                   wire::SequenceState::Reader from,
                   std::chrono::milliseconds deadline,
                   std::function<void(result<void>, std::vector<model::state_part>)> done);

}  // namespace deepinfer
