#pragma once

#include "runtime/base/log.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace deepinfer {

/// A log whose every line ends with `mark`: several processes may write to one terminal or file.
[[nodiscard]] inline std::shared_ptr<process_log> mark_log(std::shared_ptr<process_log> log,
                                                           log_field mark) {
  class marked_log final : public process_log {
  public:
    marked_log(std::shared_ptr<process_log> log, log_field mark)
        : log_(std::move(log)), mark_(std::move(mark)) {}
    bool enabled(log_level level) const noexcept override { return log_->enabled(level); }
    void write(log_level level,
               std::string_view event,
               std::span<const log_field> fields) override {
      std::vector<log_field> all{fields.begin(), fields.end()};
      all.push_back(mark_);
      log_->write(level, event, all);
    }
    std::vector<std::string> tail(size_t count) const override { return log_->tail(count); }

  private:
    std::shared_ptr<process_log> log_;
    log_field mark_;
  };
  return std::make_shared<marked_log>(std::move(log), std::move(mark));
}

}  // namespace deepinfer
