#include "runtime/policy/write_lanes.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace deepinfer::policy;
using deepinfer::storage::block_key;
using deepinfer::test::rng;
using std::chrono::seconds;

constexpr uint32_t group = 8;

write_store a_store(uint64_t id, uint32_t replicas = 1) {
  return {{id, ~id, 1}, group, replicas};
}

block_key id_of(const write_store& store) {
  return {store.site.id_hi, store.site.id_lo};
}

/// A chain's key at a depth; `branch` names the fork from depth `at` on.
block_key key_at(uint64_t chain, uint64_t depth) {
  return {chain, depth + 1};
}

write_job a_job(uint64_t number, uint64_t chain, uint32_t first, uint32_t count) {
  write_job job{number, key_at(chain, first / group * group), {}, group, {}};
  job.parent = first == 0 ? block_key{chain, 0} : key_at(chain, first - 1);
  for (uint32_t i = 0; i < count; ++i) job.keys.push_back(key_at(chain, first + i));
  return job;
}

/// What a store does with blocks, as simply as can be said.
struct naive_store {
  std::set<block_key> blocks;
  write_end next_trouble = write_end::stored;

  write_end take(const block_key& key, const block_key& parent, bool is_head) {
    if (!is_head && !blocks.contains(parent)) return write_end::no_parent;
    if (!is_kept(next_trouble)) return next_trouble;
    return blocks.insert(key).second ? write_end::stored : write_end::refreshed;
  }
};

std::vector<write_end> serve(naive_store& store, const write_job& job, uint32_t first) {
  std::vector<write_end> verdicts;
  for (size_t i = first; i < job.keys.size(); ++i)
    verdicts.push_back(
        store.take(job.keys[i], i == 0 ? job.parent : job.keys[i - 1], job.keys[i] == job.head));
  return verdicts;
}

std::vector<write_end> ends_of(write_lanes& lanes, uint64_t number) {
  for (const auto& job : lanes.ended())
    if (job.number == number) return job.ends;
  return {};
}

std::vector<write_end> all(write_end end, size_t count) {
  return std::vector<write_end>(count, end);
}

/// Random jobs, stores that come, go, fail and answer in any order.
class random_run {
public:
  explicit random_run(uint64_t seed)
      : random_(seed),
        faults_(seed % 3 != 0),
        replicas_(1 + random_.below(3)),
        lanes_({.puts_per_store = 1 + random_.below(3),
                .lanes = faults_ ? 16u : 4096u,
                .keys_per_lane = 40}) {}

  void join() {
    known_.push_back(a_store(random_.next(), replicas_));
    stores_[id_of(known_.back())];
    lanes_.set_store(known_.back(), now_);
  }

  void step() {
    now_ += std::chrono::milliseconds(random_.below(300));
    const uint32_t what = random_.below(10);
    if (what < 4)
      add();
    else if (what < 9 && !sent_.empty())
      answer(random_.below(static_cast<uint32_t>(sent_.size())));
    else if (faults_ && known_.size() > 1 && random_.below(20) == 0)
      leave();
    else if (known_.size() < 6 && random_.below(20) == 0)
      join();
    else if (faults_ && random_.below(30) == 0)
      static_cast<void>(lanes_.purge(0, now_));
    send();
    collect();
  }

  void finish() {
    healed_ = true;
    while (!lanes_.idle()) {
      send();
      REQUIRE_FALSE(sent_.empty());
      answer(static_cast<uint32_t>(sent_.size()) - 1);
      collect();
    }
    collect();
  }

  void check_end() const {
    CHECK(over_ == number_);
    CHECK(open_.empty());
    CHECK(lanes_.puts_in_flight() == 0);
    if (faults_) return;
    // Without faults every block lies somewhere, and only where its group's home was.
    for (const auto& [chain, blocks] : written_)
      for (uint32_t depth = 0; depth < blocks; ++depth) {
        const auto copies = std::count_if(stores_.begin(), stores_.end(), [&](const auto& s) {
          return s.second.blocks.contains(key_at(chain, depth));
        });
        REQUIRE(copies >= 1);
        REQUIRE(copies <= replicas_);
      }
  }

private:
  void add() {
    const uint64_t chain = 1 + random_.below(12);
    const uint32_t first = written_[chain];
    const uint32_t count = 1 + random_.below(group - first % group);
    ++number_;
    open_[number_] = a_job(number_, chain, first, count);
    lanes_.add(open_[number_], now_);
    written_[chain] += count;
  }

  void leave() {
    lanes_.remove_store(id_of(known_.front()), now_);
    known_.erase(known_.begin());
  }

  void answer(uint32_t at) {
    const write_put put = sent_[at];
    sent_.erase(sent_.begin() + at);
    naive_store& store = stores_.at(put.store);
    const bool trouble = faults_ && !healed_;
    store.next_trouble = trouble && random_.below(8) == 0
                             ? static_cast<write_end>(5 + random_.below(6))
                             : write_end::stored;
    if (trouble && random_.below(20) == 0)
      lanes_.unanswered(put.number, now_);
    else
      lanes_.answered(put.number, serve(store, open_.at(put.job), put.first), now_);
  }

  void send() {
    while (const auto put = lanes_.next()) {
      for (const write_put& other : sent_)  // one job of a lane at a time
        REQUIRE((open_.at(other.job).head != open_.at(put->job).head || other.job == put->job));
      if (!healed_ && random_.below(10) == 0) return lanes_.put_back(*put);
      sent_.push_back(*put);
    }
  }

  void collect() {
    for (const ended_job& job : lanes_.ended()) {
      ++over_;
      const auto found = open_.find(job.number);
      REQUIRE(found != open_.end());
      REQUIRE(job.ends.size() == found->second.keys.size());
      for (size_t i = 0; i < job.ends.size(); ++i) {
        if (!faults_) REQUIRE(is_kept(job.ends[i]));
        if (!is_kept(job.ends[i])) continue;
        REQUIRE(std::any_of(stores_.begin(), stores_.end(), [&](const auto& s) {
          return s.second.blocks.contains(found->second.keys[i]);
        }));
      }
      open_.erase(found);
    }
  }

  rng random_;
  bool faults_, healed_ = false;
  uint32_t replicas_;
  write_lanes lanes_;
  std::map<block_key, naive_store> stores_;
  std::vector<write_store> known_;
  std::map<uint64_t, write_job> open_;
  std::vector<write_put> sent_;
  std::map<uint64_t, uint32_t> written_;  // chain -> blocks offered
  uint64_t number_ = 0;
  size_t over_ = 0;
  std::chrono::nanoseconds now_{};
};

}  // namespace

TEST_SUITE("runtime/policy") {
  TEST_CASE("a group goes to its owners, and its later blocks follow in order") {
    write_lanes lanes{{}};
    for (uint64_t id = 1; id <= 4; ++id) lanes.set_store(a_store(id, 2), {});
    lanes.add(a_job(1, 7, 0, 4), {});
    lanes.add(a_job(2, 7, 4, 1), {});
    const auto one = lanes.next();
    const auto two = lanes.next();
    REQUIRE(one);
    REQUIRE(two);
    CHECK(one->job == 1);
    CHECK(two->job == 1);
    CHECK(one->store != two->store);
    CHECK_FALSE(lanes.next());  // the second job waits for both
    lanes.answered(one->number, all(write_end::stored, 4), {});
    CHECK_FALSE(lanes.next());
    lanes.answered(two->number, all(write_end::refreshed, 4), {});
    CHECK(ends_of(lanes, 1).size() == 4);
    const auto three = lanes.next();
    REQUIRE(three);
    CHECK(three->job == 2);
    CHECK((three->store == one->store || three->store == two->store));
  }

  TEST_CASE("groups do not wait for each other, but a store has a bounded number of puts") {
    write_lanes lanes{{.puts_per_store = 3}};
    lanes.set_store(a_store(1), {});
    for (uint64_t chain = 1; chain <= 5; ++chain) lanes.add(a_job(chain, chain, 0, 2), {});
    std::vector<write_put> sent;
    while (const auto put = lanes.next()) sent.push_back(*put);
    CHECK(sent.size() == 3);
    CHECK(lanes.puts_in_flight() == 3);
    lanes.answered(sent[1].number, all(write_end::stored, 2), {});
    CHECK(lanes.next());
    CHECK_FALSE(lanes.next());
  }

  TEST_CASE("a put that could not leave comes again, first") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 2), {});
    lanes.add(a_job(2, 2, 0, 2), {});
    const auto put = lanes.next();
    REQUIRE(put);
    lanes.put_back(*put);
    CHECK(lanes.puts_in_flight() == 0);
    CHECK(lanes.next()->number == put->number);
  }

  TEST_CASE("without a store that cuts chains at the same places blocks are dropped at once") {
    write_lanes lanes{{}};
    auto other = a_store(1);
    other.group_blocks = group + 1;
    lanes.set_store(other, {});
    lanes.add(a_job(1, 1, 0, 2), {});
    CHECK_FALSE(lanes.next());
    CHECK(ends_of(lanes, 1) == all(write_end::no_store, 2));
  }

  TEST_CASE("what was stored a while ago is not sent again, until it is too long ago") {
    write_lanes lanes{{.known_for = seconds{60}}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 3), {});
    lanes.answered(lanes.next()->number, all(write_end::stored, 3), {});
    lanes.add(a_job(2, 1, 0, 3), seconds{1});
    CHECK_FALSE(lanes.next());
    lanes.add(a_job(3, 1, 0, 5), seconds{2});
    const auto rest = lanes.next();
    REQUIRE(rest);
    CHECK(rest->first == 3);
    lanes.answered(rest->number, all(write_end::stored, 2), seconds{2});
    lanes.add(a_job(4, 1, 0, 3), seconds{61});
    CHECK(lanes.next()->first == 0);
  }

  TEST_CASE("blocks believed to be stored go again when the store misses them") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 3), {});
    lanes.answered(lanes.next()->number, all(write_end::stored, 3), {});
    lanes.add(a_job(2, 1, 0, 4), {});
    lanes.answered(lanes.next()->number, all(write_end::no_parent, 1), {});
    const auto again = lanes.next();
    REQUIRE(again);
    CHECK(again->first == 0);
    lanes.answered(again->number, all(write_end::stored, 4), {});
    CHECK_FALSE(lanes.ended().empty());
    CHECK(lanes.idle());
  }

  TEST_CASE("blocks behind a lost one are dropped without asking, from the head on all is well") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 2), {});
    lanes.answered(lanes.next()->number, std::vector{write_end::stored, write_end::full}, {});
    CHECK(ends_of(lanes, 1) == std::vector{write_end::stored, write_end::full});
    lanes.add(a_job(2, 1, 2, 1), {});
    CHECK_FALSE(lanes.next());
    CHECK(ends_of(lanes, 2) == all(write_end::orphan, 1));
    lanes.add(a_job(3, 1, 3, 1), {});
    CHECK(ends_of(lanes, 3) == all(write_end::orphan, 1));
    lanes.add(a_job(4, 1, 0, 4), {});
    const auto put = lanes.next();
    REQUIRE(put);
    lanes.answered(put->number, all(write_end::stored, 4 - put->first), {});
    lanes.add(a_job(5, 1, 4, 1), {});
    CHECK(lanes.next());
  }

  TEST_CASE("a store that does not answer is left out, and its blocks go to the next owner once") {
    write_lanes lanes{{.left_out = seconds{10}}};
    lanes.set_store(a_store(1), {});
    lanes.set_store(a_store(2), {});
    lanes.add(a_job(1, 1, 0, 2), {});
    const auto first = lanes.next();
    lanes.unanswered(first->number, seconds{1});
    const auto second = lanes.next();
    REQUIRE(second);
    CHECK(second->store != first->store);
    lanes.unanswered(second->number, seconds{1});
    CHECK_FALSE(lanes.next());
    CHECK(ends_of(lanes, 1) == all(write_end::unreachable, 2));
    lanes.add(a_job(2, 2, 0, 2), seconds{10});
    CHECK(ends_of(lanes, 2) == all(write_end::no_store, 2));
    lanes.add(a_job(3, 3, 0, 2), seconds{11});
    CHECK(lanes.next());
  }

  TEST_CASE("a better owner that joins takes new groups, not the rest of old ones") {
    rng random(5);
    for (uint64_t chain = 1; chain < 20; ++chain) {
      write_lanes lanes{{}};
      lanes.set_store(a_store(random.next()), {});
      lanes.add(a_job(1, chain, 0, 2), {});
      const auto first = lanes.next();
      lanes.answered(first->number, all(write_end::stored, 2), {});
      for (int i = 0; i < 3; ++i) lanes.set_store(a_store(random.next()), {});
      lanes.add(a_job(2, chain, 2, 1), {});
      CHECK(lanes.next()->store == first->store);
    }
  }

  TEST_CASE("a writer that forgot where a group lies finds it at the second owner") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.set_store(a_store(2), {});
    lanes.add(a_job(1, 1, 3, 1), {});
    const auto first = lanes.next();
    lanes.answered(first->number, all(write_end::no_parent, 1), {});
    const auto second = lanes.next();
    REQUIRE(second);
    CHECK(second->store != first->store);
    lanes.answered(second->number, all(write_end::stored, 1), {});
    CHECK(ends_of(lanes, 1) == all(write_end::stored, 1));
  }

  TEST_CASE("lanes and keys are remembered up to their limits") {
    write_lanes lanes{{.lanes = 10, .keys_per_lane = 8}};
    lanes.set_store(a_store(1), {});
    for (uint64_t chain = 1; chain <= 11; ++chain) {
      lanes.add(a_job(chain, chain, 0, 2), {});
      lanes.answered(lanes.next()->number, all(write_end::stored, 2), {});
    }
    CHECK(lanes.lanes() == 10);
    lanes.add(a_job(20, 1, 0, 2), {});  // forgotten: the longest unused
    CHECK(lanes.next());
    for (uint64_t fork = 0; fork < 5; ++fork) {
      write_job job = a_job(30 + fork, 11, 2, 2);
      for (block_key& key : job.keys) key.lo += 100 * (fork + 1);
      lanes.add(job, {});
      lanes.answered(lanes.next()->number, all(write_end::stored, 2), {});
    }
    lanes.add(a_job(40, 11, 0, 2), {});
    const auto put = lanes.next();
    REQUIRE(put);  // 2 + 5 * 2 keys are more than 8
    CHECK(put->first == 0);
  }

  TEST_CASE("keys of all lanes together stay within their limit, the longest unused go") {
    write_lanes lanes{{.keys = 20}};
    lanes.set_store(a_store(1), {});
    const auto store = [&lanes](uint64_t job, uint64_t chain, write_end how) {
      lanes.add(a_job(job, chain, 0, 4), {});
      while (const auto put = lanes.next()) lanes.answered(put->number, all(how, 4), {});
      static_cast<void>(lanes.ended());
    };
    for (uint64_t chain = 1; chain <= 9; ++chain) {
      store(chain, chain, chain % 3 == 0 ? write_end::full : write_end::stored);
      CHECK(lanes.keys() <= 20);
      CHECK(lanes.keys() == 4 * lanes.lanes());
    }
    CHECK(lanes.keys() == 20);
    lanes.add(a_job(20, 8, 0, 4), {});  // known: nothing is sent
    CHECK_FALSE(lanes.next());
    lanes.add(a_job(21, 1, 0, 4), {});
    CHECK(lanes.next());
  }

  TEST_CASE("a purge ends what waits of its scope, and sends nothing of it again") {
    write_lanes lanes{{.puts_per_store = 1}};
    lanes.set_store(a_store(1), {});
    lanes.set_store(a_store(2), {});
    const auto job = [](uint64_t number, uint64_t chain, uint32_t first, uint64_t scope) {
      write_job made = a_job(number, chain, first, 2);
      made.scope = scope;
      return made;
    };
    lanes.add(job(1, 1, 0, 7), {});
    lanes.add(job(2, 1, 2, 7), {});  // behind the first
    lanes.add(job(3, 2, 0, 7), {});
    lanes.add(job(4, 3, 0, 8), {});
    const auto sent = lanes.next();
    REQUIRE(sent);
    CHECK(sent->job == 1);
    CHECK(lanes.purge(7, {}) == 4);
    CHECK(lanes.purging(7));
    CHECK_FALSE(lanes.purging(8));
    std::map<uint64_t, std::vector<write_end>> ended;
    const auto collect = [&] {
      for (auto& one : lanes.ended()) ended.emplace(one.number, one.ends);
    };
    collect();
    CHECK(ended.size() == 2);
    CHECK(ended[2] == all(write_end::purged, 2));
    CHECK(ended[3] == all(write_end::purged, 2));
    // Its store cannot take it: there is no second try.
    lanes.answered(sent->number, all(write_end::no_parent, 2), {});
    CHECK_FALSE(lanes.purging(7));
    const auto other = lanes.next();
    REQUIRE(other);
    CHECK(other->job == 4);
    lanes.answered(other->number, all(write_end::stored, 2), {});
    CHECK_FALSE(lanes.next());
    CHECK(lanes.idle());
    CHECK(lanes.purge(99, {}) == 0);  // nobody's
  }

  TEST_CASE("what was stored before a purge, or over it, is sent again behind it") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 2), {});
    lanes.answered(lanes.next()->number, all(write_end::stored, 2), {});
    lanes.add(a_job(2, 1, 2, 1), {});
    const auto sent = lanes.next();
    CHECK(lanes.keys() == 2);
    CHECK(lanes.purge(0, {}) == 0);
    CHECK(lanes.keys() == 0);
    lanes.answered(sent->number, all(write_end::stored, 1), {});
    lanes.add(a_job(3, 1, 0, 3), {});
    const auto again = lanes.next();
    REQUIRE(again);
    CHECK(again->first == 0);
    lanes.answered(again->number, all(write_end::stored, 3), {});
    lanes.add(a_job(4, 1, 0, 3), {});
    CHECK_FALSE(lanes.next());  // known, as ever
  }

  TEST_CASE("a purged group's next job waits for the put that is on its way") {
    write_lanes lanes{{}};
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(1, 1, 0, 2), {});
    const auto sent = lanes.next();
    static_cast<void>(lanes.purge(0, {}));
    lanes.add(a_job(2, 1, 0, 2), {});
    CHECK_FALSE(lanes.next());
    lanes.unanswered(sent->number, {});
    CHECK(lanes.next().has_value() == false);  // the store is left out
    lanes.set_store(a_store(1), {});
    lanes.add(a_job(3, 1, 0, 2), {});
    CHECK(lanes.next());
  }

  TEST_CASE("random: every job ends once, what is called stored is stored, lanes keep order") {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(seed);
      random_run run{seed};
      for (int i = 0; i < 3; ++i) run.join();
      for (int step = 0; step < 600; ++step) run.step();
      run.finish();
      run.check_end();
    }
  }
}
