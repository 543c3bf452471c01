#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/tensor_table.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Whether a checkpoint folder is whole and fits its own configuration.
namespace deepinfer::model {

enum class severity : uint8_t {
  problem,  ///< the checkpoint cannot be trusted
  warning,  ///< unusual, harmless
};

/// One thing that is wrong. Texts that do not apply are empty.
struct finding {
  severity level = severity::problem;
  std::string file;  ///< inside the folder
  std::string tensor;
  std::string what;      ///< one sentence without a full stop
  std::string expected;  ///< what should be there
  std::string found;     ///< what is there
  std::string advice;    ///< what to do
};

enum class verify_depth : uint8_t {
  headers,  ///< everything but the tensors' data
  data,     ///< and every value: reads all shards once
};

struct verify_options {
  verify_depth depth = verify_depth::data;
  size_t most_findings = 1000;  ///< kept; the counts go on
  /// Vocabulary size of a tokenizer.json (one more than its largest id), or what is wrong with it.
  /// Nothing: the file's presence is all that is checked.
  std::function<result<uint32_t>(const std::filesystem::path&)> tokenizer_size;
  /// Called now and then during the scan with the bytes read so far and those to be read.
  std::function<void(uint64_t done, uint64_t all)> progress;
};

struct verify_report {
  std::vector<finding> findings;  ///< in the order of discovery
  uint64_t problems = 0;
  uint64_t warnings = 0;
  std::optional<v41_config> config;  ///< nothing: config.json cannot be read
  group_totals expected{};           ///< of the configuration's table
  group_totals found{};              ///< tensors that are there and listed in the table
  group_total unexpected;            ///< tensors of other names
  uint64_t scanned_bytes = 0;

  [[nodiscard]] bool good() const { return problems == 0; }
};

/// Looks at every file and goes on after a problem. Memory does not grow with the data: shards are
/// mapped, and what was scanned is given back. A shard must not be truncated meanwhile.
[[nodiscard]] verify_report verify_checkpoint(const std::filesystem::path& folder,
                                              const verify_options& options);

/// For people: findings, the table of group totals, a last line that says good or not.
[[nodiscard]] std::string verify_text(const verify_report& report);
/// {good, problems, warnings, scanned_bytes, findings: [...], groups: [...]}
[[nodiscard]] std::string verify_json(const verify_report& report);

}  // namespace deepinfer::model
