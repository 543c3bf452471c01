#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/v41_model.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

/// Tools on a checkpoint, for the command line.
namespace deepinfer::model {

struct dump_options {
  numeric_level level = numeric_level::L0;
  bool per_layer = false;
  uint32_t chunk = 0;  ///< 0: as many rows at once as the model allows
  kernel_backend backend = kernel_backend::cpu;
};

/// Runs `tokens` through the checkpoint and writes a safetensors file with the names of the
/// reference's dump: prompt, full.logits and, per layer l, full.layer{l}.stream, pre, attn_in,
/// attn_out, ffn_in, ffn_out, experts, expert_w, topk (index sources), ckv, ikey (KV sources).
[[nodiscard]] result<void> write_forward_dump(const std::filesystem::path& checkpoint_folder,
                                              std::span<const int32_t> tokens,
                                              const std::filesystem::path& out,
                                              const dump_options& options);

/// A JSON object: name, shape of the model, tensors and bytes by type and by owner, state sizes,
/// layout fingerprint at L0 and L1. Reads headers and the fingerprinted content, no weights.
[[nodiscard]] result<std::string> describe_model(const std::filesystem::path& checkpoint_folder);

}  // namespace deepinfer::model
