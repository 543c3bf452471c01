#include "actors/cache/store_watch.hpp"

#include <utility>

namespace deepinfer {

namespace {

struct words {
  std::string_view name, why;
};

constexpr words counted_words[] = {
    {"kvstore.read_failed",
     "the medium did not give blocks, which are computed again: look at its disk and mount"},
    {"kvstore.write_failed",
     "the medium did not take blocks, which are dropped: look at its disk and mount"},
    {"kvstore.quarantined",
     "blocks failed their checksums and are removed with all behind them: test this disk and "
     "memory, run deepinfer kv verify on the folder when its node is down"},
    {"kvstore.diverged",
     "writers computed other bytes for blocks that are stored, which stay: compare release, "
     "weights and hardware of the engines"},
    {"kvstore.hash_collision", "blocks of equal keys with other tokens: none was served"},
    {"kvstore.full",
     "no room could be made for new blocks, which are dropped: raise kvstore.capacity or add "
     "stores"},
    {"kvstore.put_malformed",
     "writes are refused as a whole: run one release and one kvstore.group_blocks on all nodes, "
     "and "
     "kvstore.segment_bytes and kvstore.pull_bytes larger than a block"},
    {"kvstore.evicted_young",
     "blocks younger than kvstore.floor were removed for space: raise kvstore.capacity or add "
     "stores"},
    {"kvstore.lost_at_open",
     "blocks of the last life were not whole and are gone; one crash explains some, a store that "
     "was closed in order loses none"},
};

struct state_words {
  std::string_view begun, begun_why, ended, ended_why;
};

constexpr state_words lasting_words[] = {
    {"kvstore.clock_frozen",
     "the wall clock jumped: nothing expires until it comes back, or an operator says that it is "
     "right",
     "kvstore.clock_thawed", "blocks expire again"},
    {"kvstore.journal_broken",
     "the index refuses writes: reads go on, new blocks are dropped until its disk has room and "
     "works",
     "kvstore.journal_mended", "the index takes writes again"},
    {"kvstore.hung",
     "reads or writes wait for the device and do not end; when all threads wait, this store "
     "refuses at once: look at its disk and mount",
     "kvstore.answers", "the device answers again"},
};

}  // namespace

std::vector<store_event> store_watch::look(const storage::store_stats& stats,
                                           const store_signs& signs,
                                           time_point now) {
  const std::array<uint64_t, counts> values{
      stats.read_failures, stats.write_failures,      stats.quarantined,
      stats.diverged,      stats.hash_collisions,     signs.full,
      signs.malformed,     stats.evicted_below_floor, stats.lost_at_open};
  const std::array<bool, lasts> present{stats.clock_frozen, stats.broken, signs.hung > 0};
  std::vector<store_event> events;
  for (size_t i = 0; i < counts; ++i) {
    told_count& told = counts_[i];
    if (values[i] <= told.value || now < told.quiet_until) continue;
    events.push_back({counted_words[i].name, values[i] - std::exchange(told.value, values[i]),
                      counted_words[i].why});
    told.quiet_until = now + again;
  }
  for (size_t i = 0; i < lasts; ++i) {
    told_state& told = states_[i];
    if (present[i] == told.on && !(present[i] && now >= told.next)) continue;
    const uint64_t count = i == hangs && signs.hung > 0 ? signs.hung : 1;
    told.on = present[i];
    told.next = now + still;
    const state_words& text = lasting_words[i];
    events.push_back(told.on ? store_event{text.begun, count, text.begun_why}
                             : store_event{text.ended, count, text.ended_why, true});
  }
  return events;
}

}  // namespace deepinfer
