#pragma once

#include <cstdint>
#include <map>

namespace deepinfer::storage {

/// Entries by the end of their life: one intrusive list per time. Times are coarse (a share of the
/// time to live), so there are a few hundred lists, and an entry pays two numbers.
///
/// `Pool` maps a number to an entry with `expiry_ms`, `next_due` and `previous_due`.
class expiry_lists {
public:
  static constexpr uint32_t none = UINT32_MAX;

  template <class Pool>
  void add(uint32_t id, Pool& pool) {
    auto& e = pool[id];
    const auto [list, fresh] = heads_.try_emplace(e.expiry_ms, none);
    e.previous_due = none;
    e.next_due = list->second;
    if (!fresh && list->second != none) pool[list->second].previous_due = id;
    list->second = id;
  }

  template <class Pool>
  void remove(uint32_t id, Pool& pool) {
    auto& e = pool[id];
    if (e.next_due != none) pool[e.next_due].previous_due = e.previous_due;
    if (e.previous_due != none) {
      pool[e.previous_due].next_due = e.next_due;
    } else {
      const auto list = heads_.find(e.expiry_ms);
      list->second = e.next_due;
      if (list->second == none) heads_.erase(list);
    }
    e.next_due = e.previous_due = none;
  }

  [[nodiscard]] const std::map<int64_t, uint32_t>& heads() const { return heads_; }

private:
  std::map<int64_t, uint32_t> heads_;  // time -> first entry
};

}  // namespace deepinfer::storage
