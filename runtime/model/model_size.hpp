#pragma once

#include "runtime/model/tensor_table.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <span>

namespace deepinfer::model {

/// Numbers a model is described by; parameters are weights without their scales.
struct model_size {
  uint64_t parameters = 0;
  /// Used for one token, as published: layers with the chosen experts and the shared one,
  /// compressors, indexers and Engram projections; without tables that are looked up in.
  uint64_t active_encoder = 0;  ///< what a prompt token costs
  uint64_t active_decoder = 0;
  uint64_t active_head = 0;
  uint64_t mapped_bytes = 0;    ///< Engram tables: read row by row, may stay on disk
  uint64_t resident_bytes = 0;  ///< everything else, the drafter and vision too
  uint64_t routed_bytes = 0;    ///< of these, routed experts of backbone and drafter

  /// What a generated token costs.
  [[nodiscard]] uint64_t active() const { return active_encoder + active_decoder + active_head; }
};

/// `table` is that of `config`.
[[nodiscard]] model_size size_of(const v41_config& config, std::span<const table_entry> table);

}  // namespace deepinfer::model
