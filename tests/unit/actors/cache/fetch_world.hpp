#pragma once

#include "actors/cache/fetch_core.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <variant>
#include <vector>

/// A fetch_core and the world around it, which does as the test says.
namespace deepinfer::test {

using fetch::outcome;
using fetch::ticket_id;
using namespace std::chrono_literals;

inline constexpr uint64_t fetch_begin = 4096;
inline constexpr uint32_t block_bytes = 1000;
inline constexpr uint32_t group_blocks = 4;

/// Chains are told apart by a number; block i of two chains is the same while their numbers agree
/// in the upper bits.
inline storage::block_key key_of(uint64_t chain, uint64_t index) {
  const uint64_t shared = index < 6 ? chain / 4 : chain;
  return {shared + 1, index + 1};
}

inline actor_ref store_of(uint64_t number) {
  return {node_id{0, number + 1}, 2000 + number, 7};
}

inline fetch::order order_of(uint64_t ticket,
                             uint64_t chain,
                             uint32_t blocks,
                             fetch::time_point deadline) {
  fetch::order o;
  o.ticket = {0, ticket};
  o.deadline = deadline;
  o.cut = {group_blocks, 0};
  for (uint32_t i = 0; i < blocks; ++i) o.keys.push_back(key_of(chain, i));
  o.tokens.resize(blocks * 2);
  for (uint32_t g = 0; g * group_blocks < blocks; ++g)
    o.groups.push_back({store_of(0), store_of(1)});
  return o;
}

/// The world around a core: what it asked for, and what it was answered.
struct fetch_world {
  explicit fetch_world(const fetch_config& config = {}, uint64_t bytes = 16 << 20)
      : core(config, fetch_begin, fetch_begin + bytes) {}

  void take() {
    for (const auto& e : core.effects()) {
      if (const auto* open = std::get_if<fetch::open_group>(&e)) opens.push_back(*open);
      if (const auto* read = std::get_if<fetch::read_blocks>(&e)) reads.push_back(*read);
      if (const auto* close = std::get_if<fetch::close_lease>(&e)) closes.push_back(*close);
      if (std::holds_alternative<fetch::renew_lease>(e)) ++renewals;
      if (std::holds_alternative<fetch::report_bad>(e)) ++reports;
      if (const auto* a = std::get_if<fetch::answer>(&e)) {
        REQUIRE_FALSE(answers.contains(a->ticket));
        answers.emplace(a->ticket, *a);
      }
    }
  }
  void submit(fetch::order o) {
    REQUIRE(core.submit(std::move(o), now));
    take();
  }
  void say_opened(const fetch::open_group& open, uint32_t blocks) {
    fetch::opened said;
    said.blocks = blocks;
    said.lease = {next_lease++, 5};
    said.ttl = 3s;
    core.on_opened(open.job, open.store_index, said, now);
    take();
  }
  /// Gives a read's blocks one outcome each; room is made for the good ones.
  void finish(const fetch::read_blocks& read, std::vector<outcome> outcomes) {
    std::vector<fetch::piece> pieces(read.keys.size());
    bool any = false;
    for (uint32_t i = 0; i < pieces.size(); ++i)
      if (outcomes[i] == outcome::ok) {
        pieces[i] = {0, i * 1024, block_bytes};
        any = true;
      }
    const bool room = any && !core.make_room(read.batch, pieces).empty();
    std::vector<fetch::block_done> done;
    for (const outcome o : outcomes)
      done.push_back({o == outcome::ok && !room ? outcome::no_room : o, block_bytes, 42});
    core.on_read(read.batch, done, now);
    take();
  }
  void finish(const fetch::read_blocks& read, outcome all) {
    finish(read, std::vector<outcome>(read.keys.size(), all));
  }
  void advance(fetch::time_point by) {
    now += by;
    core.tick(now);
    take();
  }
  /// Nobody wants or holds anything: all that is left is blocks that may make way.
  void check_empty() {
    const auto f = core.state();
    CHECK(f.fetches == 0);
    CHECK(f.waiting_fetches == 0);
    CHECK(f.jobs == 0);
    CHECK(f.sessions == 0);
    CHECK(f.batches == 0);
    CHECK(f.wanted == 0);
    CHECK(f.reading_bytes == 0);
    CHECK(f.admitted_bytes == 0);
    CHECK(core.shelf().holds() == 0);
    CHECK(core.shelf().idle_blocks() == core.shelf().blocks());
  }

  fetch_core core;
  fetch::time_point now = 1s;
  uint64_t next_lease = 1;
  std::deque<fetch::open_group> opens;
  std::deque<fetch::read_blocks> reads;
  std::vector<fetch::close_lease> closes;
  std::map<ticket_id, fetch::answer> answers;
  uint32_t renewals = 0, reports = 0;
};

template <class T>
T next(std::deque<T>& queue) {
  REQUIRE_FALSE(queue.empty());
  T first = queue.front();
  queue.pop_front();
  return first;
}

}  // namespace deepinfer::test
