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

  TEST_CASE("random: every job ends once, what is called stored is stored, lanes keep order") {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(seed);
      rng random(seed);
      const uint32_t replicas = 1 + random.below(3);
      const bool faults = seed % 3 != 0;
      write_lanes lanes{{.puts_per_store = 1 + random.below(3),
                         .lanes = faults ? 16u : 4096u,
                         .keys_per_lane = 40}};
      std::map<block_key, naive_store> stores;
      std::vector<write_store> known;
      const auto join = [&](std::chrono::nanoseconds now) {
        known.push_back(a_store(random.next(), replicas));
        stores[id_of(known.back())];
        lanes.set_store(known.back(), now);
      };
      for (int i = 0; i < 3; ++i) join({});
      std::map<uint64_t, write_job> open;
      std::vector<write_put> sent;
      std::map<uint64_t, uint32_t> written;  // chain -> blocks offered
      uint64_t number = 0;
      size_t over = 0;
      std::chrono::nanoseconds now{};
      const auto collect = [&] {
        for (const ended_job& job : lanes.ended()) {
          ++over;
          const auto found = open.find(job.number);
          REQUIRE(found != open.end());
          REQUIRE(job.ends.size() == found->second.keys.size());
          for (size_t i = 0; i < job.ends.size(); ++i) {
            const auto has = [&](const auto& s) {
              return s.second.blocks.contains(found->second.keys[i]);
            };
            if (is_kept(job.ends[i])) REQUIRE(std::any_of(stores.begin(), stores.end(), has));
            if (!faults) REQUIRE(is_kept(job.ends[i]));
          }
          open.erase(found);
        }
      };
      for (int step = 0; step < 600; ++step) {
        now += std::chrono::milliseconds(random.below(300));
        const uint32_t what = random.below(10);
        if (what < 4) {
          const uint64_t chain = 1 + random.below(12);
          const uint32_t first = written[chain];
          const uint32_t count = 1 + random.below(group - first % group);
          ++number;
          open[number] = a_job(number, chain, first, count);
          lanes.add(open[number], now);
          written[chain] += count;
        } else if (what < 9 && !sent.empty()) {
          const size_t at = random.below(static_cast<uint32_t>(sent.size()));
          const write_put put = sent[at];
          sent.erase(sent.begin() + static_cast<ptrdiff_t>(at));
          naive_store& store = stores.at(put.store);
          store.next_trouble = write_end::stored;
          if (faults && random.below(8) == 0)
            store.next_trouble = static_cast<write_end>(5 + random.below(6));
          if (faults && random.below(20) == 0)
            lanes.unanswered(put.number, now);
          else
            lanes.answered(put.number, serve(store, open.at(put.job), put.first), now);
        } else if (faults && known.size() > 1 && random.below(20) == 0) {
          lanes.remove_store(id_of(known.front()), now);
          known.erase(known.begin());
        } else if (known.size() < 6 && random.below(20) == 0) {
          join(now);
        }
        while (const auto put = lanes.next()) {
          for (const write_put& other : sent)  // one job of a lane at a time
            REQUIRE((open.at(other.job).head != open.at(put->job).head || other.job == put->job));
          if (random.below(10) == 0) {
            lanes.put_back(*put);
            break;
          }
          sent.push_back(*put);
        }
        collect();
      }
      while (!lanes.idle()) {
        while (const auto put = lanes.next()) sent.push_back(*put);
        REQUIRE_FALSE(sent.empty());
        const write_put put = sent.back();
        sent.pop_back();
        lanes.answered(put.number, serve(stores.at(put.store), open.at(put.job), put.first), now);
        collect();
      }
      collect();
      CHECK(over == number);
      CHECK(open.empty());
      CHECK(lanes.puts_in_flight() == 0);
      if (faults) continue;
      // Without faults every block is at as many stores as there are replicas.
      for (const auto& [chain, blocks] : written)
        for (uint32_t depth = 0; depth < blocks; ++depth) {
          const auto copies = std::count_if(stores.begin(), stores.end(), [&](const auto& s) {
            return s.second.blocks.contains(key_at(chain, depth));
          });
          REQUIRE(copies >= 1);
          REQUIRE(copies <= replicas + 1);
        }
    }
  }
}
