#pragma once

#include "proto/types/result.hpp"
#include "runtime/base/config.hpp"

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The log: events with a name and key=value fields, one line each:
///   2026-03-01T12:00:00.250Z info kv.block.evicted block=9f… bytes=114688
/// Only actors write to it; everything below reports by value.
namespace deepinfer {

enum class log_level : uint8_t { debug, info, warn, error };

[[nodiscard]] std::string_view to_string(log_level level) noexcept;

/// One key=value pair; the key is a constant of the program.
struct log_field {
  std::string_view key;
  std::string value;

  log_field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  log_field(std::string_view k, std::string_view v) : key(k), value(v) {}
  log_field(std::string_view k, const char* v) : key(k), value(v) {}
  log_field(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  template <std::integral Number>
  log_field(std::string_view k, Number v) : key(k), value(std::to_string(v)) {}
  log_field(std::string_view k, double v);
  log_field(std::string_view k, std::chrono::milliseconds v)
      : key(k), value(std::to_string(v.count()) + "ms") {}
};

/// Where events go. Safe to call from any thread; never fails, never blocks for long.
class log_sink {
public:
  virtual ~log_sink() = default;
  /// False: `write` would drop it; spares the caller the fields.
  [[nodiscard]] virtual bool enabled(log_level level) const noexcept = 0;
  virtual void write(log_level level,
                     std::string_view event,
                     std::span<const log_field> fields) = 0;

  void debug(std::string_view event, std::initializer_list<log_field> fields = {}) {
    write(log_level::debug, event, {fields.begin(), fields.size()});
  }
  void info(std::string_view event, std::initializer_list<log_field> fields = {}) {
    write(log_level::info, event, {fields.begin(), fields.size()});
  }
  void warn(std::string_view event, std::initializer_list<log_field> fields = {}) {
    write(log_level::warn, event, {fields.begin(), fields.size()});
  }
  void error(std::string_view event, std::initializer_list<log_field> fields = {}) {
    write(log_level::error, event, {fields.begin(), fields.size()});
  }
};

/// The time to print, UTC. Given by the owner of the sink, so that tests and simulation have
/// theirs.
using log_clock = std::function<std::chrono::sys_time<std::chrono::milliseconds>()>;

struct log_config {
  std::string level = "info";
  std::string file;
  uint64_t file_bytes = uint64_t{64} << 20;
  uint32_t ring_lines = 1000;

  template <class V>
  void describe(V& v) {
    v.field("level", level, one_of({"debug", "info", "warn", "error"}), "Least level written.");
    v.field("file", file, "File for the log besides standard error; empty for none.");
    v.bytes("file_bytes", file_bytes, at_least(1 << 16),
            "Size at which the file starts anew; one "
            "older file is kept.");
    v.field("ring_lines", ring_lines, between(1, 100000), "Last lines kept for the console.");
  }
};

/// The last N lines, for the console, and for tests to print when they fail.
class ring_log final : public log_sink {
public:
  /// Starts with `least` as the least level kept.
  ring_log(size_t capacity_lines, log_level least, log_clock clock);

  [[nodiscard]] bool enabled(log_level level) const noexcept override { return level >= least_; }
  void write(log_level level, std::string_view event, std::span<const log_field> fields) override;

  /// Oldest first, at most `count`.
  [[nodiscard]] std::vector<std::string> tail(size_t count) const;
  /// Appends a finished line.
  void keep(std::string line);

private:
  const size_t capacity_lines_;
  const log_level least_;
  const log_clock clock_;
  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
};

/// The sink of a process: standard error, optionally a file, and the ring.
class process_log : public log_sink {
public:
  [[nodiscard]] virtual std::vector<std::string> tail(size_t count) const = 0;
};

/// Fails when the file cannot be opened or the level has no such name.
[[nodiscard]] result<std::shared_ptr<process_log>> make_process_log(const log_config& config,
                                                                    log_clock clock);

inline constexpr size_t max_log_line_bytes = 8192;  ///< longer lines are cut and end in "…"

/// One line without its end: a value with blanks, quotes or nothing in it is quoted; control
/// characters and broken UTF-8 never reach the terminal.
[[nodiscard]] std::string format_log_line(std::chrono::sys_time<std::chrono::milliseconds> time,
                                          log_level level,
                                          std::string_view event,
                                          std::span<const log_field> fields);

}  // namespace deepinfer
