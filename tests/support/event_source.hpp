#pragma once

#include <chrono>
#include <optional>

namespace deepinfer::test {

/// Something that makes things happen in virtual time: the actors of a process, a network, a
/// device. `actor_world` drives any number of them in one thread.
class event_source {
public:
  virtual ~event_source() = default;
  /// Does one thing that is due at `now`; false if there was none.
  virtual bool run_one(std::chrono::nanoseconds now) = 0;
  /// When the next thing is due that is not due yet; none if only others can wake this source.
  [[nodiscard]] virtual std::optional<std::chrono::nanoseconds> next_due() const = 0;
};

}  // namespace deepinfer::test
