#include "runtime/model/forward_dump.hpp"

#include "runtime/model/safetensors.hpp"

#include <algorithm>
#include <vector>

namespace deepinfer::model {
namespace {

// Views into a forward_result, with shapes.
class dump_builder {
public:
  void add(const std::string& name, const std::vector<float>& values, std::vector<uint64_t> shape) {
    tensors_.push_back(
        {name, tensor_type::f32, std::move(shape), std::as_bytes(std::span(values))});
  }
  void add(const std::string& name, std::span<const int32_t> values, std::vector<uint64_t> shape) {
    tensors_.push_back({name, tensor_type::i32, std::move(shape), std::as_bytes(values)});
  }
  [[nodiscard]] std::span<const tensor_view> tensors() const { return tensors_; }

private:
  std::vector<tensor_view> tensors_;
};

void add_layer(dump_builder& dump,
               const v41_config& c,
               const forward_result& from,
               uint32_t layer) {
  const layer_record& record = from.layers[layer];
  const std::string name = "full.layer" + std::to_string(layer) + ".";
  const uint64_t rows = from.rows;
  dump.add(name + "stream", record.stream, {rows, c.streams, c.width});
  dump.add(name + "pre", record.pre, {rows, c.streams});
  dump.add(name + "attn_in", record.attention_in, {rows, c.width});
  dump.add(name + "attn_out", record.attention_out, {rows, c.width});
  dump.add(name + "ffn_in", record.expert_in, {rows, c.width});
  dump.add(name + "ffn_out", record.expert_out, {rows, c.width});
  dump.add(name + "experts", record.experts, {rows, c.experts_per_token});
  dump.add(name + "expert_w", record.expert_weight, {rows, c.experts_per_token});
  if (!record.chosen.empty()) dump.add(name + "topk", record.chosen, {rows, c.index_top});
  if (!std::ranges::binary_search(c.kv_sources, layer)) return;
  const uint32_t source = c.kv_source_number(layer);
  const auto& entries = from.entries[source];
  const auto& keys = from.index_keys[source];
  dump.add(name + "ckv", entries, {entries.size() / c.head_width, c.head_width});
  dump.add(name + "ikey", keys, {keys.size() / c.index_width, c.index_width});
}

}  // namespace

result<void> write_forward_dump(const std::filesystem::path& checkpoint_folder,
                                std::span<const int32_t> tokens,
                                const std::filesystem::path& out,
                                const dump_options& options) {
  v41_options model_options;
  model_options.level = options.level;
  model_options.backend = options.backend;
  const auto model = v41_model::load(checkpoint_folder, model_options);
  if (!model) return model.error();
  const auto forward = (*model)->forward(
      tokens,
      {.per_layer = options.per_layer, .chunk = options.chunk, .images = {}, .teacher = {}});
  if (!forward) return forward.error();
  const v41_config& c = (*model)->config();
  dump_builder dump;
  dump.add("prompt", tokens, {tokens.size()});
  dump.add("full.logits", forward->logits, {forward->rows, c.vocabulary});
  for (uint32_t layer = 0; layer < forward->layers.size(); ++layer)
    add_layer(dump, c, *forward, layer);
  return write_safetensors(out, dump.tensors());
}

}  // namespace deepinfer::model
