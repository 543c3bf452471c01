#include "actors/bench/kv_trace.hpp"

#include "actors/bench/peer_process.hpp"
#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace deepinfer::bench {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t mooncake_unit_tokens = 512;
constexpr uint64_t most_units = 1 << 20;  // of one prompt
constexpr int most_nested = 8;            // sessions inside sessions

using line_reader = std::function<result<void>(const std::string&)>;

result<void> each_plain_line(const std::string& path, const line_reader& read) {
  std::ifstream in{path};
  if (!in) return failure{error_code::not_found, "cannot read " + path};
  for (std::string line; std::getline(in, line);)
    if (auto done = read(line); !done) return done;
  return {};
}

result<void> each_packed_line(const std::string& path, const line_reader& read) {
  peer_process zstd;
  if (auto started = zstd.start({"/usr/bin/env", "zstd", "-dcq", path}); !started) return started;
  for (uint64_t lines = 0;; ++lines) {
    auto line = zstd.line(60s);
    if (!line && line.error().code == error_code::unreachable && lines > 0) return {};
    if (!line) return failure{line.error().code, "zstd gives no lines of " + path};
    if (auto done = read(*line); !done) return done;
  }
}

result<void> each_line(const std::string& path, const line_reader& read) {
  return path.ends_with(".zst") ? each_packed_line(path, read) : each_plain_line(path, read);
}

using recipe::json_array;
using recipe::json_object;
using recipe::json_value;

/// A session's line may be long.
constexpr recipe::json_limits line_limits{
    .max_bytes = size_t{256} << 20, .max_depth = 32, .max_values = 32'000'000};

/// What a field is, or null; a trace with fields missing or of another kind is refused whole.
const json_value* field(const json_value& of, std::string_view name) {
  const auto* object = of.as<json_object>();
  if (object == nullptr) return nullptr;
  const auto found = std::find_if(object->begin(), object->end(),
                                  [name](const auto& member) { return member.key == name; });
  return found == object->end() ? nullptr : &found->value;
}

const json_array* array_in(const json_value& of, std::string_view name) {
  const json_value* value = field(of, name);
  return value == nullptr ? nullptr : value->as<json_array>();
}

std::optional<uint64_t> whole(const json_value* value) {
  const auto* number = value == nullptr ? nullptr : value->as<int64_t>();
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<std::chrono::milliseconds> time_in(const json_value& of,
                                                 const char* name,
                                                 double unit_ms) {
  const json_value* value = field(of, name);
  if (value == nullptr) return std::nullopt;
  double number = -1;
  if (const auto count = whole(value)) number = static_cast<double>(*count);
  if (const auto* real = value->as<double>()) number = *real;
  if (!(number >= 0 && number <= 1e12)) return std::nullopt;
  return std::chrono::milliseconds{static_cast<int64_t>(number * unit_ms)};
}

std::optional<std::vector<uint32_t>> units_in(const json_value& of) {
  const json_array* array = array_in(of, "hash_ids");
  if (array == nullptr || array->size() > most_units) return std::nullopt;
  std::vector<uint32_t> units;
  units.reserve(array->size());
  for (const json_value& element : *array) {
    const auto id = whole(&element);
    if (!id || *id > UINT32_MAX) return std::nullopt;
    units.push_back(static_cast<uint32_t>(*id));
  }
  return units;
}

class trace_reader {
public:
  explicit trace_reader(uint64_t most) : most_(most == 0 ? UINT64_MAX : most) {}

  result<void> read(const std::string& path) {
    uint64_t number = 0;
    return each_line(path, [&](const std::string& line) -> result<void> {
      ++number;
      if (line.empty() || read_line(path, line)) return {};
      return failure{error_code::invalid_argument,
                     path + ", line " + std::to_string(number) + ": no request of a known trace"};
    });
  }

  std::vector<request_trace> take() {
    std::vector<request_trace> all;
    for (auto& [name, trace] : traces_) {
      std::stable_sort(trace.requests.begin(), trace.requests.end(),
                       [](const auto& a, const auto& b) { return a.at < b.at; });
      if (trace.requests.size() > most_) trace.requests.resize(most_);
      all.push_back(std::move(trace));
    }
    return all;
  }

private:
  bool read_line(const std::string& path, const std::string& line) {
    const auto root = recipe::parse_json(line, line_limits);
    if (!root) return false;
    return array_in(*root, "requests") != nullptr ? session(*root) : single(path, *root);
  }

  /// A line of Mooncake's traces.
  bool single(const std::string& path, const json_value& root) {
    const auto at = time_in(root, "timestamp", 1);
    const auto tokens = whole(field(root, "input_length"));
    auto units = units_in(root);
    if (!at || !tokens || !units) return false;
    request_trace& trace = named(name_of(path), mooncake_unit_tokens);
    return add(trace, {*at, 0, *tokens, *std::move(units)});
  }

  /// A line of the coding sessions.
  bool session(const json_value& root) {
    const auto unit = whole(field(root, "block_size"));
    if (!unit || *unit == 0 || *unit > mooncake_unit_tokens) return false;
    request_trace& trace = named("coding_sessions", static_cast<uint32_t>(*unit));
    trace.use = storage::traffic_class::agent;
    return trace.unit_tokens == *unit && requests_of(root, trace, sessions_++, {}, 0);
  }
  bool requests_of(const json_value& of,
                   request_trace& trace,
                   uint32_t space,
                   std::chrono::milliseconds begin,
                   int nested) {
    const json_array* requests = array_in(of, "requests");
    if (requests == nullptr || nested > most_nested) return false;
    for (const json_value& request : *requests) {
      const auto at = time_in(request, "t", 1000);
      if (!at) return false;
      if (array_in(request, "requests") != nullptr) {
        if (!requests_of(request, trace, space, begin + *at, nested + 1)) return false;
        continue;
      }
      const auto tokens = whole(field(request, "in"));
      auto units = units_in(request);
      if (!tokens || !units) return false;
      if (!add(trace, {begin + *at, space, *tokens, *std::move(units)})) return false;
    }
    return true;
  }

  static bool add(request_trace& trace, trace_request request) {
    // a part at the end has a number of its own in some traces and none in others
    const uint64_t whole = request.tokens / trace.unit_tokens;
    if (request.units.size() < whole || request.units.size() > whole + 1) return false;
    trace.requests.push_back(std::move(request));
    return true;
  }

  request_trace& named(const std::string& name, uint32_t unit_tokens) {
    const auto [at, fresh] = traces_.try_emplace(name);
    if (fresh) {
      at->second.name = name;
      at->second.unit_tokens = unit_tokens;
    }
    return at->second;
  }
  /// The file's name in letters that a figure's name may have.
  static std::string name_of(const std::string& path) {
    std::string name = std::filesystem::path{path}.filename().string();
    name = name.substr(0, name.find('.'));
    for (char& c : name)
      if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9')) c = '_';
    return name;
  }

  uint64_t most_;
  std::map<std::string, request_trace> traces_;
  uint32_t sessions_ = 0;
};

result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator{path, error}) {
      const std::string file = entry.path().string();
      if (file.ends_with(".jsonl") || file.ends_with(".jsonl.zst")) files.push_back(file);
    }
    if (error) return failure{error_code::not_found, "cannot read " + path};
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return failure{error_code::not_found, "no .jsonl or .jsonl.zst files"};
  return files;
}

}  // namespace

result<std::vector<request_trace>> read_traces(const std::vector<std::string>& paths,
                                               uint64_t most_requests) {
  const auto files = files_of(paths);
  if (!files) return files.error();
  trace_reader reader{most_requests};
  for (const std::string& file : *files)
    if (auto done = reader.read(file); !done) return done.error();
  return reader.take();
}

std::vector<uint64_t> seen_before(const request_trace& trace) {
  std::unordered_set<uint64_t> seen;
  std::vector<uint64_t> tokens;
  for (const trace_request& request : trace.requests) {
    const auto id = [&request](uint32_t unit) { return uint64_t{request.space} << 32 | unit; };
    size_t known = 0;
    while (known < request.units.size() && seen.contains(id(request.units[known]))) ++known;
    tokens.push_back(std::min(known * trace.unit_tokens, request.tokens));
    for (const uint32_t unit : request.units) seen.insert(id(unit));
  }
  return tokens;
}

}  // namespace deepinfer::bench
