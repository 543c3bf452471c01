#include "runtime/model/model_size.hpp"

#include <charconv>

namespace deepinfer::model {
namespace {

// Two values lie in a byte of an FP4 weight; scales belong to the weights they scale.
uint64_t weights_in(const table_entry& entry) {
  if (entry.type == tensor_type::f8_e8m0) return 0;
  return entry.elements() * (entry.type == tensor_type::i8 ? 2 : 1);
}

bool routed(const table_entry& entry) {
  return entry.name.find(".ffn.experts.") != std::string::npos;
}

// The layer in "layers.14.engram.wkv.weight".
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  const std::string_view digits = name.substr(name.find('.') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  return layer;
}

}  // namespace

model_size size_of(const v41_config& config, std::span<const table_entry> table) {
  model_size out;
  uint64_t routed_encoder = 0, routed_decoder = 0;
  for (const table_entry& entry : table) {
    const uint64_t weights = weights_in(entry);
    out.parameters += weights;
    if (routed(entry)) out.routed_bytes += entry.bytes();
    const bool table_rows = entry.group == tensor_group::engram_tables;
    (table_rows ? out.mapped_bytes : out.resident_bytes) += entry.bytes();
    switch (entry.group) {
      case tensor_group::encoder:
        (routed(entry) ? routed_encoder : out.active_encoder) += weights;
        break;
      case tensor_group::decoder:
        (routed(entry) ? routed_decoder : out.active_decoder) += weights;
        break;
      case tensor_group::engram_projections:
        (layer_of(entry.name) < config.decoder_start() ? out.active_encoder : out.active_decoder) +=
            weights;
        break;
      case tensor_group::head:
        out.active_head += weights;
        break;
      case tensor_group::embedding:
      case tensor_group::engram_tables:
      case tensor_group::drafter:
      case tensor_group::vision:
        break;
    }
  }
  // All experts of a model have the same size.
  out.active_encoder += routed_encoder / config.experts * config.experts_per_token;
  out.active_decoder += routed_decoder / config.experts * config.experts_per_token;
  return out;
}

}  // namespace deepinfer::model
