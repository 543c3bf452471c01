#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace deepinfer {

/// Who reads files and verifies next; pure. Work waits here and not in the mailboxes of workers,
/// where it would wait behind a read that hangs.
///
/// Work names its medium: the folder it reads; empty, it only computes. Reads of one folder never
/// take all workers, and one reader of a folder that is late (`late_after`) closes that folder
/// until it is back, so that a mount that hangs costs its own blocks only: they are asked for from
/// their store.
class fetch_pool {
public:
  using time_point = std::chrono::nanoseconds;

  struct work {
    std::string folder;
    std::function<void()> run;
    std::function<void()> refused;  ///< instead of `run`, when its folder hangs
  };
  struct start {
    uint32_t worker = 0;
    std::function<void()> run;
  };

  fetch_pool(uint32_t workers, std::chrono::milliseconds late_after);

  void add(work one) { waiting_.push_back(std::move(one)); }
  /// Begins the oldest work that may begin; call until there is none.
  [[nodiscard]] std::optional<start> next(time_point now);
  void over(uint32_t worker);
  /// What waits for folders that hang, to be refused.
  [[nodiscard]] std::vector<std::function<void()>> hopeless(time_point now);

  [[nodiscard]] size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] size_t running() const { return running_.size(); }
  [[nodiscard]] size_t late(time_point now) const;

private:
  struct busy {
    std::string folder;
    time_point since{};
  };

  [[nodiscard]] bool hangs(const std::string& folder, time_point now) const;
  [[nodiscard]] bool may_begin(const std::string& folder) const;

  uint32_t workers_;
  std::chrono::milliseconds late_after_;
  std::vector<uint32_t> idle_;
  std::deque<work> waiting_;
  std::map<uint32_t, busy> running_;
};

}  // namespace deepinfer
