#pragma once

#include "runtime/model/safetensors_header.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

/// Ways to damage a copy of a good checkpoint.
namespace deepinfer::test {

using std::filesystem::path;

inline constexpr const char* first_shard = "model-00001-of-00002.safetensors";
inline constexpr const char* second_shard = "model-00002-of-00002.safetensors";
inline constexpr const char* index_json = "model.safetensors.index.json";

/// A copy of a mini checkpoint that a test may damage.
inline void copy_checkpoint(std::string_view shape, const path& to) {
  const auto options =
      std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive;
  std::filesystem::copy(mini_checkpoint(shape), to, options);
}

inline void replace_text(const path& file, const std::string& what, const std::string& with) {
  std::string text = file_text(file);
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  write_file(file, text.replace(at, what.size(), with));
}

inline void set_header_length(const path& file, uint64_t length) {
  std::string text = file_text(file);
  std::memcpy(text.data(), &length, sizeof length);
  write_file(file, text);
}

/// Changes the JSON of a header; the length field follows and the data stays.
inline void edit_header(const path& file, const std::function<void(std::string&)>& edit) {
  const std::string text = file_text(file);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  std::string json = text.substr(sizeof length, length);
  const std::string data = text.substr(sizeof length + length);
  edit(json);
  length = json.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  write_file(file, out + json + data);
}

/// The shard that holds a tensor.
inline path shard_of(const path& folder, const std::string& tensor) {
  for (const char* shard : {first_shard, second_shard})
    if (file_text(folder / shard).find("\"" + tensor + "\":{") != std::string::npos)
      return folder / shard;
  REQUIRE_MESSAGE(false, tensor);
  return {};
}

/// Replaces a part of what the header says of one tensor, from its name on.
inline void edit_entry(const path& folder,
                       const std::string& tensor,
                       const std::string& what,
                       const std::string& with) {
  edit_header(shard_of(folder, tensor), [&](std::string& json) {
    const size_t name = json.find("\"" + tensor + "\":{");
    const size_t at = json.find(what, name);
    REQUIRE_MESSAGE(at < json.find('}', name), what);
    json.replace(at, what.size(), with);
  });
}

inline model::tensor_claim claim_of(const path& folder, const std::string& tensor) {
  const std::string text = file_text(shard_of(folder, tensor));
  const auto header = model::read_safetensors_header(std::as_bytes(std::span(text)));
  REQUIRE(header);
  const auto at = std::ranges::find(header->claims, tensor, &model::tensor_claim::name);
  REQUIRE(at != header->claims.end());
  return *at;
}

/// `"data_offsets":[begin,end]` of a tensor as the header spells it.
inline std::string offsets_text(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + "," + std::to_string(end) + "]";
}

/// Overwrites bytes of a tensor's data.
inline void poke(const path& folder,
                 const std::string& tensor,
                 uint64_t offset,
                 const std::string& bytes) {
  const path file = shard_of(folder, tensor);
  std::string text = file_text(file);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  const uint64_t place = sizeof length + length + claim_of(folder, tensor).begin + offset;
  write_file(file, text.replace(place, bytes.size(), bytes));
}

}  // namespace deepinfer::test
