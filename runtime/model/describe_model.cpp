#include "runtime/model/checkpoint.hpp"
#include "runtime/model/forward_dump.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/layout_fingerprint.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/v41_sequence.hpp"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
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

// Which part of the model owns a tensor, as the released checkpoint's totals are grouped.
std::string_view owner_of(std::string_view tensor) {
  if (tensor.find(".engram.embed.") != std::string_view::npos) return "engram tables";
  if (tensor.find(".engram.") != std::string_view::npos) return "engram projections";
  if (tensor.starts_with("layers.")) {
    if (tensor.find(".ffn.experts.") != std::string_view::npos) return "routed experts";
    return "layers without routed experts";
  }
  if (tensor.starts_with("mtp.")) return "drafter";
  if (tensor.starts_with("embed.") || tensor.starts_with("head.") || tensor.starts_with("norm."))
    return "embedding and head";
  if (tensor.starts_with("vision.") || tensor.starts_with("aligner.") ||
      tensor.starts_with("image_"))
    return "vision";
  return "other";
}

struct tally {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

void put_tallies(json_writer& json,
                 const char* key,
                 const std::map<std::string_view, tally>& tallies) {
  json.Key(key);
  json.StartObject();
  for (const auto& [name, sum] : tallies) {
    json.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
    json.StartObject();
    put(json, "tensors", sum.tensors);
    put(json, "bytes", sum.bytes);
    json.EndObject();
  }
  json.EndObject();
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
  std::map<std::string_view, tally> by_type, by_owner;
  for (const tensor_view& t : files->tensors())
    for (tally* sum : {&by_type[to_string(t.type)], &by_owner[owner_of(t.name)]}) {
      ++sum->tensors;
      sum->bytes += t.bytes.size();
    }
  rapidjson::StringBuffer text;
  json_writer json(text);
  json.SetIndent(' ', 1);
  json.StartObject();
  put(json, "name", files->name());
  put_shape(json, *config);
  put(json, "tensors", files->tensors().size());
  put(json, "bytes", files->tensor_bytes());
  put_tallies(json, "by_type", by_type);
  put_tallies(json, "by_owner", by_owner);
  put(json, "state_bytes_per_token", state_bytes_per_token(*config, numeric_level::L1));
  put(json, "state_bytes_fixed", state_bytes_fixed(*config, numeric_level::L1));
  put(json, "layout_L0", hex(layout_fingerprint(*files, side_file, numeric_level::L0)));
  put(json, "layout_L1", hex(layout_fingerprint(*files, side_file, numeric_level::L1)));
  json.EndObject();
  return std::string(text.GetString(), text.GetSize());
}

}  // namespace deepinfer::model
