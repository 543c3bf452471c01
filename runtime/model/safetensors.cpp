#include "runtime/model/safetensors.hpp"

#include "runtime/model/safetensors_header.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <bit>
#include <fstream>
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

// The tensor a claim describes, after comparing it with the data that is there.
result<tensor_view> believe(tensor_claim&& claim, std::span<const std::byte> data) {
  if (claim.begin > claim.end || claim.end > data.size())
    return broken("'" + claim.name + "' ends at byte " + std::to_string(claim.end) +
                  " of the data, of which there are " + std::to_string(data.size()) +
                  "; is the file cut short?");
  const uint64_t bytes = claim.end - claim.begin;
  if (claim.needed_bytes() != bytes)
    return broken("'" + claim.name + "', " + to_string(claim) + ", does not fit its " +
                  std::to_string(bytes) + " bytes");
  return tensor_view{std::move(claim.name), claim.type, std::move(claim.shape),
                     data.subspan(claim.begin, bytes)};
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

std::optional<tensor_type> parse_tensor_type(std::string_view name) {
  const auto fact = std::ranges::find(type_facts, name, &type_fact::name);
  if (fact == std::end(type_facts)) return std::nullopt;
  return fact->type;
}

result<std::vector<tensor_view>> parse_safetensors(std::span<const std::byte> file) {
  auto header = read_safetensors_header(file);
  if (!header) return header.error();
  if (!header->malformed.empty()) return header->malformed.front();
  const auto data = file.subspan(header->data_start);
  std::vector<tensor_view> tensors;
  tensors.reserve(header->claims.size());
  for (tensor_claim& claim : header->claims) {
    auto tensor = believe(std::move(claim), data);
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
    if (tensor_claim{{}, t.type, t.shape}.needed_bytes() != t.bytes.size())
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
