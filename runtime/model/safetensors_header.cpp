#include "runtime/model/safetensors_header.hpp"

#include "runtime/model/json_fields.hpp"

#include <cstring>
#include <limits>
#include <utility>

namespace deepinfer::model {
namespace {

failure broken(std::string what) {
  return failure{error_code::corrupt, "safetensors: " + std::move(what)};
}

result<void> read_type(simdjson::dom::element entry, tensor_claim& claim) {
  std::string_view name;
  if (entry["dtype"].get(name) != simdjson::SUCCESS)
    return broken("'" + claim.name + "' has no dtype");
  const auto type = parse_tensor_type(name);
  if (!type)
    return failure{error_code::unsupported, "safetensors: '" + claim.name +
                                                "' has the unknown dtype " +
                                                std::string(name.substr(0, 32))};
  claim.type = *type;
  return {};
}

result<void> read_shape(simdjson::dom::element entry, tensor_claim& claim) {
  simdjson::dom::array shape;
  if (entry["shape"].get(shape) != simdjson::SUCCESS ||
      shape.size() > safetensors_limits::dimensions)
    return broken("'" + claim.name + "' needs a shape of at most 8 dimensions");
  for (const simdjson::dom::element item : shape) {
    uint64_t n = 0;
    if (item.get(n) != simdjson::SUCCESS)
      return broken("'" + claim.name + "' has a dimension that is no whole number");
    claim.shape.push_back(n);
  }
  return {};
}

result<void> read_range(simdjson::dom::element entry, tensor_claim& claim) {
  simdjson::dom::array offsets;
  if (entry["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(claim.begin) != simdjson::SUCCESS ||
      offsets.at(1).get(claim.end) != simdjson::SUCCESS)
    return broken("'" + claim.name + "' needs two data_offsets");
  return {};
}

result<tensor_claim> read_entry(std::string_view name, simdjson::dom::element entry) {
  if (name.empty() || name.size() > safetensors_limits::name_bytes)
    return broken("a tensor's name must have 1.." + std::to_string(safetensors_limits::name_bytes) +
                  " bytes");
  tensor_claim claim;
  claim.name = std::string(name);
  if (!entry.is_object()) return broken("'" + claim.name + "' is not described by an object");
  if (auto done = read_type(entry, claim); !done) return done.error();
  if (auto done = read_shape(entry, claim); !done) return done.error();
  if (auto done = read_range(entry, claim); !done) return done.error();
  return claim;
}

// The JSON text of the header; checks the length field.
result<std::string_view> header_text(std::span<const std::byte> file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return broken("the file has no header; is the file cut short?");
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

std::optional<uint64_t> tensor_claim::needed_bytes() const {
  uint64_t bytes = element_bytes(type);
  for (const uint64_t n : shape) {
    if (n != 0 && bytes > std::numeric_limits<uint64_t>::max() / n) return std::nullopt;
    bytes *= n;
  }
  return bytes;
}

std::string to_string(const tensor_claim& claim) {
  return to_string(tensor_view{{}, claim.type, claim.shape, {}});
}

result<safetensors_header> read_safetensors_header(std::span<const std::byte> file) {
  const auto text = header_text(file);
  if (!text) return text.error();
  json_document document;
  if (auto parsed = document.parse(*text, "safetensors header"); !parsed) return parsed.error();
  simdjson::dom::object entries;
  if (document.root.get(entries) != simdjson::SUCCESS) return broken("the header is not an object");
  safetensors_header out;
  out.data_start = sizeof(uint64_t) + text->size();
  for (const auto [name, entry] : entries) {
    if (name == "__metadata__") continue;
    if (out.claims.size() + out.malformed.size() == safetensors_limits::tensors)
      return failure{error_code::too_large, "safetensors: more than " +
                                                std::to_string(safetensors_limits::tensors) +
                                                " tensors in one file"};
    auto claim = read_entry(name, entry);
    if (claim)
      out.claims.push_back(*std::move(claim));
    else
      out.malformed.push_back(claim.error());
  }
  return out;
}

}  // namespace deepinfer::model
