#include "runtime/model/checkpoint_index.hpp"

#include "runtime/model/checkpoint.hpp"
#include "runtime/model/json_fields.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::model {
namespace {

failure broken(std::string what) {
  return failure{error_code::corrupt, std::string(index_file_name) + std::move(what)};
}

// A shard lies beside its index, so its name is a plain file name.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

std::vector<std::string> checkpoint_index::shards() const {
  std::vector<std::string> names;
  for (const index_entry& entry : entries) names.push_back(entry.shard);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const index_entry* checkpoint_index::find(std::string_view tensor) const {
  const auto at = std::ranges::lower_bound(entries, tensor, {}, &index_entry::tensor);
  return at != entries.end() && at->tensor == tensor ? &*at : nullptr;
}

result<checkpoint_index> parse_checkpoint_index(std::string_view text) {
  json_document document;
  if (auto parsed = document.parse(text, index_file_name); !parsed) return parsed.error();
  simdjson::dom::object map;
  if (document.root["weight_map"].get(map) != simdjson::SUCCESS)
    return broken(" has no weight_map");
  checkpoint_index out;
  for (const auto [tensor, value] : map) {
    std::string_view file;
    if (value.get(file) != simdjson::SUCCESS || !plain_file_name(file))
      return broken(": the shard of '" + std::string(tensor.substr(0, 256)) +
                    "' is not a plain file name");
    out.entries.push_back({std::string(tensor), std::string(file)});
  }
  std::ranges::sort(out.entries, {}, &index_entry::tensor);
  const auto twice = std::ranges::adjacent_find(out.entries, {}, &index_entry::tensor);
  if (twice != out.entries.end())
    return broken(" lists '" + twice->tensor.substr(0, 256) + "' twice");
  if (out.shards().size() > checkpoint_limits::shards)
    return failure{error_code::too_large, std::string(index_file_name) + " names more than " +
                                              std::to_string(checkpoint_limits::shards) +
                                              " shards"};
  uint64_t total = 0;
  if (document.root["metadata"]["total_size"].get(total) == simdjson::SUCCESS)
    out.total_bytes = total;
  return out;
}

}  // namespace deepinfer::model
