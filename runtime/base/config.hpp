#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// Settings. A component has a plain struct with its defaults in place and one function that
/// names each field, its range and its sentence:
///
///   struct store_config {
///     uint64_t memory_bytes = 1 << 30;
///     std::chrono::milliseconds ttl{60000};
///     template <class V> void describe(V& v) {
///       v.bytes("memory_bytes", memory_bytes, at_least(1 << 20), "Memory for cached blocks.");
///       v.field("ttl", ttl, between(1, 3600000), "How long an unused block stays.");
///     }
///   };
///
/// `main()` puts the structs of all components into one `config_schema`, reads file, environment
/// and command line through it (later ones win), and hands each component its own struct.
namespace deepinfer {

/// Both ends are allowed. Durations count in milliseconds, `bytes` in bytes.
struct int_range {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
};
struct real_range {
  double low;
  double high;
};
/// For strings (and the items of a list). Empty: any text.
struct choices {
  std::vector<std::string> allowed;
};

[[nodiscard]] constexpr int_range between(int64_t low, int64_t high) {
  return {low, high};
}
[[nodiscard]] constexpr int_range at_least(int64_t low) {
  return {low, std::numeric_limits<int64_t>::max()};
}
[[nodiscard]] constexpr real_range real_between(double low, double high) {
  return {low, high};
}
[[nodiscard]] inline choices one_of(std::vector<std::string> allowed) {
  return {std::move(allowed)};
}

/// A value as read, before it is fitted to a field.
using config_value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

/// Where a field's present value came from.
enum class config_source : uint8_t { standard, file, environment, command_line };

/// The description of all settings of a process, and the only thing that writes to them.
/// The structs must outlive the schema. Setting is all or nothing: when one key of a file is
/// wrong, no field changes and the failure lists every wrong key.
class config_schema {
public:
  static constexpr size_t max_text_bytes = size_t{1} << 20;  ///< longest config file

  /// Adds `settings` as the table `[name]`. A name taken twice is a bug.
  template <class T>
  void section(std::string_view name, std::string_view sentence, T& settings) {
    begin_section(name, sentence);
    settings.describe(*this);
  }

  // What `describe` calls: key, the field, its range, its sentence.
  void field(std::string_view key, bool& target, std::string_view sentence);
  void field(std::string_view key, uint16_t& target, int_range range, std::string_view sentence);
  void field(std::string_view key, int32_t& target, int_range range, std::string_view sentence);
  void field(std::string_view key, uint32_t& target, int_range range, std::string_view sentence);
  void field(std::string_view key, int64_t& target, int_range range, std::string_view sentence);
  void field(std::string_view key, uint64_t& target, int_range range, std::string_view sentence);
  void field(std::string_view key, double& target, real_range range, std::string_view sentence);
  void field(std::string_view key,
             std::chrono::milliseconds& target,
             int_range range,
             std::string_view sentence);
  void field(std::string_view key, std::string& target, std::string_view sentence);
  void field(std::string_view key, std::string& target, choices allowed, std::string_view sentence);
  void field(std::string_view key, std::vector<std::string>& target, std::string_view sentence);
  void field(std::string_view key,
             std::vector<std::string>& target,
             choices allowed,
             std::string_view sentence);
  /// A size: integers, or text such as "64MiB".
  void bytes(std::string_view key, uint64_t& target, int_range range, std::string_view sentence);

  /// A further environment name for a field ("DEEPINFER_HF_MODEL_DIR" for "model.dir").
  void environment_name(std::string_view name, std::string_view dotted_key);
  /// A `DEEPINFER_` name that is not a setting; without this it would be an unknown key.
  void foreign_environment_name(std::string_view name);

  /// Reads TOML text; `origin` (a file name) stands in the errors.
  result<void> read_toml(std::string_view text, std::string_view origin);
  /// `DEEPINFER_<SECTION>_<KEY>`; names without that prefix are not ours.
  result<void> read_environment(const std::map<std::string, std::string>& environment);
  /// One setting of the command line: "section.key", and its text.
  result<void> set(std::string_view dotted_key, std::string_view text);

  /// Every key with type, range, default, environment name and sentence.
  [[nodiscard]] std::string help() const;
  /// The present values as TOML that reads back; each that is not a default says its source.
  [[nodiscard]] std::string effective() const;

  struct entry {
    std::string key;    ///< dotted
    std::string value;  ///< as TOML
    config_source source;
  };
  /// The present values in order of description; two snapshots give a diff.
  [[nodiscard]] std::vector<entry> values() const;

private:
  using target_ptr = std::variant<bool*,
                                  uint16_t*,
                                  int32_t*,
                                  uint32_t*,
                                  int64_t*,
                                  uint64_t*,
                                  double*,
                                  std::string*,
                                  std::chrono::milliseconds*,
                                  std::vector<std::string>*>;
  using limit = std::variant<std::monostate, int_range, real_range, choices>;
  struct described_section {
    std::string name;
    std::string sentence;
  };
  struct described_field {
    size_t section;
    std::string key;  ///< dotted
    std::string name;
    std::string environment;
    target_ptr target;
    limit range;
    std::string sentence;
    std::string standard;  ///< the default, as TOML
    bool is_size = false;
    config_source source = config_source::standard;
  };
  struct assignment {
    std::string key;
    config_value value;
    bool is_text = false;  ///< from environment or command line: text that must still be read
    std::string where;     ///< for errors
  };
  /// A value that fits its field, ready to be stored.
  struct fitted {
    size_t field;
    config_value value;
  };

  void begin_section(std::string_view name, std::string_view sentence);
  void add(std::string_view key, target_ptr target, limit range, std::string_view sentence);
  [[nodiscard]] const described_field* find(std::string_view dotted_key) const;
  [[nodiscard]] std::string unknown_key(std::string_view key) const;
  [[nodiscard]] result<config_value> fit(const described_field& field, const assignment& a) const;
  result<void> apply(const std::vector<assignment>& assignments, config_source source);
  static void store(const described_field& field, const config_value& value);
  [[nodiscard]] static std::string print(const described_field& field);
  [[nodiscard]] static std::string type_and_range(const described_field& field);

  std::vector<described_section> sections_;
  std::vector<described_field> fields_;
  std::map<std::string, size_t, std::less<>> environment_;  ///< name -> field
  std::set<std::string, std::less<>> foreign_environment_;
};

}  // namespace deepinfer
