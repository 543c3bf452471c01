#pragma once

#include "proto/types/result.hpp"
#include "proto/types/token_logprobs.hpp"
#include "runtime/model/swap_in.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// What an engine needs of a model, and nothing more: sequences that are values, and a step over
/// several of them. Implemented by the V4.1 model (`v41_model.hpp`) and by the hash-chain toy
/// model of the simulation (`toy_model.hpp`), whose next token is a hash of the whole prefix, so
/// that a routing, caching or transfer bug shows as a wrong token.
namespace deepinfer::model {

/// How the next token is chosen. The noise is a function of (seed, position) alone, so it does not
/// depend on batch, schedule, engine or migration.
struct sampling_params {
  float temperature = 0;  ///< 0: greedy
  float top_p = 1;
  uint32_t top_k = 0;  ///< 0: off
  uint64_t seed = 0;
  /// Log probabilities of what is chosen: 0: none; else 1 and the number of best tokens to tell
  /// beside each, at most 1 + limits::max_alternatives. Changes no token.
  uint32_t logprobs = 0;
};

struct model_info {
  std::string name;  ///< folder name of the checkpoint
  uint32_t vocabulary = 0;
  uint32_t context_limit = 0;  ///< tokens of prompt and output together
  std::vector<int32_t> stop_tokens;
  uint64_t layout = 0;                 ///< fingerprint of weights, level and state layout
  uint64_t state_bytes_per_token = 0;  ///< what grows with the context
  uint64_t state_bytes_fixed = 0;      ///< rings, pending rows, look-back
};

/// Numbers are those of `PartKind` in proto/wire/kv.capnp.
enum class part_kind : uint16_t { block = 0, block_tail = 1, ring = 2, state = 3 };

/// One piece of a sequence's state, ready to be moved.
struct state_part {
  part_kind kind = part_kind::state;
  uint32_t index = 0;
  std::vector<std::byte> bytes;
};

/// Per-sequence state; made, stepped and read by its model only. Not shared between threads.
class sequence {
public:
  virtual ~sequence() = default;
  /// Positions whose state is held; the next token to compute goes to this position.
  [[nodiscard]] virtual uint32_t computed_tokens() const = 0;
  [[nodiscard]] virtual uint64_t state_bytes() const = 0;
  /// The token the last sampling step chose (what "continue" computes next); -1 before.
  [[nodiscard]] int32_t last_sampled() const { return last_sampled_; }
  void set_last_sampled(int32_t token) { last_sampled_ = token; }

private:
  int32_t last_sampled_ = -1;
};

/// Rows that replace the embeddings of an image's positions; the tokens there are the model's image
/// token.
struct image_rows {
  uint32_t position = 0;  ///< in the sequence
  uint32_t count = 0;
  const float* rows = nullptr;  ///< [count][width of the model]
};

/// One sequence's share of a step.
struct step_item {
  sequence* target = nullptr;
  std::span<const int32_t> tokens;     ///< a prefill chunk; empty: compute `target->last_sampled()`
  uint32_t tokens_to_come = 0;         ///< of the same prompt, behind this chunk
  std::span<const image_rows> images;  ///< of the chunk's image tokens, ascending; may reach out
  /// Choose a token behind the last computed one: not inside a prompt (`tokens_to_come` > 0), whose
  /// rows may never reach the head.
  bool sample = false;
  sampling_params sampling;
  /// Without `tokens`, when sampling: most tokens to draft and verify in this step besides the one
  /// that is certain. A model without a drafter takes it as 0.
  uint32_t draft_tokens = 0;
  /// Out: drafts that turned out to be what sampling chooses, in order, before `sampled`.
  std::vector<int32_t> accepted;
  int32_t sampled = -1;  ///< out, when `sample`
  /// Out, when `sampling.logprobs`: of each of `accepted`, then of `sampled`.
  std::vector<token_logprobs> logprobs;
  bool failed = false;  ///< out: the item could not be computed (context limit, numbers not finite)
  /// Out, with `failed`: the blocks of its prefix did not arrive; a fresh sequence would work.
  bool state_missing = false;
};

/// How the window rings behind a prefix hit come to be (KV-36).
enum class restore_mode : uint8_t {
  ring,     ///< the rings were kept: nothing is computed again; bits of the cold run
  bounded,  ///< one window of rows (or an open group, if longer) is computed again from empty
            ///< rings: fixed cost, approximate
  exact,    ///< deep enough that every ring is right: bits of the cold run
};

/// Where a prompt's computing starts after a hit.
struct restore_plan {
  uint32_t hit = 0;    ///< tokens of the hit that can be used, whole blocks; 0: none
  uint32_t start = 0;  ///< first position to compute, <= hit
};

/// What a prefix cache has of a prompt, without the blocks' bytes.
struct restore_source {
  std::span<const int32_t> prompt;
  uint32_t hit = 0;  ///< as `plan_restore` gave it
  restore_mode mode = restore_mode::exact;
  std::span<const state_part> rings;  ///< for `ring`: `export_rings` of the first `hit` tokens
  /// The prompt's images, ascending; their places alone count. An image token elsewhere is text.
  std::span<const image_rows> images;
};

class step_model {
public:
  virtual ~step_model() = default;

  [[nodiscard]] virtual const model_info& info() const = 0;

  /// An empty sequence.
  [[nodiscard]] virtual std::unique_ptr<sequence> make_sequence() const = 0;

  /// Computes all items. A sequence may occur once. One caller at a time. The result for a
  /// sequence does not depend on the others in the step nor on how its prefill was cut.
  virtual void step(std::span<step_item> items) = 0;

  /// The state of all computed positions as bytes, and back. `import_state` refuses (`corrupt`,
  /// `invalid_argument`) parts that do not add up to exactly `tokens.size()` computed positions.
  [[nodiscard]] virtual std::vector<state_part> export_state(const sequence& from) const = 0;
  [[nodiscard]] virtual result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const = 0;

  // ---- prefix caching; a model that leaves these alone has no prefix to offer

  /// Pure. `blocks` of a prompt of `prompt_tokens` are stored, each of `cache_block_tokens`. No hit
  /// when nothing would be saved.
  [[nodiscard]] virtual restore_plan plan_restore(uint32_t /*prompt_tokens*/,
                                                  uint32_t /*blocks*/,
                                                  restore_mode /*mode*/) const {
    return {};
  }
  /// A sequence at `plan.start`, into which the blocks come through `loading`, also while it is
  /// being stepped. Fails as `import_state` does.
  [[nodiscard]] virtual result<restored_sequence> begin_restore(
      const restore_source& /*from*/) const {
    return failure{error_code::unsupported, "this model restores no prefixes"};
  }
  /// Full blocks first .. first + count - 1, as `export_state` has them. None when not all of them
  /// are computed, or blocks of a restore are still on their way (`export_state` and `export_rings`
  /// have no parts then, either).
  [[nodiscard]] virtual std::vector<state_part> export_blocks(const sequence& /*from*/,
                                                              uint32_t /*first*/,
                                                              uint32_t /*count*/) const {
    return {};
  }
  /// Everything but blocks, of a sequence whose computed tokens are whole blocks; otherwise none.
  [[nodiscard]] virtual std::vector<state_part> export_rings(const sequence& /*from*/) const {
    return {};
  }
  /// Bytes of each full block; all have the same length. 0: nothing to store.
  [[nodiscard]] virtual uint64_t block_bytes() const { return 0; }
};

/// Tokens of a block; part of every layout.
inline constexpr uint32_t cache_block_tokens = 128;

}  // namespace deepinfer::model
