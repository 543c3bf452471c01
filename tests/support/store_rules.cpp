#include "tests/support/store_rules.hpp"

#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"

#include <map>
#include <set>
#include <thread>

namespace deepinfer::test {

using namespace storage;
using namespace std::chrono_literals;

std::unique_ptr<block_store> store_home::opened(const store_config& config) {
  auto made = open(config);
  REQUIRE_MESSAGE(made, (made ? std::string{} : to_string(made.error())));
  return std::move(*made);
}

store_config small_store() {
  store_config config;
  config.capacity_bytes = 64 * 4096 * 16;
  config.segment_bytes = 4096 * 16;  // fifteen small blocks
  return config;
}

namespace {

void sound(const block_store& store) {
  const auto broken = dynamic_cast<const segment_store&>(store).broken_rule();
  CHECK_MESSAGE(!broken, broken.value_or(""));
}

void stored_chains_come_back(store_home& home) {
  const auto chain = make_chain("a", 1, 40);
  {
    auto store = home.opened(small_store());
    CHECK(chain_writer{*store}.put(chain, 0, 40, at(0s)) == 40);
    CHECK(stored_blocks(*store, chain, at(1s)) == 40);
    CHECK(read_back(*store, chain, 40, at(1s)) == 40);
    CHECK(store->stats().live_bytes == 40 * 4096);
    sound(*store);
  }
  auto store = home.opened(small_store());
  CHECK(store->epoch() == 2);
  CHECK(store->stats().lost_at_open == 0);
  CHECK(stored_blocks(*store, chain, at(2s)) == 40);
  CHECK(read_back(*store, chain, 40, at(2s)) == 40);
  sound(*store);
}

void readers_see_committed_blocks_only(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 2);
  const auto reserved = chain_writer{*store}.reserve(chain, 0, 2, at(0s));
  REQUIRE(reserved);
  CHECK(stored_blocks(*store, chain, at(0s)) == 0);
  const auto bytes = bytes_of(chain.keys[0], chain.length);
  const write_item write{(*reserved)[0].ticket, bytes};
  REQUIRE((*store->write({&write, 1}, at(0s)))[0] == write_outcome::written);
  CHECK(stored_blocks(*store, chain, at(0s)) == 0);
  CHECK(read_back(*store, chain, 1, at(0s)) == 0);
  // the child's bytes never came: only the parent is stored
  const std::vector<commit_item> commits{
      {(*reserved)[0].ticket, block_checksum(chain.keys[0], bytes)}, {(*reserved)[1].ticket, 1}};
  const auto done = *store->commit(commits, at(0s));
  CHECK(done[0] == commit_outcome::stored);
  CHECK(done[1] == commit_outcome::stale);
  CHECK(stored_blocks(*store, chain, at(0s)) == 1);
}

void a_block_needs_its_parent(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 4);
  CHECK((*chain_writer{*store}.reserve(chain, 1, 2, at(0s)))[0].outcome ==
        reserve_outcome::no_parent);
  // reserved together, but the parent is given up
  const auto reserved = *chain_writer{*store}.reserve(chain, 0, 2, at(0s));
  const auto bytes = bytes_of(chain.keys[1], chain.length);
  const write_item write{reserved[1].ticket, bytes};
  REQUIRE((*store->write({&write, 1}, at(0s)))[0] == write_outcome::written);
  store->abandon(std::vector{reserved[0].ticket});
  const commit_item commit{reserved[1].ticket, block_checksum(chain.keys[1], bytes)};
  CHECK((*store->commit({&commit, 1}, at(0s)))[0] == commit_outcome::no_parent);
  CHECK(store->stats().blocks == 0);
  CHECK(store->stats().reserved_bytes == 0);
  sound(*store);
}

void a_lying_writer_is_refused(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 1), other = make_chain("a", 2, 1);
  const auto content = other.content(0);
  const reserve_item item{chain.keys[0], chain.root, 0, 1000, content};
  const write_context context{chain.scope, {1, 1}, traffic_class::chat, at(0s)};
  CHECK(store->reserve(context, {&item, 1}).error().code == error_code::invalid_argument);
}

void equal_commits_refresh_and_others_are_counted(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 2);
  // two writers at once, both with bytes
  const auto one = *chain_writer{*store, {1, 1}}.reserve(chain, 0, 1, at(0s));
  const auto two = *chain_writer{*store, {2, 1}}.reserve(chain, 0, 1, at(0s));
  const auto three = *chain_writer{*store, {3, 1}}.reserve(chain, 0, 1, at(0s));
  const auto bytes = bytes_of(chain.keys[0], chain.length);
  const auto wrong = bytes_of(chain.keys[1], chain.length);
  const std::vector<write_item> writes{
      {one[0].ticket, bytes}, {two[0].ticket, bytes}, {three[0].ticket, wrong}};
  const auto written = *store->write(writes, at(0s));
  for (const auto outcome : written) CHECK(outcome == write_outcome::written);
  const std::vector<commit_item> commits{{one[0].ticket, block_checksum(chain.keys[0], bytes)},
                                         {two[0].ticket, block_checksum(chain.keys[0], bytes)},
                                         {three[0].ticket, block_checksum(chain.keys[0], wrong)}};
  const auto done = *store->commit(commits, at(0s));
  CHECK(done[0] == commit_outcome::stored);
  CHECK(done[1] == commit_outcome::refreshed);
  CHECK(done[2] == commit_outcome::diverged);
  // later: nothing is to be written, only compared
  const auto again = *chain_writer{*store}.reserve(chain, 0, 1, at(1s));
  REQUIRE(again[0].outcome == reserve_outcome::present);
  const commit_item other{again[0].ticket, 12345};
  CHECK((*store->commit({&other, 1}, at(1s)))[0] == commit_outcome::diverged);
  CHECK(store->stats().diverged == 2);
  CHECK(store->stats().refreshed == 1);
  CHECK(read_back(*store, chain, 1, at(1s)) == 1);
  sound(*store);
}

void bytes_that_changed_on_the_way_are_refused(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 1);
  const auto reserved = *chain_writer{*store}.reserve(chain, 0, 1, at(0s));
  auto bytes = bytes_of(chain.keys[0], chain.length);
  const uint64_t sum = block_checksum(chain.keys[0], bytes);
  bytes[500] ^= std::byte{4};
  const write_item write{reserved[0].ticket, bytes};
  REQUIRE((*store->write({&write, 1}, at(0s)))[0] == write_outcome::written);
  const commit_item commit{reserved[0].ticket, sum};
  CHECK((*store->commit({&commit, 1}, at(0s)))[0] == commit_outcome::mismatch);
  CHECK(store->stats().blocks == 0);
}

void a_match_is_the_longest_prefix_with_the_same_tokens(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 30);
  chain_writer{*store}.put(chain, 0, 21, at(0s));
  for (uint32_t asked = 0; asked <= 30; ++asked) {
    const prefix_query query{std::span{chain.keys}.first(asked),
                             std::span{chain.tokens}.first(size_t{asked} * chain_tokens),
                             {}};
    CHECK(store->match(query, lease_wish::none, at(0s))->blocks == std::min(asked, 21u));
  }
  CHECK(stored_blocks(*store, make_chain("b", 1, 30), at(0s)) == 0);  // another scope
  // the same keys with other tokens in the last matched block, as if a hash had collided
  auto forged = chain;
  forged.tokens[20 * chain_tokens] += 1;
  CHECK(stored_blocks(*store, forged, at(0s)) == 20);
  CHECK(store->stats().hash_collisions == 1);
}

void a_lease_keeps_a_prefix(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 10);
  chain_writer{*store}.put(chain, 0, 10, at(0s));
  const auto late = at(200h);
  static_cast<void>(store->expire(late, 0));  // the store sees time pass
  const prefix_query half{
      std::span{chain.keys}.first(5), std::span{chain.tokens}.first(5 * chain_tokens), {}};
  const auto match = *store->match(half, lease_wish::grant, late);
  REQUIRE(match.blocks == 5);
  CHECK(*store->expire(late, 100) == 5);
  CHECK(stored_blocks(*store, chain, late) == 5);
  CHECK(read_back(*store, chain, 5, late, match.lease) == 5);
  // renewed in time it holds on; afterwards it ends by itself
  REQUIRE(store->renew(match.lease, at(200h + 20s)));
  CHECK(*store->expire(at(200h + 40s), 100) == 0);
  CHECK(*store->expire(at(200h + 51s), 100) == 5);
  CHECK(store->renew(match.lease, at(200h + 52s)).error().code == error_code::not_found);
  std::vector<std::byte> buffer(1000);
  const read_item item{chain.keys[0], buffer};
  CHECK((*store->read({&item, 1}, match.lease, at(200h + 52s)))[0].status == read_status::stale);
  sound(*store);
}

void only_a_used_lease_refreshes(store_home& home) {
  auto store = home.opened(small_store());
  const auto used = make_chain("a", 1, 3), unused = make_chain("a", 2, 3);
  for (const auto* chain : {&used, &unused}) chain_writer{*store}.put(*chain, 0, 3, at(0s));
  for (const auto* chain : {&used, &unused}) {
    const auto match = *store->match(chain->query(), lease_wish::grant, at(100h));
    const auto kind = chain == &used ? use_kind::used : use_kind::unused;
    REQUIRE(store->release(match.lease, {kind, traffic_class::chat}, at(100h)));
  }
  CHECK(*store->expire(at(180h), 100) == 3);
  CHECK(stored_blocks(*store, used, at(180h)) == 3);
  CHECK(stored_blocks(*store, unused, at(180h)) == 0);
}

void a_lease_ends_with_the_life_of_the_store(store_home& home) {
  const auto chain = make_chain("a", 1, 3);
  lease_ref lease;
  {
    auto store = home.opened(small_store());
    chain_writer{*store}.put(chain, 0, 3, at(0s));
    lease = store->match(chain.query(), lease_wish::grant, at(0s))->lease;
    REQUIRE(lease.id != 0);
  }
  auto store = home.opened(small_store());
  const auto fresh = store->match(chain.query(), lease_wish::grant, at(1s))->lease;
  CHECK(fresh.id == lease.id);  // another lease of the same number
  CHECK(store->renew(lease, at(1s)).error().code == error_code::stale_epoch);
  CHECK(store->release(lease, {}, at(1s)).error().code == error_code::stale_epoch);
  CHECK(read_back(*store, chain, 3, at(1s), lease) == 0);
  CHECK(read_back(*store, chain, 3, at(1s)) == 3);
}

void classes_live_as_long_as_they_should(store_home& home) {
  auto store = home.opened(small_store());
  const auto agent = make_chain("a", 1, 4), chat = make_chain("a", 2, 4),
             both = make_chain("a", 3, 4);
  chain_writer{*store, {1, 1}, traffic_class::agent}.put(agent, 0, 4, at(0s));
  chain_writer{*store, {1, 1}, traffic_class::agent}.put(both, 0, 4, at(0s));
  chain_writer{*store, {1, 1}, traffic_class::chat}.put(chat, 0, 4, at(0s));
  REQUIRE(store->touch(both.keys[3], traffic_class::chat, at(0s)));
  const auto left = [&](std::chrono::hours hour) {
    static_cast<void>(store->expire(at(hour), 1000));
    return std::vector{stored_blocks(*store, agent, at(hour)),
                       stored_blocks(*store, chat, at(hour)),
                       stored_blocks(*store, both, at(hour))};
  };
  CHECK(left(72h) == std::vector{4u, 4u, 4u});  // the floor
  CHECK(left(74h) == std::vector{0u, 4u, 4u});
  REQUIRE(store->touch(chat.keys[3], traffic_class::agent, at(100h)));  // ends by the later one
  CHECK(left(168h) == std::vector{0u, 4u, 4u});
  CHECK(left(171h) == std::vector{0u, 4u, 0u});
  CHECK(left(175h) == std::vector{0u, 0u, 0u});
  CHECK(store->stats().expired == 12);
  sound(*store);
}

void a_refresh_is_coarse_and_covers_the_chain(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 8);
  chain_writer{*store}.put(chain, 0, 8, at(0s));
  const auto before = store->changes_after({store->epoch(), 0}, 100).next;
  REQUIRE(store->touch(chain.keys[7], traffic_class::chat, at(1min)));
  CHECK(store->changes_after(before, 100).changes.empty());  // more than 63/64 is left
  REQUIRE(store->touch(chain.keys[5], traffic_class::chat, at(20h)));
  CHECK(store->changes_after(before, 100).changes.size() == 6);
  CHECK(*store->expire(at(171h), 100) == 2);
  CHECK(stored_blocks(*store, chain, at(171h)) == 6);
  sound(*store);
}

void a_jump_of_the_clock_freezes_expiry(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 4);
  chain_writer{*store}.put(chain, 0, 4, at(0s));
  const auto wall = at(0s).wall;
  CHECK(*store->expire({wall + 300h, 1min}, 100) == 0);  // ran ahead
  CHECK(store->stats().clock_frozen);
  CHECK(*store->expire({wall + 2min, 2min}, 100) == 0);  // came back by itself
  CHECK_FALSE(store->stats().clock_frozen);
  CHECK(*store->expire({wall - 5h, 3min}, 100) == 0);  // fell behind
  CHECK(store->stats().clock_frozen);
  CHECK(*store->expire({wall + 300h, 4min}, 100) == 0);
  // even what would be due by the steady clock waits for somebody who knows the time
  CHECK(*store->expire({wall + 600h, 200h}, 100) == 0);
  store->acknowledge_clock({wall + 200h, 200h});
  CHECK(*store->expire({wall + 200h, 200h}, 100) == 4);
}

void a_scope_has_its_share(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 6), other = make_chain("b", 1, 6);
  store->set_quota(chain.scope, 4 * 4096);
  CHECK(chain_writer{*store}.put(chain, 0, 6, at(0s)) == 4);
  CHECK(chain_writer{*store}.put(other, 0, 6, at(0s)) == 6);
  CHECK(stored_blocks(*store, chain, at(0s)) == 4);
  CHECK(store->stats().over_quota == 1);  // the next one has no parent
  // what is reserved counts, what is given up does not
  const auto third = make_chain("c", 1, 6);
  store->set_quota(third.scope, 4 * 4096);
  const auto reserved = *chain_writer{*store}.reserve(third, 0, 6, at(0s));
  CHECK(reserved[3].outcome == reserve_outcome::granted);
  CHECK(reserved[4].outcome == reserve_outcome::over_quota);
  std::vector<ticket_id> tickets;
  for (const auto& r : reserved) tickets.push_back(r.ticket);
  store->abandon(tickets);
  CHECK(chain_writer{*store}.put(third, 0, 4, at(0s)) == 4);
}

void a_full_store_makes_room_in_the_right_order(store_home& home) {
  auto store = home.opened(small_store());
  const auto chat = make_chain("a", 1, 200), agent = make_chain("a", 2, 300),
             greedy = make_chain("g", 3, 300), more = make_chain("a", 4, 100);
  chain_writer{*store, {1, 1}, traffic_class::chat}.put(chat, 0, 200, at(0s));
  chain_writer{*store, {1, 1}, traffic_class::agent}.put(agent, 0, 300, at(10h));
  chain_writer{*store, {1, 1}, traffic_class::chat}.put(greedy, 0, 300, at(20h));
  CHECK(*store->relieve(at(20h), 1000) == 0);
  CHECK(chain_writer{*store}.put(more, 0, 100, at(20h)) == 100);
  const auto refused = make_chain("a", 5, 200);
  CHECK(chain_writer{*store}.put(refused, 0, 200, at(20h)) < 200);
  CHECK(store->stats().refused_full > 0);
  store->set_quota(greedy.scope, 280 * 4096);
  CHECK(*store->relieve(at(20h), 20) == 20);
  CHECK(stored_blocks(*store, greedy, at(20h)) == 280);  // over its quota: first
  const auto lease = store->match(agent.query(), lease_wish::grant, at(20h))->lease;
  while (*store->relieve(at(20h), 50) > 0) {
  }
  CHECK(stored_blocks(*store, agent, at(20h)) == 300);  // leased: never
  CHECK(stored_blocks(*store, chat, at(20h)) < 200);
  CHECK(stored_blocks(*store, greedy, at(20h)) == 280);
  REQUIRE(store->release(lease, {}, at(20h)));
  CHECK(store->stats().live_bytes <= 0.85 * 64 * 4096 * 16);
  CHECK(store->stats().evicted_below_floor > 0);
  while (*store->compact(1 << 20, at(20h)) > 0) {
  }
  CHECK(store->stats().file_bytes < 0.95 * 64 * 4096 * 16);
  for (const auto* chain : {&chat, &agent, &greedy})
    CHECK(read_back(*store, *chain, stored_blocks(*store, *chain, at(20h)), at(20h)) ==
          stored_blocks(*store, *chain, at(20h)));
  sound(*store);
}

void a_newer_life_of_a_writer_ends_the_older_one(store_home& home) {
  const auto chain = make_chain("a", 1, 2);
  {
    auto store = home.opened(small_store());
    const auto old = *chain_writer{*store, {7, 1}}.reserve(chain, 0, 1, at(0s));
    REQUIRE(store->fence({7, 2}));
    const auto bytes = bytes_of(chain.keys[0], chain.length);
    const write_item write{old[0].ticket, bytes};
    CHECK((*store->write({&write, 1}, at(0s)))[0] == write_outcome::stale);
    CHECK(chain_writer{*store, {7, 1}}.reserve(chain, 0, 1, at(0s)).error().code ==
          error_code::stale_epoch);
    CHECK(store->stats().reserved_bytes == 0);
  }
  auto store = home.opened(small_store());
  CHECK(chain_writer{*store, {7, 1}}.reserve(chain, 0, 1, at(0s)).error().code ==
        error_code::stale_epoch);
  CHECK(chain_writer{*store, {7, 2}}.put(chain, 0, 2, at(0s)) == 2);
}

void a_reservation_ends_with_its_time(store_home& home) {
  auto store = home.opened(small_store());
  const auto chain = make_chain("a", 1, 1);
  const auto reserved = *chain_writer{*store}.reserve(chain, 0, 1, at(0s));
  const auto bytes = bytes_of(chain.keys[0], chain.length);
  const write_item write{reserved[0].ticket, bytes};
  CHECK((*store->write({&write, 1}, at(60s)))[0] == write_outcome::stale);
  CHECK(store->stats().reservations == 1);
  REQUIRE(store->expire(at(60s), 0));
  CHECK(store->stats().reservations == 0);
  CHECK(chain_writer{*store}.put(chain, 0, 1, at(61s)) == 1);
}

/// An index as another node would keep it.
struct mirror {
  std::set<block_key> keys;
  feed_position position;

  void apply(const block_change& change) {
    if (change.kind == change_kind::stored) keys.insert(change.key);
    if (change.kind == change_kind::removed) keys.erase(change.key);
  }
  void follow(block_store& store) {
    for (;;) {
      const auto batch = store.changes_after(position, 7);
      REQUIRE_FALSE(batch.gap);
      if (batch.changes.empty()) return;
      for (const auto& change : batch.changes) {
        CHECK(change.sequence == ++position.sequence);
        apply(change);
      }
    }
  }
};

void the_change_feed_tells_all_in_order(store_home& home) {
  auto config = small_store();
  config.feed_changes = 50;
  auto store = home.opened(config);
  mirror early{{}, {store->epoch(), 0}};
  const auto first = make_chain("a", 1, 20), second = make_chain("a", 2, 20);
  chain_writer{*store, {1, 1}, traffic_class::agent}.put(first, 0, 20, at(0s));
  early.follow(*store);
  CHECK(early.keys == std::set(first.keys.begin(), first.keys.end()));
  // pages of a snapshot while the store changes, then what came after its first page
  mirror late;
  uint64_t cursor = 0;
  bool changed = false;
  do {
    const auto page = store->snapshot(cursor, 6);
    if (cursor == 0) late.position = page.position;
    for (const auto& block : page.blocks) late.apply(block);
    cursor = page.next_cursor;
    if (!changed) {
      chain_writer{*store}.put(second, 0, 10, at(80h));
      REQUIRE(*store->expire(at(80h), 12) == 12);
      changed = true;
    }
  } while (cursor != 0);
  late.follow(*store);
  early.follow(*store);
  CHECK(late.keys == early.keys);
  CHECK(early.keys.size() == 18);
  chain_writer{*store}.put(make_chain("a", 3, 51), 0, 51, at(80h));
  CHECK(store->changes_after(early.position, 10).gap);  // too far behind
  CHECK(store->changes_after({store->epoch() + 1, 0}, 10).gap);
  CHECK(store->changes_after({store->epoch(), 1'000'000}, 10).gap);
}

void every_limit_holds(store_home& home) {
  auto config = small_store();
  config.max_batch = 5;
  config.max_query_blocks = 8;
  config.max_reservations = 3;
  config.max_leases = 2;
  auto store = home.opened(config);
  const auto chain = make_chain("a", 1, 9);
  CHECK(chain_writer{*store}.reserve(chain, 0, 6, at(0s)).error().code == error_code::too_large);
  const auto reserved = *chain_writer{*store}.reserve(chain, 0, 5, at(0s));
  CHECK(reserved[2].outcome == reserve_outcome::granted);
  CHECK(reserved[3].outcome == reserve_outcome::busy);
  store->abandon(std::vector{reserved[0].ticket, reserved[1].ticket, reserved[2].ticket});
  CHECK(store->match(chain.query(), lease_wish::none, at(0s)).error().code ==
        error_code::too_large);
  chain_writer{*store}.put(chain, 0, 1, at(0s));
  const prefix_query query{
      std::span{chain.keys}.first(1), std::span{chain.tokens}.first(chain_tokens), {}};
  for (int i = 0; i < 2; ++i) CHECK(store->match(query, lease_wish::grant, at(0s))->lease.id != 0);
  CHECK(store->match(query, lease_wish::grant, at(0s))->lease.id == 0);
  const std::vector<read_item> reads(6, {chain.keys[0], {}});
  CHECK(store->read(reads, {}, at(0s)).error().code == error_code::too_large);
  CHECK((*store->read({reads.data(), 1}, {}, at(0s)))[0].status == read_status::too_small);
  CHECK(store->write(std::vector<write_item>(6), at(0s)).error().code == error_code::too_large);
  CHECK(store->commit(std::vector<commit_item>(6), at(0s)).error().code == error_code::too_large);
  const auto large = make_chain("a", 2, 1, 15 * 4096);  // and a footer: one unit too many
  CHECK(chain_writer{*store}.reserve(large, 0, 1, at(0s)).error().code == error_code::too_large);
}

void reserved_bytes_are_bounded(store_home& home) {
  auto config = small_store();
  config.max_reserved_bytes = 3 * 4096;
  auto store = home.opened(config);
  const auto reserved = *chain_writer{*store}.reserve(make_chain("a", 1, 4), 0, 4, at(0s));
  CHECK(reserved[2].outcome == reserve_outcome::granted);
  CHECK(reserved[3].outcome == reserve_outcome::busy);
}

void many_threads_may_write_and_read_the_same_chains(store_home& home) {
  auto store = home.opened(small_store());
  std::vector<block_chain> chains;
  for (uint64_t seed = 0; seed < 4; ++seed) chains.push_back(make_chain("a", seed, 30));
  std::vector<std::thread> threads;
  for (uint64_t worker = 0; worker < 4; ++worker)
    threads.emplace_back([&store, &chains, worker] {
      for (uint32_t step = 0; step < 30; step += 5)
        for (const auto& chain : chains) {
          chain_writer{*store, {worker, 1}}.put(chain, step, step + 5, at(0s));
          read_back(*store, chain, step + 5, at(0s));
          static_cast<void>(store->expire(at(1s), 10));
        }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& chain : chains) {
    CHECK(stored_blocks(*store, chain, at(0s)) == 30);
    CHECK(read_back(*store, chain, 30, at(0s)) == 30);
  }
  CHECK(store->stats().blocks == 120);
  CHECK(store->stats().diverged == 0);
  CHECK(store->stats().reserved_bytes == 0);
  sound(*store);
}

void empty_segments_go_and_numbers_do_not_come_back(store_home& home) {
  const auto chain = make_chain("a", 1, 60), later = make_chain("a", 2, 5);
  {
    auto store = home.opened(small_store());
    chain_writer{*store}.put(chain, 0, 60, at(0s));
    CHECK(store->stats().segments == 4);
    CHECK(*store->expire(at(200h), 100) == 60);
    CHECK(store->stats().segments <= 1);
    CHECK(store->stats().file_bytes <= 16 * 4096);
  }
  auto store = home.opened(small_store());
  CHECK(store->stats().segments == 0);
  CHECK(chain_writer{*store}.put(later, 0, 5, at(201h)) == 5);
  CHECK(read_back(*store, later, 5, at(201h)) == 5);
}

void a_chain_may_begin_at_a_group(store_home& home) {
  auto config = small_store();
  config.group_blocks = 8;
  const auto chain = make_chain("a", 1, 24);
  const auto part = [&chain](uint32_t from, uint32_t to) {
    return prefix_query{std::span{chain.keys}.subspan(from, to - from),
                        std::span{chain.tokens}.subspan(size_t{from} * chain_tokens,
                                                        size_t{to - from} * chain_tokens),
                        {},
                        from};
  };
  {
    auto store = home.opened(config);
    CHECK((*chain_writer{*store}.reserve(chain, 9, 10, at(0s)))[0].outcome ==
          reserve_outcome::no_parent);
    CHECK(chain_writer{*store}.put(chain, 8, 20, at(0s)) == 12);  // two groups, without the first
    CHECK(store->match(part(8, 16), lease_wish::none, at(0s))->blocks == 8);
    CHECK(store->match(part(16, 24), lease_wish::none, at(0s))->blocks == 4);
    CHECK(store->match(part(9, 16), lease_wish::none, at(0s))->blocks == 7);
    CHECK(stored_blocks(*store, chain, at(0s)) == 0);
    sound(*store);
  }
  auto store = home.opened(config);
  CHECK(store->match(part(8, 16), lease_wish::none, at(0s))->blocks == 8);
  REQUIRE(store->touch(chain.keys[19], traffic_class::chat, at(20h)));
  CHECK(*store->expire(at(172h), 100) == 8);  // a group lives by itself
  CHECK(store->match(part(16, 24), lease_wish::none, at(172h))->blocks == 4);
  CHECK(store->snapshot(0, 1).blocks[0].parent == chain.keys[15]);
  sound(*store);
}

}  // namespace

const std::vector<store_rule>& store_rules() {
#define RULE(f) \
  { #f, f }
  static const std::vector<store_rule> rules = with_purge_rules(with_group_rules({
      RULE(stored_chains_come_back),
      RULE(readers_see_committed_blocks_only),
      RULE(a_block_needs_its_parent),
      RULE(a_lying_writer_is_refused),
      RULE(equal_commits_refresh_and_others_are_counted),
      RULE(bytes_that_changed_on_the_way_are_refused),
      RULE(a_match_is_the_longest_prefix_with_the_same_tokens),
      RULE(a_lease_keeps_a_prefix),
      RULE(only_a_used_lease_refreshes),
      RULE(a_lease_ends_with_the_life_of_the_store),
      RULE(classes_live_as_long_as_they_should),
      RULE(a_refresh_is_coarse_and_covers_the_chain),
      RULE(a_jump_of_the_clock_freezes_expiry),
      RULE(a_scope_has_its_share),
      RULE(a_full_store_makes_room_in_the_right_order),
      RULE(a_newer_life_of_a_writer_ends_the_older_one),
      RULE(a_reservation_ends_with_its_time),
      RULE(the_change_feed_tells_all_in_order),
      RULE(every_limit_holds),
      RULE(reserved_bytes_are_bounded),
      RULE(many_threads_may_write_and_read_the_same_chains),
      RULE(empty_segments_go_and_numbers_do_not_come_back),
      RULE(a_chain_may_begin_at_a_group),
  }));
#undef RULE
  return rules;
}

}  // namespace deepinfer::test
