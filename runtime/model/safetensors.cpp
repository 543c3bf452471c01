#include "runtime/model/safetensors.hpp"

#include "runtime/model/json_fields.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

namespace deepinfer::model {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

struct type_fact {
  tensor_type type;
  std::string_view name;
  uint32_t bytes;
};

constexpr type_fact type_facts[] = {
    {tensor_type::boolean, "BOOL", 1},    {tensor_type::u8, "U8", 1},
    {tensor_type::i8, "I8", 1},           {tensor_type::f8_e4m3, "F8_E4M3", 1},
    {tensor_type::f8_e5m2, "F8_E5M2", 1}, {tensor_type::f8_e8m0, "F8_E8M0", 1},
    {tensor_type::i16, "I16", 2},         {tensor_type::u16, "U16", 2},
    {tensor_type::f16, "F16", 2},         {tensor_type::bf16, "BF16", 2},
    {tensor_type::i32, "I32", 4},         {tensor_type::u32, "U32", 4},
    {tensor_type::f32, "F32", 4},         {tensor_type::i64, "I64", 8},
    {tensor_type::u64, "U64", 8},         {tensor_type::f64, "F64", 8},
};

failure broken(std::string what) {
  return failure{error_code::corrupt, "safetensors: " + std::move(what)};
}

// Product of the shape and the element size; nothing when it does not fit.
std::optional<uint64_t> claimed_bytes(const tensor_view& tensor) {
  uint64_t bytes = element_bytes(tensor.type);
  for (const uint64_t n : tensor.shape) {
    if (n != 0 && bytes > std::numeric_limits<uint64_t>::max() / n) return std::nullopt;
    bytes *= n;
  }
  return bytes;
}

result<void> read_type(simdjson::dom::element entry, tensor_view& tensor) {
  std::string_view name;
  if (entry["dtype"].get(name) != simdjson::SUCCESS)
    return broken("'" + tensor.name + "' has no dtype");
  const auto fact = std::ranges::find(type_facts, name, &type_fact::name);
  if (fact == std::end(type_facts))
    return failure{error_code::unsupported, "safetensors: '" + tensor.name +
                                                "' has the unknown dtype " +
                                                std::string(name.substr(0, 32))};
  tensor.type = fact->type;
  return {};
}

result<void> read_shape(simdjson::dom::element entry, tensor_view& tensor) {
  simdjson::dom::array shape;
  if (entry["shape"].get(shape) != simdjson::SUCCESS ||
      shape.size() > safetensors_limits::dimensions)
    return broken("'" + tensor.name + "' needs a shape of at most 8 dimensions");
  for (const simdjson::dom::element item : shape) {
    uint64_t n = 0;
    if (item.get(n) != simdjson::SUCCESS)
      return broken("'" + tensor.name + "' has a dimension that is no whole number");
    tensor.shape.push_back(n);
  }
  return {};
}

result<void> read_bytes(simdjson::dom::element entry,
                        std::span<const std::byte> data,
                        tensor_view& tensor) {
  simdjson::dom::array offsets;
  uint64_t range[2] = {};
  if (entry["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(range[0]) != simdjson::SUCCESS ||
      offsets.at(1).get(range[1]) != simdjson::SUCCESS)
    return broken("'" + tensor.name + "' needs two data_offsets");
  if (range[0] > range[1] || range[1] > data.size())
    return broken("'" + tensor.name + "' ends at byte " + std::to_string(range[1]) +
                  " of the data, of which there are " + std::to_string(data.size()) +
                  "; is the file cut short?");
  if (claimed_bytes(tensor) != range[1] - range[0])
    return broken("'" + tensor.name + "', " + to_string(tensor) + ", does not fit its " +
                  std::to_string(range[1] - range[0]) + " bytes");
  tensor.bytes = data.subspan(range[0], range[1] - range[0]);
  return {};
}

result<tensor_view> read_entry(std::string_view name,
                               simdjson::dom::element entry,
                               std::span<const std::byte> data) {
  if (name.empty() || name.size() > safetensors_limits::name_bytes)
    return broken("a tensor's name must have 1.." + std::to_string(safetensors_limits::name_bytes) +
                  " bytes");
  tensor_view tensor;
  tensor.name = std::string(name);
  if (!entry.is_object()) return broken("'" + tensor.name + "' is not described by an object");
  if (auto done = read_type(entry, tensor); !done) return done.error();
  if (auto done = read_shape(entry, tensor); !done) return done.error();
  if (auto done = read_bytes(entry, data, tensor); !done) return done.error();
  return tensor;
}

result<void> check_disjoint(const std::vector<tensor_view>& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      return broken("'" + tensors[i].name + "' occurs twice");
  std::vector<const tensor_view*> by_place;
  for (const tensor_view& t : tensors)
    if (!t.bytes.empty()) by_place.push_back(&t);
  std::ranges::sort(by_place, {}, [](const tensor_view* t) { return t->bytes.data(); });
  for (size_t i = 1; i < by_place.size(); ++i)
    if (by_place[i - 1]->bytes.data() + by_place[i - 1]->bytes.size() > by_place[i]->bytes.data())
      return broken("'" + by_place[i - 1]->name + "' and '" + by_place[i]->name + "' share bytes");
  return {};
}

// The JSON text of the header; checks the length field.
result<std::string_view> header_text(std::span<const std::byte> file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return broken("the file has no header");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > safetensors_limits::header_bytes)
    return failure{error_code::too_large, "safetensors: the header claims " +
                                              std::to_string(length) +
                                              " bytes; is this a safetensors file?"};
  if (length > file.size() - sizeof length)
    return broken("the header is longer than the file; is the file cut short?");
  return std::string_view(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
}

}  // namespace

std::string_view to_string(tensor_type type) {
  return std::ranges::find(type_facts, type, &type_fact::type)->name;
}

uint32_t element_bytes(tensor_type type) {
  return std::ranges::find(type_facts, type, &type_fact::type)->bytes;
}

std::string to_string(const tensor_view& tensor) {
  std::string out(to_string(tensor.type));
  out += " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  return out + "]";
}

result<std::vector<tensor_view>> parse_safetensors(std::span<const std::byte> file) {
  const auto text = header_text(file);
  if (!text) return text.error();
  json_document document;
  if (auto parsed = document.parse(*text, "safetensors header"); !parsed) return parsed.error();
  simdjson::dom::object header;
  if (document.root.get(header) != simdjson::SUCCESS) return broken("the header is not an object");
  const auto data = file.subspan(sizeof(uint64_t) + text->size());
  std::vector<tensor_view> tensors;
  for (const auto [name, entry] : header) {
    if (name == "__metadata__") continue;
    if (tensors.size() == safetensors_limits::tensors)
      return failure{error_code::too_large, "safetensors: more than " +
                                                std::to_string(safetensors_limits::tensors) +
                                                " tensors in one file"};
    auto tensor = read_entry(name, entry, data);
    if (!tensor) return tensor.error();
    tensors.push_back(*std::move(tensor));
  }
  std::ranges::sort(tensors, {}, &tensor_view::name);
  if (auto disjoint = check_disjoint(tensors); !disjoint) return disjoint.error();
  return tensors;
}

std::string safetensors_start(std::span<const tensor_layout> tensors) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> json(text);
  const auto put = [&json](std::string_view s) {
    json.String(s.data(), static_cast<rapidjson::SizeType>(s.size()));
  };
  json.StartObject();
  uint64_t offset = 0;
  for (const tensor_layout& t : tensors) {
    put(t.name);
    json.StartObject();
    put("dtype");
    put(to_string(t.type));
    put("shape");
    json.StartArray();
    for (const uint64_t n : t.shape) json.Uint64(n);
    json.EndArray();
    put("data_offsets");
    json.StartArray();
    json.Uint64(offset);
    json.Uint64(offset += t.bytes);
    json.EndArray();
    json.EndObject();
  }
  json.EndObject();
  const uint64_t length = (text.GetSize() + 7) / 8 * 8;
  std::string start(reinterpret_cast<const char*>(&length), sizeof length);
  start.append(text.GetString(), text.GetSize());
  start.resize(sizeof length + length, ' ');  // keeps the data aligned
  return start;
}

result<void> write_safetensors(const std::filesystem::path& file,
                               std::span<const tensor_view> tensors) {
  for (const tensor_view& t : tensors)
    if (claimed_bytes(t) != t.bytes.size())
      return failure{error_code::invalid_argument, "'" + t.name + "' does not fit its shape"};
  std::vector<tensor_layout> layout;
  for (const tensor_view& t : tensors) layout.push_back({t.name, t.type, t.shape, t.bytes.size()});
  const std::string start = safetensors_start(layout);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(start.data(), static_cast<std::streamsize>(start.size()));
  for (const tensor_view& t : tensors)
    out.write(reinterpret_cast<const char*>(t.bytes.data()),
              static_cast<std::streamsize>(t.bytes.size()));
  out.close();
  if (!out) return failure{error_code::no_capacity, "cannot write " + file.string()};
  return {};
}

}  // namespace deepinfer::model
