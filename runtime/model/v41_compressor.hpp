#pragma once

#include "runtime/model/graph_pass.hpp"

#include <vector>

namespace deepinfer::model {

/// Makes the compressed entries and index keys of a KV source out of its products.
class v41_compressor {
public:
  explicit v41_compressor(const graph_context& context);

  /// The products of the source's value (and gate) weights to be added to a batch of linears:
  /// writes at most two into `items`, returns how many.
  uint32_t products(const source_weights& w,
                    const graph_pass& pass,
                    const float* x,
                    kernels::linear_args* items);

  /// Appends to every sequence the entries its rows complete. Entries a sequence holds already
  /// (a prefix hit) are left as they are.
  void publish(uint32_t layer, const graph_pass& pass);

private:
  uint32_t take_groups(const graph_segment& segment, kv_source_state& state);
  void pool(uint32_t groups, uint32_t ratio);
  void make_entries(const source_weights& w, uint32_t groups);

  graph_ops ops_;
  std::vector<float> frequency_;
  std::vector<float> value_, gate_, group_value_, group_gate_, latent_, index_key_;
  std::vector<uint32_t> position_, groups_;
  rope_angles angles_;
  std::vector<uint8_t> packed_entries_, packed_index_keys_;
};

}  // namespace deepinfer::model
