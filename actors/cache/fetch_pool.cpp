#include "actors/cache/fetch_pool.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

fetch_pool::fetch_pool(uint32_t workers, std::chrono::milliseconds late_after)
    : workers_(workers), late_after_(late_after) {
  for (uint32_t i = workers; i > 0; --i) idle_.push_back(i - 1);
}

bool fetch_pool::hangs(const std::string& folder, time_point now) const {
  if (folder.empty()) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
    return entry.second.folder == folder && now - entry.second.since >= late_after_;
  });
}

/// One worker is left for what needs no folder, and one for each other folder as long as there are.
bool fetch_pool::may_begin(const std::string& folder) const {
  if (folder.empty()) return true;
  uint32_t same = 0, reading = 0;
  for (const auto& [worker, one] : running_) {
    same += one.folder == folder ? 1 : 0;
    reading += one.folder.empty() ? 0 : 1;
  }
  const uint32_t readers = std::max(1u, workers_ - 1);
  return reading < readers && same < std::max(1u, readers - 1);
}

std::optional<fetch_pool::start> fetch_pool::next(time_point now) {
  if (idle_.empty()) return std::nullopt;
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const work& one) { return may_begin(one.folder); });
  if (found == waiting_.end()) return std::nullopt;
  work one = std::move(*found);
  waiting_.erase(found);
  const uint32_t worker = idle_.back();
  idle_.pop_back();
  running_.emplace(worker, busy{std::move(one.folder), now});
  return start{worker, std::move(one.run)};
}

void fetch_pool::over(uint32_t worker) {
  if (running_.erase(worker) > 0) idle_.push_back(worker);
}

std::vector<std::function<void()>> fetch_pool::hopeless(time_point now) {
  std::vector<std::function<void()>> out;
  std::deque<work> kept;
  // Several folders may lie on one mount: when all that may read hang, so will the next.
  const auto stuck = std::count_if(running_.begin(), running_.end(), [&](const auto& entry) {
    return !entry.second.folder.empty() && now - entry.second.since >= late_after_;
  });
  const bool all = static_cast<size_t>(stuck) >= std::max(1u, workers_ - 1);
  for (work& one : waiting_)
    if (hangs(one.folder, now) || (all && !one.folder.empty()))
      out.push_back(std::move(one.refused));
    else
      kept.push_back(std::move(one));
  waiting_ = std::move(kept);
  return out;
}

size_t fetch_pool::late(time_point now) const {
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(), [&](const auto& one) {
    return now - one.second.since >= late_after_;
  }));
}

}  // namespace deepinfer
