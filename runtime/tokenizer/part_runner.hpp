#pragma once

#include <cstddef>
#include <functional>

namespace deepinfer::text {

/// Whoever lends threads to encoding: nothing here starts one.
class part_runner {
public:
  virtual ~part_runner() = default;

  /// Calls `work(0)` to `work(count - 1)`, each once, in any threads, the caller's among them;
  /// lower numbers are begun first. Returns when all are done. `work` does not throw. Safe to call
  /// from several threads at once.
  virtual void run(size_t count, const std::function<void(size_t)>& work) = 0;

  /// How many calls can be under way at once for one `run`.
  [[nodiscard]] virtual size_t width() const = 0;
};

}  // namespace deepinfer::text
