#include "runtime/model/checkpoint.hpp"

#include "runtime/model/checkpoint_index.hpp"
#include "runtime/model/json_fields.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace deepinfer::model {

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
  std::optional<checkpoint_index> index;
  if (std::filesystem::exists(whole / index_file_name, error)) {
    const auto text = read_text(whole / index_file_name, checkpoint_limits::index_bytes);
    if (!text) return text.error();
    auto parsed = parse_checkpoint_index(*text);
    if (!parsed) return parsed.error();
    index = *std::move(parsed);
  }
  const std::vector<std::string> names =
      index ? index->shards() : std::vector{std::string(single_file_name)};
  for (const std::string& name : names)
    if (auto added = out.add_shard(name); !added) return added.error();
  std::ranges::sort(out.tensors_, {}, &tensor_view::name);
  const auto twice = std::ranges::adjacent_find(out.tensors_, {}, &tensor_view::name);
  if (twice != out.tensors_.end())
    return failure{error_code::corrupt, "tensor '" + twice->name + "' occurs in two shards"};
  if (!index) return out;
  // A shard of an older download would lack some of what the index promises.
  for (const index_entry& entry : index->entries)
    if (out.find(entry.tensor) == nullptr)
      return failure{error_code::corrupt, std::string(index_file_name) + " lists '" +
                                              entry.tensor.substr(0, 256) +
                                              "', which no shard holds"};
  return out;
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
