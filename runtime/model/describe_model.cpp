#include "runtime/model/checkpoint.hpp"
#include "runtime/model/forward_dump.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/layout_fingerprint.hpp"
#include "runtime/model/model_size.hpp"
#include "runtime/model/tensor_table.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/v41_sequence.hpp"
#include "runtime/model/vision_config.hpp"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <map>

namespace deepinfer::model {
namespace {

using json_writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

void put(json_writer& json, const char* key, uint64_t value) {
  json.Key(key);
  json.Uint64(value);
}

void put(json_writer& json, const char* key, std::string_view value) {
  json.Key(key);
  json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}

std::string hex(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 0; i < out.size(); ++i) out[i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
  return out;
}

void put_tally(json_writer& json, std::string_view name, const group_total& sum) {
  json.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
  json.StartObject();
  put(json, "tensors", sum.tensors);
  put(json, "bytes", sum.bytes);
  json.EndObject();
}

// What the folder holds, by owner; tensors that the configuration does not call for come last.
void put_groups(json_writer& json,
                const checkpoint& files,
                const v41_config& config,
                std::span<const table_entry> table) {
  group_totals totals{};
  group_total others;
  for (const tensor_view& t : files.tensors()) {
    const table_entry* entry = find_entry(table, t.name);
    group_total& sum = entry == nullptr ? others : totals[static_cast<size_t>(entry->group)];
    ++sum.tensors;
    sum.bytes += t.bytes.size();
  }
  json.Key("groups");
  json.StartObject();
  for (size_t g = 0; g < tensor_groups; ++g)
    if (totals[g].tensors > 0)
      put_tally(json, group_name(static_cast<tensor_group>(g), config), totals[g]);
  if (others.tensors > 0) put_tally(json, "other", others);
  json.EndObject();
}

void put_types(json_writer& json, const checkpoint& files) {
  std::map<std::string_view, group_total> by_type;
  for (const tensor_view& t : files.tensors()) {
    group_total& sum = by_type[to_string(t.type)];
    ++sum.tensors;
    sum.bytes += t.bytes.size();
  }
  json.Key("by_type");
  json.StartObject();
  for (const auto& [name, sum] : by_type) put_tally(json, name, sum);
  json.EndObject();
}

void put_size(json_writer& json, const model_size& size) {
  put(json, "parameters", size.parameters);
  put(json, "active_parameters", size.active());
  put(json, "active_parameters_encoder", size.active_encoder);
  put(json, "active_parameters_decoder", size.active_decoder);
  put(json, "active_parameters_head", size.active_head);
  put(json, "resident_bytes", size.resident_bytes);
  put(json, "mapped_bytes", size.mapped_bytes);
  put(json, "routed_expert_bytes", size.routed_bytes);
}

void put_shape(json_writer& json, const v41_config& c) {
  put(json, "layers", c.layers);
  put(json, "hidden_size", c.width);
  put(json, "vocabulary", c.vocabulary);
  put(json, "context_limit", c.max_positions);
  put(json, "heads", c.heads);
  put(json, "head_width", c.head_width);
  put(json, "window", c.window);
  put(json, "experts", c.experts);
  put(json, "experts_per_token", c.experts_per_token);
  put(json, "streams", c.streams);
  put(json, "index_top", c.index_top);
  for (const auto& [key, list] :
       {std::pair("compress_ratios", &c.ratios), std::pair("kv_sources", &c.kv_sources),
        std::pair("index_sources", &c.index_sources),
        std::pair("engram_layers", &c.engram.layers)}) {
    json.Key(key);
    json.StartArray();
    for (const uint32_t value : *list) json.Uint(value);
    json.EndArray();
  }
  put(json, "drafter_stages", c.drafter.stages);
  put(json, "drafter_block", c.drafter.block);
}

}  // namespace

result<std::string> describe_model(const std::filesystem::path& checkpoint_folder) {
  const auto files = checkpoint::open(checkpoint_folder);
  if (!files) return files.error();
  const auto config = parse_v41_config(files->config_text());
  if (!config) return config.error();
  std::string side_file;
  if (!config->engram.layers.empty()) {
    auto text = read_text(files->folder() / "engram_meta.json", checkpoint_limits::side_file_bytes);
    if (!text) return text.error();
    side_file = *std::move(text);
  }
  const auto vision = parse_vision_config(files->config_text());
  if (!vision) return vision.error();
  const auto table = make_tensor_table(*config, *vision);
  if (!table) return table.error();
  rapidjson::StringBuffer text;
  json_writer json(text);
  json.SetIndent(' ', 1);
  json.StartObject();
  put(json, "name", files->name());
  put_shape(json, *config);
  put(json, "vision_layers", *vision ? (*vision)->layers : 0);
  put(json, "tensors", files->tensors().size());
  put(json, "bytes", files->tensor_bytes());
  put_size(json, size_of(*config, *table));
  put_types(json, *files);
  put_groups(json, *files, *config, *table);
  put(json, "state_bytes_per_token", state_bytes_per_token(*config, numeric_level::L1));
  put(json, "state_bytes_fixed", state_bytes_fixed(*config, numeric_level::L1));
  put(json, "layout_L0", hex(layout_fingerprint(*files, side_file, numeric_level::L0)));
  put(json, "layout_L1", hex(layout_fingerprint(*files, side_file, numeric_level::L1)));
  json.EndObject();
  return std::string(text.GetString(), text.GetSize());
}

}  // namespace deepinfer::model
