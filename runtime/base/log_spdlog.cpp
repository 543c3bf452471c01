// The only file that sees spdlog: it writes finished lines, so its own formatting stays unused.
#include "runtime/base/log.hpp"

#include "proto/types/result.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <utility>

namespace deepinfer {
namespace {

class spdlog_log final : public process_log {
public:
  spdlog_log(log_level least,
             size_t ring_lines,
             log_clock clock,
             std::unique_ptr<spdlog::logger> backend)
      : clock_(std::move(clock)), ring_(ring_lines, least, clock_), backend_(std::move(backend)) {}

  bool enabled(log_level level) const noexcept override { return ring_.enabled(level); }

  void write(log_level level, std::string_view event, std::span<const log_field> fields) override {
    if (!enabled(level)) return;
    std::string line = format_log_line(clock_(), level, event, fields);
    backend_->log(spdlog::level::info, spdlog::string_view_t{line.data(), line.size()});
    ring_.keep(std::move(line));
  }

  std::vector<std::string> tail(size_t count) const override { return ring_.tail(count); }

private:
  const log_clock clock_;
  ring_log ring_;
  std::unique_ptr<spdlog::logger> backend_;
};

result<log_level> level_by_name(std::string_view name) {
  for (const log_level level :
       {log_level::debug, log_level::info, log_level::warn, log_level::error})
    if (to_string(level) == name) return level;
  return failure{error_code::invalid_argument,
                 "log.level must be debug, info, warn or error, not " + std::string(name)};
}

}  // namespace

result<std::shared_ptr<process_log>> make_process_log(const log_config& config, log_clock clock) {
  const auto level = level_by_name(config.level);
  if (!level) return level.error();
  try {
    std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    if (!config.file.empty())
      sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(config.file,
                                                                             config.file_bytes, 1));
    auto backend = std::make_unique<spdlog::logger>("deepinfer", sinks.begin(), sinks.end());
    backend->set_pattern("%v");
    backend->set_level(spdlog::level::trace);
    backend->flush_on(spdlog::level::trace);  // a line must survive the crash it explains
    // a full disk must not stop the service, nor make spdlog print in a format of its own
    backend->set_error_handler([](const std::string&) {});
    return std::shared_ptr<process_log>{std::make_shared<spdlog_log>(
        *level, config.ring_lines, std::move(clock), std::move(backend))};
  } catch (const spdlog::spdlog_ex& error) {
    return failure{error_code::unreachable,
                   "log.file " + config.file + " cannot be written: " + error.what()};
  }
}

}  // namespace deepinfer
