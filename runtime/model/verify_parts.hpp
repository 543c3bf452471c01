#pragma once

#include "runtime/model/checkpoint_index.hpp"
#include "runtime/model/mapped_file.hpp"
#include "runtime/model/safetensors_header.hpp"
#include "runtime/model/tensor_table.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/verify_checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The steps of `verify_checkpoint` and what they hand on. Inside of the room only.
namespace deepinfer::model::verify {

/// Where the steps report.
class notebook {
public:
  notebook(verify_report& report, size_t most) : report_(report), most_(most) {}

  void problem(finding what) { add(severity::problem, std::move(what)); }
  void warning(finding what) { add(severity::warning, std::move(what)); }
  [[nodiscard]] verify_report& report() { return report_; }

private:
  void add(severity level, finding what);

  verify_report& report_;
  size_t most_;
};

struct shard {
  std::string name;
  std::optional<mapped_file> file;  ///< nothing: missing or unreadable
  uint64_t data_start = 0;
  uint64_t data_bytes = 0;
  bool usable = false;  ///< its header was read
};

/// A tensor some shard claims to hold.
struct held_tensor {
  tensor_claim claim;
  size_t shard = 0;
  bool whole = false;  ///< its bytes lie in the file and fit type and shape
};

struct contents {
  std::filesystem::path folder;
  std::optional<checkpoint_index> index;  ///< nothing: a single file
  std::vector<shard> shards;
  std::vector<held_tensor> tensors;  ///< sorted by name

  [[nodiscard]] const held_tensor* find(std::string_view tensor) const;
};

/// Index, shards, headers: what lies where.
[[nodiscard]] contents read_contents(const std::filesystem::path& folder, notebook& notes);
/// Names, types and shapes against the table; fills the report's totals.
void compare_with_table(const contents& held,
                        std::span<const table_entry> table,
                        const v41_config& config,
                        notebook& notes);
/// tokenizer.json, generation_config.json, engram_meta.json.
void check_side_files(const std::filesystem::path& folder,
                      const v41_config& config,
                      const verify_options& options,
                      notebook& notes);
/// Values that are not numbers.
void scan_data(const contents& held, const verify_options& options, notebook& notes);

}  // namespace deepinfer::model::verify
