#include "runtime/model/random_checkpoint.hpp"

#include "proto/types/check.hpp"
#include "runtime/model/checkpoint_index.hpp"
#include "runtime/model/random_config.hpp"
#include "runtime/model/random_tensor.hpp"
#include "runtime/model/random_tokenizer.hpp"
#include "runtime/model/random_values.hpp"
#include "runtime/model/tensor_file.hpp"
#include "runtime/model/tensor_table.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer::model {
namespace {

namespace fs = std::filesystem;

// Says that the folder is ours; written before anything else, so that a run that was interrupted
// can be repeated.
constexpr std::string_view mark_name = "made_by_make_random.json";
// Two shards, so that every use of such a checkpoint goes through the index.
constexpr std::array<std::string_view, 2> shard_names{"model-00001-of-00002.safetensors",
                                                      "model-00002-of-00002.safetensors"};
constexpr std::string_view other_names[] = {"config.json", "generation_config.json",
                                            "engram_meta.json", "tokenizer.json"};

result<void> write_text(const fs::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) return failure{error_code::no_capacity, "cannot write " + file.string()};
  return {};
}

result<void> claim_folder(const fs::path& folder, const random_options& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return failure{error_code::no_capacity,
                   "cannot make " + folder.string() + ": " + error.message()};
  const bool ours = fs::exists(folder / mark_name, error);
  const bool foreign = !ours && !fs::is_empty(folder, error);
  if (error)
    return failure{error_code::no_capacity,
                   "cannot read " + folder.string() + ": " + error.message()};
  if (foreign && options.foreign == random_options::foreign_files::refuse)
    return failure{error_code::invalid_argument,
                   folder.string() +
                       " holds files that make-random did not write; give an empty "
                       "folder, or --force to replace files of the same names"};
  // The index goes first: without it an interrupted run cannot be taken for a checkpoint.
  fs::remove(folder / index_file_name, error);
  for (const std::string_view name : shard_names) fs::remove(folder / name, error);
  for (const std::string_view name : other_names) fs::remove(folder / name, error);
  return {};
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string((bytes >> 20) + 1) + " MiB";
}

result<void> check_room(const fs::path& folder, uint64_t tensor_bytes) {
  constexpr uint64_t side_files = uint64_t{16} << 20;  // headers, tokenizer, index
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= tensor_bytes + side_files) return {};
  return failure{error_code::no_capacity,
                 "the checkpoint needs " + mebibytes(tensor_bytes + side_files) + " and " +
                     folder.string() + " has " + mebibytes(space.available) +
                     " left; make room or give another folder"};
}

std::string mark_text(random_shape shape, uint64_t seed) {
  return "{\"shape\": \"" + std::string(to_string(shape)) +
         "\", \"seed\": " + std::to_string(seed) + "}\n";
}

std::vector<uint64_t> token_map(const v41_config& c, uint64_t seed) {
  const random_values draw(seed, "engram_meta.token_map");
  std::vector<uint64_t> out(c.vocabulary);
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = draw.below(i, c.engram.compressed_vocabulary);
  return out;
}

result<void> write_side_files(const fs::path& folder, const model_shape& model, uint64_t seed) {
  const v41_config& c = model.text;
  std::vector<std::pair<std::string_view, std::string>> files{
      {"config.json", config_text(model)}, {"generation_config.json", generation_config_text()}};
  if (!c.engram.layers.empty())
    files.emplace_back("engram_meta.json", engram_meta_text(c.engram, token_map(c, seed)));
  if (std::string text = random_tokenizer_text(c.vocabulary); !text.empty())
    files.emplace_back("tokenizer.json", std::move(text));
  for (const auto& [name, text] : files)
    if (auto done = write_text(folder / name, text); !done) return done;
  return {};
}

result<void> write_tensors(const fs::path& folder,
                           std::span<const table_entry> table,
                           const random_options& options) {
  const auto half = table.size() / 2;
  auto first = tensor_file::create(folder / shard_names[0], table.first(half));
  if (!first) return first.error();
  auto second = tensor_file::create(folder / shard_names[1], table.subspan(half));
  if (!second) return second.error();
  const uint64_t all = sum_of(totals_of(table)).bytes;
  uint64_t done_bytes = 0;
  const piece_sink sink = [&](std::string_view tensor, uint64_t offset, auto bytes) {
    const tensor_file& file = first->holds(tensor) ? *first : *second;
    auto done = file.write(tensor, offset, bytes);
    done_bytes += bytes.size();
    if (options.progress) options.progress(done_bytes, all);
    return done;
  };
  for (const table_entry& entry : table)
    if (auto done = make_random_tensor(entry, options.seed, sink); !done) return done;
  DEEPINFER_CHECK(done_bytes == all);  // every scale was made with its weight
  if (auto done = first->close(); !done) return done;
  return second->close();
}

result<void> write_index(const fs::path& folder, std::span<const table_entry> table) {
  std::vector<tensor_place> places;
  places.reserve(table.size());
  for (const table_entry& entry : table)
    places.push_back({entry.name, shard_names[places.size() < table.size() / 2 ? 0 : 1]});
  return write_text(folder / index_file_name, index_text(places, sum_of(totals_of(table)).bytes));
}

}  // namespace

result<void> make_random_checkpoint(const fs::path& folder,
                                    random_shape shape,
                                    const random_options& options) {
  const model_shape model = shape_of(shape);
  DEEPINFER_CHECK(parse_v41_config(config_text(model)).has_value());
  const auto table = make_tensor_table(model.text, model.vision);
  if (!table) return table.error();
  if (auto done = claim_folder(folder, options); !done) return done;
  if (auto done = check_room(folder, sum_of(totals_of(*table)).bytes); !done) return done;
  if (auto done = write_text(folder / mark_name, mark_text(shape, options.seed)); !done)
    return done;
  if (auto done = write_side_files(folder, model, options.seed); !done) return done;
  if (auto done = write_tensors(folder, *table, options); !done) return done;
  return write_index(folder, *table);
}

}  // namespace deepinfer::model
