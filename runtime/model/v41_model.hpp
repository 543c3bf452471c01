#pragma once

#include "kernels/api/cpu_device.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/graph_pass.hpp"
#include "runtime/model/prefix_restore.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/v41_drafter.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace deepinfer::model {

enum class kernel_backend : uint8_t {
  cpu,        ///< fp32 on the host
  reference,  ///< double, slow: tells a wrong kernel from a wrong graph
};

struct v41_options {
  numeric_level level = numeric_level::L1;
  uint32_t context_limit = 0;  ///< 0: what the checkpoint allows; more than that is cut to it
  uint32_t pass_rows = 256;    ///< rows computed at once; bounds the scratch memory
  kernel_backend backend = kernel_backend::cpu;
  /// Decoder replay: how many rows at a prompt's end pass the decoder, at least the window; 0: all.
  /// Unset: window + 12, which is the published 140.
  std::optional<uint32_t> kept_rows;
  replay_variant replay = replay_variant::late;
  uint32_t draft_tokens = 0;            ///< most drafts verified in a step, up to 5; 0: no drafter
  uint32_t threads = 1;                 ///< that compute, the caller's included; changes no bit
  std::optional<kernels::cpu_isa> isa;  ///< unset: the machine's best; changes no bit
  /// How long a step waits for each source layer's entries of a prefix hit, >= 0.
  std::chrono::milliseconds swap_wait = default_swap_wait;
};

struct forward_result {
  uint32_t first = 0;  ///< position of the first row below
  uint32_t rows = 0;
  std::vector<float> logits;         ///< [rows][vocabulary]
  std::vector<float> taps;           ///< [rows][target layers * width]; empty unless asked for
  std::vector<layer_record> layers;  ///< empty unless asked for
  std::vector<std::vector<float>> entries;     ///< per KV source, [.][head width]
  std::vector<std::vector<float>> index_keys;  ///< per KV source, [.][index width]
};

struct forward_options {
  bool per_layer = false;
  bool taps = false;
  uint32_t chunk = 0;      ///< tokens per pass; 0: the model's pass_rows
  uint32_t kept_rows = 0;  ///< decoder replay for this run; 0: every row
  std::span<const image_rows> images;
  /// Streams and pre behind every layer, for all positions: each layer but the first starts from
  /// these instead of what the layer before it made. Compares layer by layer. Empty: off.
  std::span<const layer_record> teacher;
};

/// What a prefix cache holds of a prompt.
struct prefix_source {
  std::span<const state_part> parts;  ///< blocks of the hit; for `ring` everything of an export
  std::span<const int32_t> prompt;
  uint32_t hit = 0;  ///< tokens, a multiple of the block size, below the prompt's
  /// The prompt's images, ascending (their places alone count): an image token elsewhere is text.
  std::span<const image_rows> images = {};
};

/// A checkpoint of the DeepSeek-V4.1 family on the CPU: text model and drafter. The interface of
/// `step_model` and what tests and tools need besides. Not thread-safe, as `step_model` says.
class v41_model final : public step_model {
public:
  /// Fails as `checkpoint::open`, `parse_v41_config`, `load_v41_weights` and `engram_hash::make`
  /// do.
  [[nodiscard]] static result<std::unique_ptr<v41_model>> load(const std::filesystem::path& folder,
                                                               const v41_options& options);
  ~v41_model() override;

  [[nodiscard]] const model_info& info() const override;
  [[nodiscard]] const v41_config& config() const;
  [[nodiscard]] std::unique_ptr<sequence> make_sequence() const override;
  void step(std::span<step_item> items) override;
  [[nodiscard]] std::vector<state_part> export_state(const sequence& from) const override;
  [[nodiscard]] result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const override;

  [[nodiscard]] restore_plan plan_restore(uint32_t prompt_tokens,
                                          uint32_t blocks,
                                          restore_mode mode) const override;
  /// Blocks carry no layout: without rings the caller answers for their being of `info().layout`.
  /// Refuses hits that are not what `plan_restore` gives for them.
  [[nodiscard]] result<restored_sequence> begin_restore(const restore_source& from) const override;
  [[nodiscard]] std::vector<state_part> export_blocks(const sequence& from,
                                                      uint32_t first,
                                                      uint32_t count) const override;
  [[nodiscard]] std::vector<state_part> export_rings(const sequence& from) const override;
  /// 0 where blocks differ in length: where 128 is no multiple of a ratio.
  [[nodiscard]] uint64_t block_bytes() const override;

  /// `begin_restore` with all its blocks: a sequence that stands where the prompt's remaining
  /// tokens are to be computed from: `computed_tokens()` of them are done, at most `hit`. Positions
  /// between are computed again for the rings' sake and leave the stored entries as they are;
  /// exported before it has passed `hit`, the sequence loses the entries behind and is as
  /// approximate as a bounded restore. Fails as `import_state` does, and when a `ring` restore
  /// reaches into what decoder replay computes
  /// (`usable_hit`).
  [[nodiscard]] result<std::unique_ptr<sequence>> restore(const prefix_source& from,
                                                          restore_mode mode) const;

  /// Proposals of the drafter behind `anchor`; the model must have been loaded with drafts.
  [[nodiscard]] result<draft_proposal> draft(sequence& behind, int32_t anchor);

  /// What the linear layers did since the model was loaded.
  [[nodiscard]] const linear_work& work() const;
  /// Stored bytes of the matrices that linear layers read (not of the tables that are looked up by
  /// row), and of the fp32 copies beside them.
  [[nodiscard]] uint64_t mapped_bytes() const;
  [[nodiscard]] uint64_t resident_bytes() const;

  /// Logits of every position of a fresh sequence; `invalid_argument` for tokens outside the
  /// vocabulary or too many of them.
  [[nodiscard]] result<forward_result> forward(std::span<const int32_t> tokens,
                                               const forward_options& options);

private:
  struct internals;
  explicit v41_model(std::unique_ptr<internals> p);
  [[nodiscard]] std::vector<int64_t> look_back(std::span<const int32_t> tokens) const;
  [[nodiscard]] std::vector<int64_t> look_back(std::span<const int32_t> tokens,
                                               std::span<const image_rows> images) const;

  std::unique_ptr<internals> inner_;
};

/// The model behind its general interface.
[[nodiscard]] result<std::unique_ptr<step_model>> make_v41_model(
    const std::filesystem::path& folder, const v41_options& options);

}  // namespace deepinfer::model
