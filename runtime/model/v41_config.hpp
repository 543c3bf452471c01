#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::model {

enum class gate_function : uint8_t { sqrt_softplus, sigmoid, softmax };

struct yarn_config {
  uint32_t original_positions = 0;  ///< 0: off
  double factor = 1;
  double fast_turns = 32;
  double slow_turns = 1;
};

struct engram_config {
  std::vector<uint32_t> layers;      ///< ascending; empty: no Engram
  std::vector<uint64_t> table_rows;  ///< one per layer
  uint32_t longest_ngram = 1;        ///< look-back is one less
  uint32_t heads = 0;                ///< hash columns per n-gram length
  uint32_t row_width = 0;
  uint32_t prime_start = 0;  ///< primes are searched from here
  uint32_t pad_token = 0;
  uint32_t compressed_vocabulary = 0;

  [[nodiscard]] uint32_t columns() const { return (longest_ngram - 1) * heads; }
};

/// The DSpark drafter (`mtp.*`): `stages` blocks that draft `block` tokens in one pass.
struct drafter_config {
  uint32_t stages = 0;  ///< 0: the checkpoint has no drafter
  uint32_t block = 0;   ///< tokens drafted at once
  uint32_t noise_token = 0;
  std::vector<uint32_t> target_layers;  ///< ascending; their entering streams are the taps
  uint32_t markov_rank = 0;
  uint32_t experts = 0;  ///< of a stage; their width is the backbone's
  uint32_t experts_per_token = 0;
};

/// The text model's `config.json`, every field checked. Lists of layers are ascending.
struct v41_config {
  uint32_t vocabulary = 0;
  uint32_t width = 0;  ///< hidden size
  uint32_t layers = 0;
  uint32_t max_positions = 0;
  std::vector<int32_t> stop_tokens;
  int32_t image_token = -1;  ///< every position of an image span carries it; -1: no images

  uint32_t heads = 0;
  uint32_t head_width = 0;
  uint32_t rope_width = 0;  ///< last channels of a head
  uint32_t query_rank = 0;
  uint32_t output_groups = 0;
  uint32_t output_rank = 0;
  uint32_t window = 0;
  double rope_base = 0;
  double compressed_rope_base = 0;
  yarn_config yarn;  ///< of layers with a ratio above 0

  std::vector<uint32_t> ratios;         ///< tokens per compressed entry, one per layer; 0: none
  std::vector<uint32_t> kv_sources;     ///< layers that make compressed entries
  std::vector<uint32_t> index_sources;  ///< layers that choose among them
  int64_t candidate_source = -1;        ///< -1: none
  uint32_t candidate_blocks = 0;
  uint32_t candidate_block_size = 1;
  uint32_t index_heads = 0;
  uint32_t index_width = 0;
  uint32_t index_top = 0;

  uint32_t expert_width = 0;
  uint32_t experts = 0;
  uint32_t experts_per_token = 0;
  gate_function gate = gate_function::sqrt_softplus;
  double gate_temperature = 1;
  bool normalize_weights = true;
  double routed_scale = 1;
  double swiglu_limit = 0;  ///< 0: none

  uint32_t streams = 1;
  uint32_t mix_rounds = 1;
  double mix_epsilon = 0;
  double norm_epsilon = 0;
  engram_config engram;
  drafter_config drafter;

  /// The layer whose published data layer `layer` reads: the closest source at or before it.
  /// The layer must have a ratio above 0.
  [[nodiscard]] uint32_t kv_source_of(uint32_t layer) const;
  [[nodiscard]] uint32_t index_source_of(uint32_t layer) const;
  /// Position of a layer in `kv_sources`.
  [[nodiscard]] uint32_t kv_source_number(uint32_t source_layer) const;
  /// The first layer of the decoder: the last KV source; `layers` when there is no source.
  [[nodiscard]] uint32_t decoder_start() const {
    return kv_sources.empty() ? layers : kv_sources.back();
  }
};

/// `invalid_argument` names the field and what it must be; `unsupported` for valid models of
/// another kind. Accepted besides the released form: `compress_ratios` with or without the
/// drafter's layers, `engram_pad_id`, no `gate_temp`, no drafter, text fields at the top level.
[[nodiscard]] result<v41_config> parse_v41_config(std::string_view json_text);

}  // namespace deepinfer::model
