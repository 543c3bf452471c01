#include "runtime/model/checkpoint.hpp"

#include "runtime/model/json_fields.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace deepinfer::model {
namespace {

constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view single_name = "model.safetensors";

// A shard lies beside its index, so its name is a plain file name.
bool plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

result<simdjson::dom::object> weight_map(json_document& document, const std::string& text) {
  if (auto parsed = document.parse(text, index_name); !parsed) return parsed.error();
  simdjson::dom::object map;
  if (document.root["weight_map"].get(map) != simdjson::SUCCESS)
    return failure{error_code::corrupt, std::string(index_name) + " has no weight_map"};
  return map;
}

}  // namespace

result<checkpoint> checkpoint::open(const std::filesystem::path& folder) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(folder, error);
  if (error || !std::filesystem::is_directory(whole, error))
    return failure{error_code::not_found, folder.string() + " is not a folder; give the folder " +
                                              "that holds config.json and the weights"};
  checkpoint out;
  out.folder_ = whole;
  out.name_ = whole.filename().string();
  auto config = read_text(whole / "config.json", checkpoint_limits::config_bytes);
  if (!config) return config.error();
  out.config_text_ = *std::move(config);
  if (std::filesystem::exists(whole / index_name, error)) {
    auto index = read_text(whole / index_name, checkpoint_limits::index_bytes);
    if (!index) return index.error();
    out.index_text_ = *std::move(index);
  }
  const auto names = out.shard_names();
  if (!names) return names.error();
  for (const std::string& name : *names)
    if (auto added = out.add_shard(name); !added) return added.error();
  std::ranges::sort(out.tensors_, {}, &tensor_view::name);
  const auto twice = std::ranges::adjacent_find(out.tensors_, {}, &tensor_view::name);
  if (twice != out.tensors_.end())
    return failure{error_code::corrupt, "tensor '" + twice->name + "' occurs in two shards"};
  if (auto complete = out.check_index(); !complete) return complete.error();
  return out;
}

result<std::vector<std::string>> checkpoint::shard_names() const {
  if (index_text_.empty()) return std::vector<std::string>{std::string(single_name)};
  json_document document;
  const auto map = weight_map(document, index_text_);
  if (!map) return map.error();
  std::set<std::string> names;
  for (const auto [tensor, value] : *map) {
    std::string_view file;
    if (value.get(file) != simdjson::SUCCESS || !plain_file_name(file))
      return failure{error_code::corrupt, std::string(index_name) + ": the shard of '" +
                                              std::string(tensor.substr(0, 256)) +
                                              "' is not a plain file name"};
    names.emplace(file);
    if (names.size() > checkpoint_limits::shards)
      return failure{error_code::too_large, std::string(index_name) + " names more than " +
                                                std::to_string(checkpoint_limits::shards) +
                                                " shards"};
  }
  return std::vector<std::string>(names.begin(), names.end());
}

result<void> checkpoint::add_shard(const std::string& file) {
  auto shard = mapped_file::open(folder_ / file);
  if (!shard) return shard.error();
  auto tensors = parse_safetensors(shard->bytes());
  if (!tensors) return failure{tensors.error().code, file + ": " + tensors.error().detail};
  std::ranges::move(*tensors, std::back_inserter(tensors_));
  shards_.push_back(*std::move(shard));
  return {};
}

// Every tensor the index promises must be there; a shard of an older download would lack some.
result<void> checkpoint::check_index() const {
  if (index_text_.empty()) return {};
  json_document document;
  const auto map = weight_map(document, index_text_);
  if (!map) return map.error();
  for (const auto [tensor, value] : *map)
    if (find(tensor) == nullptr)
      return failure{error_code::corrupt, std::string(index_name) + " lists '" +
                                              std::string(tensor.substr(0, 256)) +
                                              "', which no shard holds"};
  return {};
}

uint64_t checkpoint::tensor_bytes() const {
  uint64_t sum = 0;
  for (const tensor_view& t : tensors_) sum += t.bytes.size();
  return sum;
}

const tensor_view* checkpoint::find(std::string_view tensor) const {
  const auto at = std::ranges::lower_bound(tensors_, tensor, {}, &tensor_view::name);
  return at != tensors_.end() && at->name == tensor ? &*at : nullptr;
}

result<const tensor_view*> checkpoint::need(std::string_view tensor,
                                            tensor_type type,
                                            std::initializer_list<uint64_t> shape) const {
  const tensor_view* found = find(tensor);
  tensor_view wanted;
  wanted.type = type;
  wanted.shape = shape;
  if (found == nullptr)
    return failure{error_code::not_found,
                   "tensor '" + std::string(tensor) + "', " + to_string(wanted) + ", is missing"};
  if (found->type != type || found->shape != wanted.shape)
    return failure{error_code::corrupt, "tensor '" + std::string(tensor) + "' is " +
                                            to_string(*found) + " and must be " +
                                            to_string(wanted)};
  return found;
}

}  // namespace deepinfer::model
