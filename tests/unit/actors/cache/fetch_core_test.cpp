#include "tests/support/rng.hpp"
#include "tests/unit/actors/cache/fetch_world.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace deepinfer;
using namespace deepinfer::test;

namespace {

using world = fetch_world;

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("blocks that are retired serve who holds them, and nobody else") {
    world w;
    w.submit(order_of(1, 0, 2, 2s));
    w.say_opened(next(w.opens), 2);
    w.finish(next(w.reads), outcome::ok);
    REQUIRE(w.answers.contains({0, 1}));
    w.submit(order_of(2, 8, 2, 2s));  // another chain, whose read is under way
    w.say_opened(next(w.opens), 2);
    const auto under_way = next(w.reads);
    CHECK(w.core.retire_blocks() == 2);
    w.finish(under_way, outcome::ok);
    CHECK(w.answers.at({0, 2}).blocks.size() == 2);
    CHECK(w.core.shelf().blocks() == 4);  // held
    w.submit(order_of(3, 0, 2, 3s));      // not from memory, though it lies there
    CHECK(w.core.state().hit_blocks == 0);
    const auto again = next(w.opens);
    CHECK(again.keys.size() == 2);
    w.say_opened(again, 0);
    w.say_opened(next(w.opens), 0);  // nor has the second store it
    CHECK(w.answers.at({0, 3}).blocks.empty());
    for (uint64_t ticket = 1; ticket <= 3; ++ticket) w.core.release({0, ticket}, 0, w.now);
    w.take();
    CHECK(w.core.shelf().blocks() == 0);
    CHECK(w.core.shelf().used_bytes() == 0);
    w.check_empty();
  }

  TEST_CASE("a hit is opened group by group, read, and answered when all of it is there") {
    world w;
    w.submit(order_of(1, 0, 6, 2s));
    REQUIRE(w.opens.size() == 2);
    CHECK(w.opens[0].keys.size() == 4);
    CHECK(w.opens[1].keys.size() == 2);
    CHECK(w.opens[1].first_depth == 4);
    CHECK(w.opens[1].tokens.size() == 4);
    while (!w.opens.empty()) {
      const auto open = next(w.opens);
      w.say_opened(open, static_cast<uint32_t>(open.keys.size()));
    }
    CHECK(w.answers.empty());
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    REQUIRE(w.answers.size() == 1);
    CHECK(w.answers.at({0, 1}).blocks.size() == 6);
    CHECK(w.answers.at({0, 1}).why.code == error_code::ok);
    w.core.release({0, 1}, 6, w.now);
    w.take();
    REQUIRE(w.closes.size() == 2);
    CHECK(w.closes[0].use.kind == storage::use_kind::used);
    w.check_empty();
    CHECK(w.core.shelf().blocks() == 6);  // just fetched: still there
  }

  TEST_CASE("two hits that share blocks read them once, and a third finds them in memory") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.submit(order_of(2, 1, 4, 3s));  // the same first six blocks
    REQUIRE(w.opens.size() == 1);
    w.say_opened(next(w.opens), 4);
    REQUIRE(w.reads.size() == 1);
    w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks == w.answers.at({0, 2}).blocks);
    w.submit(order_of(3, 0, 4, 3s));
    CHECK(w.opens.empty());
    CHECK(w.answers.at({0, 3}).blocks.size() == 4);
    for (uint64_t t : {1, 2, 3}) w.core.release({0, t}, 0, w.now);
    w.take();
    w.check_empty();
    CHECK(w.core.state().read_blocks == 4);
  }

  TEST_CASE("the fetch that began a read may go; those that wait for it still get it") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.submit(order_of(2, 0, 4, 3s));
    w.core.release({0, 1}, 0, w.now);
    w.take();
    CHECK(w.answers.at({0, 1}).why.code == error_code::cancelled);
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 2}).blocks.size() == 4);
  }

  TEST_CASE("a released fetch stops reads that nobody needs any more") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.core.release({0, 1}, 0, w.now);
    w.take();
    w.say_opened(next(w.opens), 4);
    CHECK(w.reads.empty());
    REQUIRE(w.closes.size() == 1);
    CHECK(w.closes[0].use.kind == storage::use_kind::unused);
    w.check_empty();
  }

  TEST_CASE("a damaged block is reported also when nobody waits for it any more") {
    for (const bool asker_goes : {false, true}) {
      world w;
      w.submit(order_of(1, 0, 4, 2s));
      w.say_opened(next(w.opens), 4);
      const auto read = next(w.reads);
      if (asker_goes) w.core.release({0, 1}, 0, w.now);
      w.finish(read, {outcome::ok, outcome::bad, outcome::ok, outcome::ok});
      CHECK(w.reports == 1);
    }
  }

  TEST_CASE("what one store has not, the next is asked for; what none has cuts the hit there") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 2);
    const auto second = next(w.opens);
    CHECK(second.store == store_of(1));
    w.say_opened(second, 3);
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 3);
    CHECK(w.answers.at({0, 1}).why.code == error_code::not_found);
  }

  TEST_CASE("a damaged block is reported and read from a replica") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), {outcome::ok, outcome::bad, outcome::ok, outcome::ok});
    CHECK(w.reports == 1);
    CHECK(w.answers.empty());
    w.say_opened(next(w.opens), 4);
    const auto again = next(w.reads);
    CHECK(again.keys == std::vector{key_of(0, 1)});
    w.finish(again, outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
  }

  TEST_CASE("blocks before a bad one are kept, those behind it are let go") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), {outcome::ok, outcome::bad, outcome::ok, outcome::ok});
    w.core.on_opened(w.opens[0].job, w.opens[0].store_index,
                     failure{error_code::unreachable, "dead"}, w.now);
    w.take();
    const auto& got = w.answers.at({0, 1});
    CHECK(got.blocks.size() == 1);
    CHECK(got.why.code == error_code::unreachable);
    CHECK(w.core.shelf().holds() == 1);
  }

  TEST_CASE("at its deadline a hit is answered with what is there") {
    world w;
    w.submit(order_of(1, 0, 8, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    w.advance(999ms);
    CHECK(w.answers.empty());
    w.advance(1ms);
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
    CHECK(w.answers.at({0, 1}).why.code == error_code::deadline_exceeded);
  }

  TEST_CASE("whoever waits no longer gets what is there, the next one finds the rest in memory") {
    world w;
    w.submit(order_of(1, 0, 8, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    w.core.answer_now({0, 1}, w.now);
    w.take();
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
    CHECK(w.answers.at({0, 1}).why.code == error_code::cancelled);
    w.core.answer_now({0, 1}, w.now);  // again, and of one that nobody knows
    w.core.answer_now({0, 9}, w.now);
    w.core.release({0, 1}, 4, w.now);
    w.take();
    CHECK(w.core.state().fetches == 1);
    w.say_opened(next(w.opens), 4);  // of the second group, for nobody in particular
    w.finish(next(w.reads), outcome::ok);
    w.advance(20ms);
    CHECK(w.answers.size() == 1);
    w.check_empty();
    w.submit(order_of(2, 0, 8, 2s));
    CHECK(w.reads.empty());
    CHECK(w.answers.at({0, 2}).blocks.size() == 8);
  }

  TEST_CASE("what is read for whoever asks next ends with its time") {
    world w;
    w.submit(order_of(1, 0, 8, 2s));
    w.core.answer_now({0, 1}, w.now);
    w.core.release({0, 1}, 0, w.now);
    w.take();
    w.say_opened(next(w.opens), 4);
    w.advance(2s + fetch_config{}.hold);
    CHECK(w.core.state().fetches == 0);
    CHECK(w.core.state().late_answers == 0);
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    while (!w.opens.empty()) w.say_opened(next(w.opens), 0);
    w.check_empty();
  }

  TEST_CASE("a fetch that was not let in yet is answered at once, with nothing") {
    world w{{}, 16 * 1024};
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    w.submit(order_of(2, 8, 16, 3s));
    w.submit(order_of(3, 16, 16, 4s));
    REQUIRE(w.core.state().waiting_fetches > 0);
    w.core.answer_now({0, 3}, w.now);
    w.take();
    CHECK(w.answers.at({0, 3}).blocks.empty());
    for (uint64_t t : {1, 2, 3}) w.core.release({0, t}, 0, w.now);
    w.take();
    while (!w.opens.empty()) w.say_opened(next(w.opens), 0);
    w.check_empty();
  }

  TEST_CASE("a hit that is never released is let go after the holding time") {
    fetch_config config;
    world w{config};
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    w.advance(1s + config.hold - 1ms);
    CHECK(w.core.shelf().holds() == 4);
    w.advance(1ms);
    w.check_empty();
  }

  TEST_CASE("the most urgent hit is read first, also when it came last") {
    fetch_config config;
    config.reads_per_store = 1;
    config.opens = 8;
    world w{config};
    w.submit(order_of(1, 0, 4, 9s));
    w.submit(order_of(2, 4, 4, 8s));
    w.submit(order_of(3, 8, 4, 2s));
    for (int i = 0; i < 3; ++i) w.say_opened(next(w.opens), 4);
    const auto first = next(w.reads);
    CHECK(first.keys[0] == key_of(0, 0));  // was alone when it began
    REQUIRE(w.reads.empty());
    w.finish(first, outcome::ok);
    const auto second = next(w.reads);
    CHECK(second.keys[0] == key_of(8, 0));
    w.finish(second, outcome::ok);
    CHECK(next(w.reads).keys[0] == key_of(4, 0));
  }

  TEST_CASE("no more is under way than the limits allow") {
    fetch_config config;
    config.reads_per_store = 2;
    config.batch_blocks = 2;
    config.opens = 1;
    world w{config};
    w.submit(order_of(1, 0, 8, 2s));
    CHECK(w.opens.size() == 1);
    w.say_opened(next(w.opens), 4);
    w.say_opened(next(w.opens), 4);
    CHECK(w.reads.size() == 2);
    for (const auto& read : w.reads) CHECK(read.keys.size() == 2);
  }

  TEST_CASE("little is asked for while a store has little to do, so that something comes soon") {
    fetch_config config;
    config.reads_per_store = 4;
    config.batch_blocks = 64;
    world w{config};
    auto long_hit = order_of(1, 0, 200, 9s);
    long_hit.cut.group_blocks = 200;
    long_hit.groups.resize(1);
    w.submit(std::move(long_hit));
    w.say_opened(next(w.opens), 200);
    REQUIRE(w.reads.size() == 4);
    for (uint32_t i = 0; i < 4; ++i) CHECK(w.reads[i].keys.size() == (8u << i));
    w.finish(next(w.reads), outcome::ok);
    CHECK(w.reads.back().keys.size() == 64);  // the others are still under way
  }

  TEST_CASE("bytes under way are bounded, and one block is always allowed") {
    fetch_config config;
    config.reading_bytes = 1;
    world w{config};
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    for (int i = 0; i < 4; ++i) {
      REQUIRE(w.reads.size() == 1);
      CHECK(w.reads[0].keys.size() == 1);
      w.finish(next(w.reads), outcome::ok);
    }
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
  }

  TEST_CASE("a read that takes too long is asked for elsewhere, and its room waits for its end") {
    fetch_config config;
    config.read_timeout = 100ms;
    world w{config};
    w.submit(order_of(1, 0, 4, 5s));
    w.say_opened(next(w.opens), 4);
    const auto stuck = next(w.reads);
    std::vector<fetch::piece> pieces;
    for (uint64_t i = 0; i < 4; ++i) pieces.push_back({0, i * 1024, block_bytes});
    REQUIRE(w.core.make_room(stuck.batch, pieces).size() == 1);
    const uint64_t used = w.core.shelf().used_bytes();
    w.advance(100ms);
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
    CHECK(w.core.shelf().used_bytes() > used);
    // the stuck one ends at last: its blocks are there already, its room is free again
    w.core.on_read(stuck.batch, std::vector<fetch::block_done>(4, {outcome::ok, block_bytes, 42}),
                   w.now);
    w.take();
    CHECK(w.core.shelf().blocks() == 4);
    w.core.release({0, 1}, 4, w.now);
    w.take();
    w.check_empty();
  }

  TEST_CASE("a lease that ended is made anew once, without blame for the store") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::stale);
    const auto again = next(w.opens);
    CHECK(again.store == store_of(0));
    w.say_opened(again, 4);
    w.finish(next(w.reads), outcome::stale);
    CHECK(next(w.opens).store == store_of(1));
  }

  TEST_CASE("leases are renewed while they are needed") {
    world w;
    w.submit(order_of(1, 0, 4, 10s));
    w.say_opened(next(w.opens), 4);
    w.advance(999ms);
    CHECK(w.renewals == 0);
    w.advance(1ms);
    CHECK(w.renewals == 1);
  }

  TEST_CASE("files that do not have a block are not read again: the store is asked") {
    world w;
    w.submit(order_of(1, 0, 4, 2s));
    const auto open = next(w.opens);
    fetch::opened said;
    said.blocks = 4;
    said.lease = {1, 5};
    said.folder = "/somewhere";
    said.folder_mark = {1, 2};
    said.places.resize(4, {{3, 4096}, block_bytes, 42});
    w.core.on_opened(open.job, open.store_index, said, w.now);
    w.take();
    const auto files = next(w.reads);
    CHECK(files.places.size() == 4);
    w.finish(files, outcome::absent);
    const auto asked = next(w.reads);
    CHECK(asked.places.empty());
    CHECK(asked.store == store_of(0));
    w.finish(asked, outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
  }

  TEST_CASE("hits wait for room in the order of their deadlines and never for each other") {
    fetch_config config;
    world w{config, 8 * 1024};
    w.submit(order_of(9, 40, 1, 2s));  // tells the length of a block
    w.say_opened(next(w.opens), 1);
    w.finish(next(w.reads), outcome::ok);
    w.core.release({0, 9}, 0, w.now);
    w.take();
    w.submit(order_of(1, 0, 6, 9s));
    w.submit(order_of(2, 4, 6, 8s));
    w.submit(order_of(3, 8, 6, 3s));
    CHECK(w.core.state().waiting_fetches == 2);
    while (!w.opens.empty()) {
      const auto open = next(w.opens);
      w.say_opened(open, static_cast<uint32_t>(open.keys.size()));
    }
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 6);
    w.core.release({0, 1}, 0, w.now);
    w.take();
    CHECK(w.opens[0].keys[0] == key_of(8, 0));
  }

  TEST_CASE("a hit longer than the arena is cut to what fits") {
    world w{{}, 4 * 1024};
    w.submit(order_of(9, 40, 1, 2s));
    w.say_opened(next(w.opens), 1);
    w.finish(next(w.reads), outcome::ok);
    w.core.release({0, 9}, 0, w.now);
    w.take();
    w.submit(order_of(1, 0, 6, 9s));
    while (!w.opens.empty()) {
      const auto open = next(w.opens);
      w.say_opened(open, static_cast<uint32_t>(open.keys.size()));
    }
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 4);
    CHECK(w.answers.at({0, 1}).why.code == error_code::too_large);
  }

  TEST_CASE("a store hears now and then of blocks that are used from memory") {
    fetch_config config;
    world w{config};
    w.submit(order_of(1, 0, 4, 2s));
    w.say_opened(next(w.opens), 4);
    w.finish(next(w.reads), outcome::ok);
    w.core.release({0, 1}, 4, w.now);
    w.take();
    w.submit(order_of(2, 0, 4, 3s));
    w.core.release({0, 2}, 4, w.now);
    w.take();
    CHECK(w.opens.empty());  // told a moment ago
    w.advance(config.tell_use_every);
    w.closes.clear();
    w.submit(order_of(3, 0, 4, w.now + 1s));
    w.core.release({0, 3}, 3, w.now);
    w.take();
    const auto told = next(w.opens);
    CHECK(told.keys.size() == 3);
    w.say_opened(told, 3);
    REQUIRE(w.closes.size() == 1);
    CHECK(w.closes[0].use.kind == storage::use_kind::used);
    w.check_empty();
  }

  TEST_CASE("orders that cannot be are refused") {
    fetch_config config;
    config.max_blocks = 6;
    config.max_fetches = 2;
    world w{config};
    CHECK(w.core.submit(order_of(1, 0, 7, 2s), w.now).error().code == error_code::too_large);
    CHECK_FALSE(w.core.submit(order_of(1, 0, 0, 2s), w.now));
    auto odd = order_of(1, 0, 4, 2s);
    odd.tokens.pop_back();
    CHECK_FALSE(w.core.submit(odd, w.now));
    auto groupless = order_of(1, 0, 4, 2s);
    groupless.cut = {0, 0};
    CHECK_FALSE(w.core.submit(groupless, w.now));
    w.submit(order_of(1, 0, 6, 2s));
    CHECK(w.core.submit(order_of(1, 0, 4, 2s), w.now).error().code == error_code::invalid_argument);
    w.submit(order_of(2, 0, 4, 2s));
    CHECK(w.core.submit(order_of(3, 0, 4, 2s), w.now).error().code == error_code::no_capacity);
  }

  // What must hold whatever stores and askers do, in whatever order.
  TEST_CASE("through any run of faults nothing is lost, doubled or left behind") {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      fetch_config config;
      config.reads_per_store = 1 + random.below(3);
      config.batch_blocks = 1 + random.below(4);
      config.opens = 1 + random.below(4);
      config.reading_bytes = 1000 + random.below(20000);
      config.read_timeout = 300ms;
      config.hold = 500ms;
      config.tell_use_every = std::chrono::milliseconds{random.below(2000)};
      world w{config, 1024 * (8 + random.below(64))};
      std::map<ticket_id, uint32_t> open;  // and the blocks that were asked for
      uint64_t next_ticket = 1;
      const auto step = [&](bool ending) {
        const uint32_t what = random.below(ending ? 60 : 100);
        if (what < 25 && !w.opens.empty()) {
          const size_t at = random.below(static_cast<uint32_t>(w.opens.size()));
          const auto one = w.opens[at];
          w.opens.erase(w.opens.begin() + static_cast<std::ptrdiff_t>(at));
          if (random.below(6) == 0) {
            w.core.on_opened(one.job, one.store_index, failure{error_code::unreachable, "no"},
                             w.now);
            w.take();
          } else {
            const auto all = static_cast<uint32_t>(one.keys.size());
            w.say_opened(one, random.below(3) == 0 ? random.below(all + 3) : all);
          }
        } else if (what < 55 && !w.reads.empty()) {
          const size_t at = random.below(static_cast<uint32_t>(w.reads.size()));
          const auto one = w.reads[at];
          w.reads.erase(w.reads.begin() + static_cast<std::ptrdiff_t>(at));
          std::vector<outcome> outcomes;
          const outcome others[] = {outcome::absent, outcome::bad,     outcome::failed,
                                    outcome::stale,  outcome::no_room, outcome::gone};
          for (size_t i = 0; i < one.keys.size(); ++i)
            outcomes.push_back(random.below(8) == 0 ? others[random.below(6)] : outcome::ok);
          w.finish(one, outcomes);
        } else if (what < 60) {
          w.advance(std::chrono::milliseconds{random.below(120)});
        } else if (what < 80 && open.size() < 30) {
          const uint32_t blocks = 1 + random.below(14);
          auto order = order_of(next_ticket, random.below(16), blocks,
                                w.now + std::chrono::milliseconds{random.below(900)});
          if (random.below(10) == 0) order.groups.resize(random.below(2));
          open.emplace(order.ticket, blocks);
          ++next_ticket;
          w.submit(std::move(order));
        } else if (!open.empty()) {
          auto one = std::next(open.begin(), random.below(static_cast<uint32_t>(open.size())));
          w.core.release(one->first, random.below(one->second + 1), w.now);
          open.erase(one);
          w.take();
        }
        // answers are prefixes that lie in memory and do not overlap
        for (const auto& [ticket, answer] : w.answers)
          REQUIRE((answer.why.code != error_code::ok || !open.contains(ticket) ||
                   answer.blocks.size() == open.at(ticket)));
        REQUIRE(w.core.shelf().used_bytes() <= w.core.shelf().total_bytes());
        const auto f = w.core.state();
        REQUIRE(f.fetches <= open.size());
        REQUIRE(f.batches <= 2 * config.reads_per_store);
      };
      for (int i = 0; i < 2500; ++i) step(false);
      for (const auto& [ticket, blocks] : open) w.core.release(ticket, 0, w.now);
      w.take();
      for (int i = 0; i < 2000 && (!w.opens.empty() || !w.reads.empty()); ++i) step(true);
      REQUIRE(w.opens.empty());
      REQUIRE(w.reads.empty());
      w.advance(10s);
      w.check_empty();
      CHECK(w.answers.size() == next_ticket - 1);  // each once
      const auto f = w.core.state();
      CHECK(f.read_blocks > 100);
    }
  }
}
