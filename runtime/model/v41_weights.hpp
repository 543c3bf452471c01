#pragma once

#include "kernels/api/table.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <optional>
#include <vector>

/// The weights of text model and drafter: matrices are views into the mapped files, in their stored
/// format; only short vectors (gains, biases, mixing constants) are copied as fp32.
namespace deepinfer::model {

using kernels::weight_matrix;

struct hyper_weights {
  weight_matrix fn;
  std::vector<float> base;
  std::vector<float> scale;
};

struct attention_weights {
  weight_matrix query_down;  ///< wq_a
  std::vector<float> query_norm;
  weight_matrix query_up;  ///< wq_b
  weight_matrix key_value;
  std::vector<float> key_value_norm;
  weight_matrix output_down;  ///< wo_a: [groups * rank][heads * head_width / groups]
  weight_matrix output_up;    ///< wo_b
  std::vector<float> sink;
};

/// Of a layer that makes compressed entries.
struct source_weights {
  weight_matrix value;
  weight_matrix gate;  ///< empty at ratio 1
  std::vector<float> norm;
  weight_matrix index_key;
  std::vector<float> index_key_norm;
};

/// Of a layer that chooses among them.
struct chooser_weights {
  weight_matrix query;
  weight_matrix head_weight;
};

struct expert_weights {
  weight_matrix gate;  ///< w1
  weight_matrix down;  ///< w2
  weight_matrix up;    ///< w3
};

struct engram_weights {
  const uint8_t* table = nullptr;   ///< in the mapped file
  const uint8_t* scales = nullptr;  ///< in the mapped file
  uint64_t rows = 0;
  weight_matrix key_value;
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
  weight_matrix router;
  std::vector<float> router_bias;
  std::vector<float> router_image_bias;  ///< for rows of an image; empty: the checkpoint has none
  uint32_t experts_per_token = 0;
  std::vector<expert_weights> experts;
  expert_weights shared;
};

/// `mtp.*`: the drafter's stages and what stands around them.
struct drafter_weights {
  weight_matrix main;  ///< taps of all target layers -> width
  std::vector<float> main_norm;
  std::vector<layer_weights> stages;
  std::vector<float> norm;
  const uint8_t* markov_embedding = nullptr;  ///< bf16 [vocabulary][rank], at any address
  weight_matrix markov_head;
  weight_matrix confidence;
};

struct v41_weights {
  const uint16_t* embedding = nullptr;   ///< bf16; in the mapped file or in `embedding_copy`
  std::vector<uint16_t> embedding_copy;  ///< only when the file holds it at an odd address
  std::vector<float> norm;
  weight_matrix head;
  std::vector<layer_weights> layers;
  std::optional<drafter_weights> drafter;  ///< when the configuration has one
  uint64_t mapped_bytes = 0;               ///< of the matrices that stay in the files
  uint64_t resident_bytes = 0;             ///< fp32 copies
};

/// Matrices above this many bytes in all are not read at start to look for numbers that are not
/// finite (their scales are): `deepinfer model verify` reads everything.
inline constexpr uint64_t scanned_weight_bytes = uint64_t{256} << 20;

/// Finds every tensor of the text model and its drafter; `from` must outlive the answer. Fails when
/// one is missing, has another type or shape, or holds a number that is not finite.
[[nodiscard]] result<v41_weights> load_v41_weights(const checkpoint& from,
                                                   const v41_config& config,
                                                   const kernels::op_table& ops);

}  // namespace deepinfer::model
