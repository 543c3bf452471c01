#include "runtime/base/config.hpp"

#include "runtime/base/config_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer {
namespace {

constexpr std::string_view environment_prefix = "DEEPINFER_";

std::string environment_spelling(std::string_view dotted_key) {
  std::string out{environment_prefix};
  for (const char c : dotted_key) {
    if (c >= 'a' && c <= 'z') {
      out += static_cast<char>(c - 'a' + 'A');
    } else {
      out += c == '.' || c == '-' ? '_' : c;
    }
  }
  return out;
}

failure wrong(std::string_view where, std::string_view key, std::string_view what) {
  std::string detail;
  if (!where.empty()) detail = std::string(where) + ": ";
  return {error_code::invalid_argument, detail + std::string(key) + " " + std::string(what)};
}

constexpr std::array<std::string_view, 4> source_names{"default", "from file", "from environment",
                                                       "from command line"};

}  // namespace

void config_schema::begin_section(std::string_view name, std::string_view sentence) {
  for (const described_section& s : sections_) DEEPINFER_CHECK(s.name != name);
  sections_.push_back({std::string(name), std::string(sentence)});
}

void config_schema::add(std::string_view key,
                        target_ptr target,
                        limit range,
                        std::string_view sentence) {
  DEEPINFER_CHECK(!sections_.empty());
  described_field f;
  f.section = sections_.size() - 1;
  f.name = key;
  f.key = sections_.back().name.empty() ? std::string(key)
                                        : sections_.back().name + "." + std::string(key);
  f.environment = environment_spelling(f.key);
  f.target = target;
  f.range = std::move(range);
  f.sentence = sentence;
  // "a.b_c" and "a_b.c" would share a name in the environment: choose other words
  DEEPINFER_CHECK(environment_.emplace(f.environment, fields_.size()).second);
  f.standard = print(f);
  fields_.push_back(std::move(f));
}

void config_schema::field(std::string_view key, bool& target, std::string_view sentence) {
  add(key, &target, std::monostate{}, sentence);
}
void config_schema::field(std::string_view key,
                          uint16_t& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target,
      int_range{std::max<int64_t>(range.low, 0), std::min<int64_t>(range.high, UINT16_MAX)},
      sentence);
}
void config_schema::field(std::string_view key,
                          int32_t& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target,
      int_range{std::max<int64_t>(range.low, INT32_MIN), std::min<int64_t>(range.high, INT32_MAX)},
      sentence);
}
void config_schema::field(std::string_view key,
                          uint32_t& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target,
      int_range{std::max<int64_t>(range.low, 0), std::min<int64_t>(range.high, UINT32_MAX)},
      sentence);
}
void config_schema::field(std::string_view key,
                          int64_t& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target, range, sentence);
}
void config_schema::field(std::string_view key,
                          uint64_t& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target, int_range{std::max<int64_t>(range.low, 0), range.high}, sentence);
}
void config_schema::field(std::string_view key,
                          double& target,
                          real_range range,
                          std::string_view sentence) {
  add(key, &target, range, sentence);
}
void config_schema::field(std::string_view key,
                          std::chrono::milliseconds& target,
                          int_range range,
                          std::string_view sentence) {
  add(key, &target, int_range{std::max<int64_t>(range.low, 0), range.high}, sentence);
}
void config_schema::field(std::string_view key, std::string& target, std::string_view sentence) {
  add(key, &target, std::monostate{}, sentence);
}
void config_schema::field(std::string_view key,
                          std::string& target,
                          choices allowed,
                          std::string_view sentence) {
  add(key, &target, std::move(allowed), sentence);
}
void config_schema::field(std::string_view key,
                          std::vector<std::string>& target,
                          std::string_view sentence) {
  add(key, &target, std::monostate{}, sentence);
}
void config_schema::field(std::string_view key,
                          std::vector<std::string>& target,
                          choices allowed,
                          std::string_view sentence) {
  add(key, &target, std::move(allowed), sentence);
}
void config_schema::bytes(std::string_view key,
                          uint64_t& target,
                          int_range range,
                          std::string_view sentence) {
  field(key, target, range, sentence);
  fields_.back().is_size = true;
  fields_.back().standard = print(fields_.back());
}

void config_schema::environment_name(std::string_view name, std::string_view dotted_key) {
  const described_field* f = find(dotted_key);
  DEEPINFER_CHECK(f != nullptr);
  const auto index = static_cast<size_t>(f - fields_.data());
  DEEPINFER_CHECK(environment_.emplace(name, index).second);
}

void config_schema::foreign_environment_name(std::string_view name) {
  foreign_environment_.emplace(name);
}

const config_schema::described_field* config_schema::find(std::string_view dotted_key) const {
  for (const described_field& f : fields_)
    if (f.key == dotted_key) return &f;
  return nullptr;
}

std::string config_schema::unknown_key(std::string_view key) const {
  std::vector<std::string> known;
  for (const described_field& f : fields_) known.push_back(f.key);
  std::string what = "is not a setting";
  if (const auto near = config_text::nearest(key, known)) {
    what += "; did you mean " + *near + "?";
  } else {
    what += "; `--show-config` prints all of them";
  }
  return what;
}

result<void> config_schema::read_toml(std::string_view text, std::string_view origin) {
  if (text.size() > max_text_bytes)
    return failure{error_code::too_large, std::string(origin) + ": a config file has at most " +
                                              config_text::print_size(max_text_bytes)};
  const auto leaves = flatten_toml(text, origin);
  if (!leaves) return leaves.error();
  std::vector<assignment> assignments;
  for (const auto& [key, value] : *leaves)
    assignments.push_back({key, value, false, std::string(origin)});
  return apply(assignments, config_source::file);
}

result<void> config_schema::read_environment(
    const std::map<std::string, std::string>& environment) {
  std::vector<assignment> assignments;
  std::string unknown;
  for (const auto& [name, text] : environment) {
    if (!name.starts_with(environment_prefix) || foreign_environment_.contains(name)) continue;
    const auto known = environment_.find(name);
    if (known != environment_.end()) {
      assignments.push_back({fields_[known->second].key, text, true, name});
      continue;
    }
    std::vector<std::string> names;
    for (const auto& [candidate, index] : environment_) names.push_back(candidate);
    if (!unknown.empty()) unknown += '\n';
    unknown += "environment: " + name + " is not a setting";
    if (const auto near = config_text::nearest(name, names))
      unknown += "; did you mean " + *near + "?";
  }
  if (!unknown.empty()) return failure{error_code::invalid_argument, unknown};
  return apply(assignments, config_source::environment);
}

result<void> config_schema::set(std::string_view dotted_key, std::string_view text) {
  const assignment one{std::string(dotted_key), std::string(text), true, "command line"};
  return apply({one}, config_source::command_line);
}

result<void> config_schema::apply(const std::vector<assignment>& assignments,
                                  config_source source) {
  std::vector<fitted> ready;
  std::string errors;
  for (const assignment& a : assignments) {
    const described_field* f = find(a.key);
    auto value =
        f != nullptr ? fit(*f, a) : result<config_value>{wrong(a.where, a.key, unknown_key(a.key))};
    if (value) {
      ready.push_back({static_cast<size_t>(f - fields_.data()), *std::move(value)});
      continue;
    }
    if (!errors.empty()) errors += '\n';
    errors += value.error().detail;
  }
  if (!errors.empty()) return failure{error_code::invalid_argument, errors};
  for (const fitted& f : ready) {
    store(fields_[f.field], f.value);
    fields_[f.field].source = source;
  }
  return {};
}

std::vector<config_schema::entry> config_schema::values() const {
  std::vector<entry> out;
  for (const described_field& f : fields_) out.push_back({f.key, print(f), f.source});
  return out;
}

std::string config_schema::effective() const {
  std::string out;
  for (size_t s = 0; s < sections_.size(); ++s) {
    if (!sections_[s].name.empty()) {
      if (!out.empty()) out += '\n';
      out += "[" + sections_[s].name + "]\n";
    }
    for (const described_field& f : fields_) {
      if (f.section != s) continue;
      out += f.name + " = " + print(f);
      if (f.source != config_source::standard)
        out += "  # " + std::string(source_names[static_cast<size_t>(f.source)]);
      out += '\n';
    }
  }
  return out;
}

std::string config_schema::help() const {
  std::string out;
  for (size_t s = 0; s < sections_.size(); ++s) {
    if (!out.empty()) out += '\n';
    out += "[" + sections_[s].name + "]  " + sections_[s].sentence + "\n";
    for (const described_field& f : fields_) {
      if (f.section != s) continue;
      out += "  " + f.name + " = " + f.standard + "\n";
      out += "      " + f.sentence + " (" + type_and_range(f) + "; " + f.environment + ")\n";
    }
  }
  return out;
}

}  // namespace deepinfer
