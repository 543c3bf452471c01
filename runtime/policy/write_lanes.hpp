#pragma once

#include "runtime/policy/placement.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

/// Which blocks go to which store, in which order, and what becomes of those that cannot: the
/// decisions of a kv_writer. Pure: time comes in, puts and verdicts go out.
namespace deepinfer::policy {

/// What became of a block; the worst of the bad ones does not matter, since all behind it is lost.
enum class write_end : uint8_t {
  stored,
  refreshed,   ///< was there
  diverged,    ///< is there with other bytes, which stay
  known,       ///< this writer stored it a while ago; nobody was asked
  no_parent,   ///< the store does not have the block in front
  over_quota,  ///< of the scope
  full,        ///< the store is
  busy,
  stale,  ///< a newer life of this writer wrote there, or it came too late
  corrupt,
  failed,       ///< the store's medium
  unreachable,  ///< no answer in time
  no_store,     ///< nobody to send it to
  orphan,       ///< a block in front of it was lost before
  purged,       ///< by an operator, before it was sent
};
inline constexpr size_t write_ends = 15;
[[nodiscard]] constexpr bool is_kept(write_end e) {
  return e <= write_end::known;
}

struct write_store {
  store_site site;
  uint32_t group_blocks = 0;
  uint32_t replicas = 1;  ///< of each group, as this store believes
};

/// Blocks of one group of a chain, parents first.
struct write_job {
  uint64_t number = 0;  ///< of the caller's choice, unique
  storage::block_key head;
  storage::block_key parent;  ///< of the first of them
  uint32_t group_blocks = 0;
  std::vector<storage::block_key> keys;
  uint64_t scope = 0;
};

/// Blocks `first` to the end of a job, to one store.
struct write_put {
  uint64_t number = 0;
  uint64_t job = 0;
  storage::block_key store;
  uint32_t first = 0;
};

struct ended_job {
  uint64_t number = 0;
  std::vector<write_end> ends;  ///< one for each block
};

struct write_limits {
  uint32_t puts_per_store = 4;  ///< unanswered
  size_t lanes = 8192;          ///< groups remembered
  size_t keys_per_lane = 1024;  ///< blocks remembered of each
  size_t keys = 262'144;        ///< of all together
  /// How long stored blocks are believed to be there without asking.
  std::chrono::nanoseconds known_for = std::chrono::minutes{10};
  /// How long nothing is sent to a store that did not answer.
  std::chrono::nanoseconds left_out = std::chrono::seconds{10};
};

/// A lane is one group of one chain. Its jobs go one after the other, because a store takes a
/// block only behind its parent; lanes do not wait for each other. A group stays where its first
/// blocks went, also when a better owner joins.
class write_lanes {
public:
  using time_point = std::chrono::nanoseconds;

  explicit write_lanes(const write_limits& limits) : limits_(limits) {}

  /// A store that answers, or answers again in a new life.
  void set_store(const write_store& store, time_point now);
  /// What waits for it goes elsewhere.
  void remove_store(const storage::block_key& id, time_point now);

  void add(write_job job, time_point now);
  /// The next put to send; nothing while all stores with work have enough of it.
  [[nodiscard]] std::optional<write_put> next();
  /// It could not be sent yet; `next` gives it again, first.
  void put_back(const write_put& put);
  /// The store's verdicts, one for each block of the put; others mean `failed`.
  void answered(uint64_t put, std::span<const write_end> verdicts, time_point now);
  /// No answer: the store is left out for a while, the blocks get another chance elsewhere.
  void unanswered(uint64_t put, time_point now);

  /// What was not sent of a scope ends as `purged`, what was sent is not sent again, and nothing
  /// counts as known any more. Returns how many blocks ended so.
  size_t purge(uint64_t scope, time_point now);
  /// Whether something is on its way that was there when the scope was purged.
  [[nodiscard]] bool purging(uint64_t scope) const;

  /// Jobs that are over, in the order they ended; each is told once.
  [[nodiscard]] std::vector<ended_job> ended();

  [[nodiscard]] bool idle() const { return jobs_.empty(); }
  [[nodiscard]] size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] size_t puts_in_flight() const { return sent_; }
  [[nodiscard]] size_t lanes() const { return lanes_.size(); }
  [[nodiscard]] size_t keys() const { return keys_; }
  [[nodiscard]] size_t stores() const { return stores_.size(); }

private:
  enum class attempt : uint8_t { first, second };

  struct job_state {
    write_job what;
    std::vector<write_end> ends;
    std::vector<storage::block_key> tried;
    std::vector<storage::block_key> good;  ///< stores that took all of it
    uint32_t skipped = 0;                  ///< known ones in front
    uint32_t open = 0;                     ///< puts
    bool purged = false;
  };
  struct put_state {
    write_put what;
    attempt which{};    ///< there is no third
    uint64_t sent = 0;  ///< life of the store's entry; 0: waits
  };
  struct store_state {
    write_store what;
    std::deque<uint64_t> waiting;  ///< puts
    uint32_t sent = 0;
    uint64_t life = 0;  ///< of this entry: what was sent before it was removed does not count
    time_point left_out_until{};
  };
  struct lane {
    std::deque<uint64_t> waiting;  ///< jobs
    bool active = false;
    std::vector<storage::block_key> homes;
    std::map<storage::block_key, time_point> known;
    std::set<storage::block_key> missing;
    uint64_t scope = 0;
    uint64_t use = 0;  ///< its place in `order_`

    [[nodiscard]] size_t keys() const { return known.size() + missing.size(); }
  };
  void start_next(const storage::block_key& head, time_point now);
  bool start(job_state& job, lane& l, time_point now);
  void enqueue(job_state& job, const storage::block_key& store, attempt which);
  bool try_elsewhere(const put_state& put, time_point now);
  std::optional<put_state> take(uint64_t put);
  void abandon_queue(const storage::block_key& store, time_point now);
  void over(uint64_t job, time_point now);
  void unqueue_puts(uint64_t job);
  void finish(std::map<uint64_t, job_state>::iterator job, time_point now);
  void remember(const job_state& job, lane& l, time_point now);
  void touch(const storage::block_key& head, lane& l);
  void forget_keys(lane& l);
  void make_room(const storage::block_key& head);
  [[nodiscard]] std::vector<storage::block_key> targets(const write_job& job,
                                                        const lane& l,
                                                        time_point now) const;
  [[nodiscard]] std::vector<storage::block_key> ranked(const write_job& job, time_point now) const;

  write_limits limits_;
  std::map<storage::block_key, store_state> stores_;
  std::map<storage::block_key, lane> lanes_;
  size_t keys_ = 0;                               ///< remembered by all lanes
  std::map<uint64_t, storage::block_key> order_;  ///< lanes, the longest unused first
  std::map<uint64_t, job_state> jobs_;
  std::map<uint64_t, put_state> puts_;
  std::vector<ended_job> ended_;
  storage::block_key cursor_;  ///< store that was served last
  uint64_t next_put_ = 1;
  uint64_t next_use_ = 1;
  uint64_t next_life_ = 1;
  size_t sent_ = 0;
};

}  // namespace deepinfer::policy
