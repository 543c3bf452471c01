// What a downloaded checkpoint may hold: a safetensors file, or (first byte odd) a config.json. The
// header's length field is set to fit, so that the search reaches the JSON behind it.
#include "proto/types/check.hpp"
#include "runtime/model/safetensors.hpp"
#include "runtime/model/v41_config.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr std::string_view config = R"({"model_type": "deepseek_v41", "vocab_size": 64,
 "hidden_size": 64, "num_hidden_layers": 3, "moe_intermediate_size": 64, "num_attention_heads": 4,
 "head_dim": 64, "qk_rope_head_dim": 16, "q_lora_rank": 32, "o_groups": 2, "o_lora_rank": 32,
 "rms_norm_eps": 1e-20, "max_position_embeddings": 99, "rope_theta": 10000, "hc_mult": 2,
 "compress_rope_theta": 160000, "n_routed_experts": 4, "num_experts_per_tok": 2,
 "sliding_window": 16, "compress_ratios": [0, 2, 1], "kv_source_layer_ids": [1, 2],
 "index_source_layer_ids": [1, 2], "index_n_heads": 2, "index_head_dim": 32, "index_topk": 8,
 "candidate_source_layer_id": 2, "candidate_topk_blocks": 3, "candidate_block_size": 4,
 "hc_sinkhorn_iters": 20, "hc_eps": 1e-6})";

// What is accepted must be safe to use: every layer that reads a source has one.
void read_config(std::string_view text) {
  const auto c = parse_v41_config(text);
  if (!c) return;
  DEEPINFER_CHECK(c->ratios.size() == c->layers);
  for (uint32_t layer = 0; layer < c->layers; ++layer) {
    if (c->ratios[layer] == 0) continue;
    DEEPINFER_CHECK(c->kv_source_of(layer) <= c->index_source_of(layer));
    DEEPINFER_CHECK(c->index_source_of(layer) <= layer);
  }
}

void read_tensors(std::span<const std::byte> file) {
  const auto tensors = parse_safetensors(file);
  if (!tensors) return;
  for (const tensor_view& t : *tensors) {
    uint64_t bytes = element_bytes(t.type);
    for (const uint64_t n : t.shape) bytes *= n;
    DEEPINFER_CHECK(bytes == t.bytes.size());
    DEEPINFER_CHECK(t.bytes.empty() ||
                    (t.bytes.data() >= file.data() &&
                     t.bytes.data() + t.bytes.size() <= file.data() + file.size()));
  }
}

fuzz::bytes seed(uint8_t kind, std::string_view text) {
  fuzz::bytes out(1 + text.size(), kind);
  std::copy(text.begin(), text.end(), out.begin() + 1);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    read_config(text);
    return 0;
  }
  // Everything up to the last brace is the header.
  const size_t brace = text.rfind('}');
  const uint64_t header = brace == std::string_view::npos ? text.size() : brace + 1;
  std::vector<std::byte> file(sizeof header + text.size());
  std::memcpy(file.data(), &header, sizeof header);
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(),
              file.begin() + sizeof header);
  read_tensors(file);
  return 0;
}

std::vector<fuzz::bytes> fuzz::seeds() {
  DEEPINFER_CHECK(parse_v41_config(config));  // a seed that is refused finds nothing
  const std::string tensors =
      R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("v.weight":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[8,12]}})";
  return {seed(1, config), seed(0, tensors + "0123456789ab"), seed(0, "{}")};
}
