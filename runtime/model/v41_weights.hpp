#pragma once

#include "kernels/api/table.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <optional>
#include <vector>

/// The weights of the text model, dequantised to fp32 (exact: every stored format is a subset),
/// except the embedding and Engram tables, which are read row by row from the mapped file.
namespace deepinfer::model {

/// Row-major [rows][width]: `rows` outputs of `width` inputs.
struct matrix {
  std::vector<float> values;
  uint32_t rows = 0;
  uint32_t width = 0;
};

struct hyper_weights {
  std::vector<float> fn;
  std::vector<float> base;
  std::vector<float> scale;
};

struct attention_weights {
  matrix query_down;  ///< wq_a
  std::vector<float> query_norm;
  matrix query_up;  ///< wq_b
  matrix key_value;
  std::vector<float> key_value_norm;
  matrix output_down;  ///< wo_a: [groups * rank][heads * head_width / groups]
  matrix output_up;    ///< wo_b
  std::vector<float> sink;
};

/// Of a layer that makes compressed entries.
struct source_weights {
  matrix value;
  matrix gate;  ///< empty at ratio 1
  std::vector<float> norm;
  matrix index_key;
  std::vector<float> index_key_norm;
};

/// Of a layer that chooses among them.
struct chooser_weights {
  matrix query;
  matrix head_weight;
};

struct expert_weights {
  matrix gate;  ///< w1
  matrix down;  ///< w2
  matrix up;    ///< w3
};

struct engram_weights {
  const uint8_t* table = nullptr;   ///< in the mapped file
  const uint8_t* scales = nullptr;  ///< in the mapped file
  matrix key_value;
  std::vector<float> gain;  ///< q_weight * k_weight
};

struct layer_weights {
  std::vector<float> attention_norm;
  std::vector<float> expert_norm;
  hyper_weights attention_mix;
  hyper_weights expert_mix;
  attention_weights attention;
  std::optional<source_weights> source;
  std::optional<chooser_weights> chooser;
  std::optional<engram_weights> engram;
  matrix router;
  std::vector<float> router_bias;
  std::vector<expert_weights> experts;
  expert_weights shared;
};

struct v41_weights {
  const uint16_t* embedding = nullptr;   ///< bf16; in the mapped file or in `embedding_copy`
  std::vector<uint16_t> embedding_copy;  ///< only when the file holds it at an odd address
  std::vector<float> norm;
  matrix head;
  std::vector<layer_weights> layers;
  uint64_t resident_bytes = 0;  ///< fp32 copies
};

/// Reads every tensor the text model needs; `from` must outlive the answer. Fails when one is
/// missing, has another type or shape, or holds a number that is not finite; `too_large` when the
/// fp32 copies would need more than `most_bytes`.
[[nodiscard]] result<v41_weights> load_v41_weights(const checkpoint& from,
                                                   const v41_config& config,
                                                   const kernels::op_table& ops,
                                                   uint64_t most_bytes);

}  // namespace deepinfer::model
