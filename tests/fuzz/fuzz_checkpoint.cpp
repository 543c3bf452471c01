// What a downloaded checkpoint may hold; the first byte says which file: a safetensors file, a
// config.json, an index or an engram_meta.json. The length field of a header is set to fit, so that
// the search reaches the JSON behind it.
#include "proto/types/check.hpp"
#include "runtime/model/checkpoint_index.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/safetensors.hpp"
#include "runtime/model/tensor_table.hpp"
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
 "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "engram_layer_ids": [1], "engram_num_embeddings": [17],
 "engram_max_ngram_size": 2, "engram_n_heads": 2, "engram_head_dim": 32, "engram_vocab_size": 5,
 "engram_compressed_vocab_size": 40, "num_nextn_predict_layers": 2, "dspark_block_size": 5,
 "dspark_noise_token_id": 60, "dspark_target_layer_ids": [0, 2], "dspark_markov_rank": 16,
 "dspark_n_routed_experts": 4, "dspark_num_experts_per_tok": 2, "image_token_id": 61,
 "vision_config": {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
  "intermediate_size": 48, "patch_size": 4, "downsample_ratio": 3, "max_image_tokens": 64}})";

constexpr std::string_view index_file = R"({"metadata": {"total_size": 12}, "weight_map": {
 "a.weight": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";

constexpr std::string_view engram_meta =
    R"({"compressed_vocab_size": 5, "token_map": [0, 1, 2, 3, 4, 4], "multipliers": [[7, 9]]})";

engram_config small_engram() {
  engram_config e;
  e.layers = {1};
  e.table_rows = {5 + 7};
  e.longest_ngram = 2;
  e.heads = 2;
  e.row_width = 32;
  e.prime_start = 5;
  e.pad_token = 2;
  e.compressed_vocabulary = 5;
  return e;
}

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
  for (const uint32_t target : c->drafter.target_layers) DEEPINFER_CHECK(target < c->layers);
  const auto vision = parse_vision_config(text);
  if (!vision) return;
  if (*vision) DEEPINFER_CHECK((*vision)->head_width() % 4 == 0);
  // Tables of many layers and experts are only slow.
  if (uint64_t{c->layers} * (c->experts + c->drafter.experts) > 4096) return;
  const auto table = make_tensor_table(*c, *vision);
  DEEPINFER_CHECK(table.has_value());
  DEEPINFER_CHECK(sum_of(totals_of(*table)).tensors == table->size());
  for (const table_entry& entry : *table) DEEPINFER_CHECK(find_entry(*table, entry.name) == &entry);
}

void read_index(std::string_view text) {
  const auto index = parse_checkpoint_index(text);
  if (!index) return;
  for (const index_entry& entry : index->entries) {
    DEEPINFER_CHECK(index->find(entry.tensor) == &entry);
    DEEPINFER_CHECK(!entry.shard.empty() && entry.shard.find('/') == std::string::npos);
  }
  DEEPINFER_CHECK(index->shards().size() <= index->entries.size());
}

// What is accepted gives rows inside of the table.
void read_engram_meta(std::string_view text) {
  const engram_config e = small_engram();
  const auto hash = engram_hash::make(e, 6, text);
  if (!hash) return;
  std::vector<int64_t> rows(hash->columns());
  for (int32_t token = 0; token < 6; ++token) {
    const int64_t recent[] = {hash->compressed(token), hash->compressed(5 - token)};
    hash->rows(0, recent, rows);
    for (const int64_t row : rows)
      DEEPINFER_CHECK(row >= 0 && row < static_cast<int64_t>(e.table_rows[0]));
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
  switch (data[0] % 4) {
    case 1:
      read_config(text);
      return 0;
    case 2:
      read_index(text);
      return 0;
    case 3:
      read_engram_meta(text);
      return 0;
    default:
      break;
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
  DEEPINFER_CHECK(parse_checkpoint_index(index_file));
  DEEPINFER_CHECK(engram_hash::make(small_engram(), 6, engram_meta));
  return {seed(1, config), seed(2, index_file), seed(3, engram_meta),
          seed(0, tensors + "0123456789ab"), seed(0, "{}")};
}
