#include "actors/cache/kv_mover.hpp"

#include "tests/actor/cache/mover_site.hpp"

#include <doctest/doctest.h>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

/// Chains of three groups each.
std::vector<block_chain> some_chains(uint32_t count, uint32_t length = 1000) {
  std::vector<block_chain> chains;
  for (uint32_t i = 0; i < count; ++i)
    chains.push_back(make_chain("t" + std::to_string(i % 3), i, 3 * mover_group, length));
  return chains;
}

block_chain branch_of(const block_chain& chain, uint32_t shared, uint64_t seed, uint32_t blocks) {
  std::vector<int32_t> tokens(chain.tokens.begin(), chain.tokens.begin() + shared * chain_tokens);
  rng random{seed};
  while (tokens.size() < size_t{blocks} * chain_tokens)
    tokens.push_back(static_cast<int32_t>(random.below(1000)));
  return chain_from("t0", std::move(tokens));
}

storage::cluster_time end_of(mover_site& site, uint64_t store, const block_chain& chain) {
  const auto head = site.stores.at(store)->blocks().group({.head = chain.keys[0], .limit = 1});
  REQUIRE(head);
  REQUIRE(head->size() == 1);
  return head->front().record.expiry;
}

/// A chain whose first group this store does not own among those that live.
block_chain foreign_chain(mover_site& site,
                          uint64_t store,
                          uint32_t blocks,
                          uint64_t first_seed = 1000,
                          uint32_t length = 1000,
                          const std::string& tenant = "t0") {
  for (uint64_t seed = first_seed;; ++seed) {
    auto chain = make_chain(tenant, seed, blocks, length);
    if (!site.owners(chain, 0).contains(store)) return chain;
  }
}

}  // namespace

TEST_SUITE("actors/cache/kv_mover") {
  TEST_CASE("a store that joins is given what it owns, and nobody else keeps it") {
    mover_site site;
    site.start(1);
    const auto chains = some_chains(20);
    for (const auto& chain : chains) REQUIRE(site.put(1, chain, 0, 24) == 24);
    site.advance(61s);
    const auto position = storage::feed_position{site.stores.at(1)->blocks().epoch(), 0};
    const auto before = site.stores.at(1)->blocks().changes_after(position, 10'000).next;
    std::vector<storage::cluster_time> ends;
    for (const auto& chain : chains) ends.push_back(end_of(site, 1, chain));
    site.start(2);
    site.advance(1s);
    CHECK(site.holders(chains[0], 0) == std::set<uint64_t>{1});  // it may be gone in a moment
    site.advance(20s);
    size_t there = 0;
    for (size_t i = 0; i < chains.size(); ++i) {
      site.check_placed(chains[i], 24);
      const uint64_t owner = *site.owners(chains[i], 0).begin();
      CHECK(end_of(site, owner, chains[i]) == ends[i]);  // a move is no use
      there += site.stores.at(2)->blocks().places(chains[i].keys).front().length > 0 ? 1 : 0;
    }
    CHECK(there > 3);
    CHECK(there < 17);
    CHECK(site.gauge(1, "groups_moved") > 0);
    CHECK(site.gauge(1, "blocks_copied") == site.gauge(1, "blocks_given_away"));
    CHECK(site.gauge(1, "groups_waiting") == 0);
    CHECK(site.gauge(1, "staged_bytes") == 0);
    CHECK(site.sum("failures") == 0);
    // indexes hear of it
    const auto told = site.stores.at(1)->blocks().changes_after(before, 10'000);
    CHECK(static_cast<int64_t>(told.changes.size()) == site.gauge(1, "blocks_given_away"));
  }

  TEST_CASE("what a hint still names lingers until others have it") {
    mover_site site;
    site.config.linger = 30s;
    site.start(1);
    site.start(2);
    const auto chain = foreign_chain(site, 1, 8);
    site.put(1, chain, 0, 8);
    site.advance(61s + 2s);
    CHECK(site.holders(chain, 7) == std::set<uint64_t>{1, 2});
    CHECK(site.gauge(1, "groups_leaving") == 1);
    site.advance(26s);
    CHECK(site.holders(chain, 7) == std::set<uint64_t>{1, 2});
    site.advance(10s);
    CHECK(site.holders(chain, 7) == std::set<uint64_t>{2});
  }

  TEST_CASE("a restart moves nothing, and what was written meanwhile finds its place") {
    mover_site site;
    site.start(1);
    site.start(2);
    site.start(3);
    const auto chains = some_chains(10);
    for (const auto& chain : chains)
      for (uint32_t group = 0; group < 3; ++group)
        site.put(*site.owners(chain, group * 8).begin(), chain, group * 8, group * 8 + 8);
    site.advance(70s);
    CHECK(site.sum("walks") == 3);
    CHECK(site.sum("puts") == 0);
    site.kill(2);
    site.advance(50s);
    // its groups went elsewhere for a while
    const auto late = make_chain("t0", 99, 8);
    site.put(1, late, 0, 8);
    site.put(3, late, 0, 8);
    site.advance(5s);
    site.start(2);
    site.advance(120s);
    CHECK(site.sum("blocks_copied") == (site.owners(late, 0).contains(2) ? 8 : 0));
    for (const auto& chain : chains) site.check_placed(chain, 24);
    site.check_placed(late, 8);
  }

  TEST_CASE("a lost copy is made again when its store stays away") {
    mover_site site;
    site.replicas = 2;
    for (const uint64_t number : {1, 2, 3}) site.start(number);
    const auto chains = some_chains(12);
    for (const auto& chain : chains)
      for (uint32_t group = 0; group < 3; ++group)
        for (const uint64_t owner : site.owners(chain, group * 8))
          site.put(owner, chain, group * 8, group * 8 + 8);
    site.advance(70s);
    CHECK(site.sum("puts") == 0);
    site.kill(3);
    site.advance(50s);
    CHECK(site.sum("puts") == 0);  // it may come back
    site.advance(40s);
    CHECK(site.sum("blocks_copied") > 0);
    for (const auto& chain : chains) site.check_placed(chain, 24);
    // and when it is back, the third copies go
    site.start(3);
    site.advance(80s);
    for (const auto& chain : chains) site.check_placed(chain, 24);
  }

  TEST_CASE("a leased group waits, and goes when its reader is done") {
    mover_site site;
    site.start(1);
    site.start(2);
    const auto chain = foreign_chain(site, 1, 8);
    site.put(1, chain, 0, 8);
    auto& store = site.stores.at(1)->blocks();
    const storage::prefix_query query{
        std::span{chain.keys}.first(5), std::span{chain.tokens}.first(5 * chain_tokens), {}};
    site.advance(60s);
    const auto match =
        store.match(query, storage::lease_wish::grant, site.clocks(*site.stores.at(1)));
    REQUIRE(match->lease.id != 0);
    site.advance(15s);
    CHECK(site.holders(chain, 4) == std::set<uint64_t>{1, 2});
    CHECK(site.holders(chain, 7) == std::set<uint64_t>{2});
    CHECK(site.gauge(1, "groups_waiting") == 1);
    REQUIRE(store.release(match->lease, {storage::use_kind::used, storage::traffic_class::chat},
                          site.clocks(*site.stores.at(1))));
    const auto used_until = end_of(site, 1, chain);
    site.advance(40s);
    site.check_placed(chain, 8);
    CHECK(end_of(site, 2, chain) == used_until);  // the use is not forgotten with the copy
  }

  TEST_CASE("a group with many branches moves whole, page by page") {
    mover_site site;
    site.config.batch_blocks = 3;
    site.config.put_bytes = 2500;
    site.start(1);
    site.start(2);
    const auto chain = foreign_chain(site, 1, 8);
    std::vector<block_chain> branches{chain};
    for (uint64_t seed = 0; seed < 6; ++seed)
      branches.push_back(branch_of(chain, 1 + seed, seed, 8));
    for (const auto& branch : branches) site.put(1, branch, 0, 8);
    const auto all = site.stores.at(1)->blocks().stats().blocks;
    site.advance(61s + 20s);
    for (const auto& branch : branches) site.check_placed(branch, 8);
    CHECK(site.stores.at(1)->blocks().stats().blocks == 0);
    CHECK(site.stores.at(2)->blocks().stats().blocks == all);
    CHECK(site.gauge(1, "groups_moved") == 1);
    CHECK(site.gauge(1, "puts") >= static_cast<int64_t>(all) / 2);
  }

  TEST_CASE("blocks of agents and of chats keep their classes") {
    mover_site site;
    site.start(1);
    site.start(2);
    const auto chain = foreign_chain(site, 1, 8);
    auto& one = *site.stores.at(1);
    const storage::writer_ref writer{1, 1};
    chain_writer{one.blocks(), writer, storage::traffic_class::chat}.put(chain, 0, 3,
                                                                         site.clocks(one));
    chain_writer{one.blocks(), writer, storage::traffic_class::agent}.put(chain, 3, 8,
                                                                          site.clocks(one));
    site.advance(61s + 20s);
    site.check_placed(chain, 8);
    const auto blocks = site.stores.at(2)->blocks().group({.head = chain.keys[0], .limit = 10});
    REQUIRE(blocks->size() == 8);
    for (uint32_t i = 0; i < 8; ++i) {
      const auto classes = (*blocks)[i].record.classes;
      const bool chat = (classes & storage::mask_of(storage::traffic_class::chat)) != 0;
      CHECK(chat == (i < 3));
    }
  }

  TEST_CASE("an owner that dies in the middle loses nothing") {
    for (uint64_t moment = 0; moment < 12; ++moment) {
      CAPTURE(moment);
      net::loop_options slow;
      slow.bytes_per_second = 100'000;
      mover_site site{slow};
      site.start(1);
      site.start(2);
      const auto chains = some_chains(6);
      for (const auto& chain : chains) site.put(1, chain, 0, 24);
      site.advance(61s + moment * 350ms);
      site.kill(2);
      site.advance(10s);
      for (const auto& chain : chains)
        for (uint32_t i = 0; i < 24; ++i)  // here, or on the dead one's disk
          if (site.holders(chain, i).empty()) CHECK_FALSE(site.owners(chain, i).contains(2));
      site.start(2);
      site.advance(100s);
      for (const auto& chain : chains) site.check_placed(chain, 24);
      CHECK(site.gauge(1, "staged_bytes") == 0);
    }
  }

  TEST_CASE("what a full store refuses stays where it was") {
    mover_site site;
    site.make(2).capacity = 1 << 20;  // 255 blocks
    site.make(1).capacity = 1 << 20;
    site.start(1);
    std::vector<block_chain> chains;
    for (uint64_t seed = 0; seed < 8; ++seed) chains.push_back(make_chain("t0", seed, 24));
    for (const auto& chain : chains) REQUIRE(site.put(1, chain, 0, 24) == 24);
    site.start(2);
    const auto filler = make_chain("f", 77, 200);
    site.put(2, filler, 0, 200);
    site.advance(200s);
    CHECK(site.gauge(1, "owners_full") > 0);
    CHECK(site.gauge(1, "groups_waiting") > 0);
    for (const auto& chain : chains)
      for (uint32_t i = 0; i < 24; ++i) CHECK_FALSE(site.holders(chain, i).empty());
    // it is asked seldom
    CHECK(site.gauge(1, "puts") < 60);
  }

  TEST_CASE("a corrupt block never spreads") {
    mover_site site;
    site.start(1);
    site.start(2);
    std::vector<block_chain> chains;
    for (uint64_t i = 0; i < 12; ++i) {
      chains.push_back(foreign_chain(site, 1, 8, 1000 * i));
      site.put(1, chains.back(), 0, 8);
    }
    auto faults = site.stores.at(1)->medium.faults().current();
    faults.flipped_read = 65'536 / 3;
    site.stores.at(1)->medium.faults().set(faults);
    site.advance(300s);
    site.stores.at(1)->medium.faults().set({});
    CHECK(site.gauge(1, "blocks_not_read") > 0);
    const auto two = site.stores.at(2)->blocks().stats();
    CHECK(two.quarantined == 0);
    CHECK(two.mismatched == 0);
    for (const auto& chain : chains)
      for (uint32_t i = 0; i < 8; ++i) site.holders(chain, i);  // checks the bytes
  }

  TEST_CASE("another store's bytes are not taken for one's own") {
    mover_site site;
    site.start(1);
    site.start(2);
    const auto chain = foreign_chain(site, 1, 8);
    site.put(1, chain, 0, 8);
    // the owner has the first block already, as another kind of engine computed it
    auto& two = *site.stores.at(2);
    const auto content = chain.content(0);
    const storage::reserve_item item{chain.keys[0], chain.root, 0, chain.length, content};
    const auto reserved = *two.blocks().reserve(
        {chain.scope, {9, 1}, storage::traffic_class::chat, site.clocks(two)}, {&item, 1});
    const auto bytes = bytes_of({1, 2}, chain.length);
    const storage::write_item write{reserved[0].ticket, bytes};
    REQUIRE(two.blocks().write({&write, 1}, site.clocks(two)));
    const storage::commit_item commit{reserved[0].ticket,
                                      storage::block_checksum(chain.keys[0], bytes)};
    REQUIRE((*two.blocks().commit({&commit, 1}, site.clocks(two)))[0] ==
            storage::commit_outcome::stored);
    site.advance(61s + 15s);
    CHECK(site.gauge(1, "diverged") > 0);
    CHECK(site.gauge(1, "groups_waiting") == 1);
    CHECK(site.stores.at(1)->blocks().stats().blocks == 8);  // kept to its end
  }

  TEST_CASE("stores that disagree move nothing") {
    mover_site site;
    site.make(2).replicas = 2;
    site.make(3).group_blocks = 4;
    site.start(1);
    const auto chains = some_chains(4);
    for (const auto& chain : chains) site.put(1, chain, 0, 24);
    site.start(2);
    site.advance(300s);
    CHECK(site.gauge(1, "disagree") == 1);
    site.kill(2);
    site.start(3);
    site.advance(300s);
    CHECK(site.gauge(1, "disagree") == 1);
    CHECK(site.sum("walks") == 0);
    CHECK(site.stores.at(1)->blocks().stats().blocks == 4 * 24);
  }

  TEST_CASE(
      "two stores that each take the other for the owner give nothing away until they agree") {
    mover_site site;
    site.config.settle = 1ms;
    for (const uint64_t number : {1, 2}) site.make(number).own_weight = 1;
    site.start(1);
    site.start(2);
    const auto chain = make_chain("t0", 1, 8);
    site.put(1, chain, 0, 8);
    site.put(2, chain, 0, 8);
    for (int i = 0; i < 120; ++i) {
      site.advance(1s);
      REQUIRE(site.holders(chain, 7) == std::set<uint64_t>{1, 2});
    }
    for (const uint64_t number : {1, 2}) {
      CHECK(site.gauge(number, "placements_differ") > 0);  // asked again and again
      CHECK(site.store_gauge(number, "placements_differ") ==
            site.gauge(3 - number, "placements_differ"));
      CHECK(site.gauge(number, "groups_moved") == 0);
    }
    // from their next start on they see the same
    for (const uint64_t number : {1, 2}) {
      site.kill(number);
      site.make(number).own_weight = 0;
      site.start(number);
    }
    site.advance(180s);
    site.check_placed(chain, 8);
    CHECK(site.sum("groups_moved") == 1);
    CHECK(site.sum("placements_differ") == 0);
  }

  TEST_CASE("nothing moves faster than it may") {
    mover_site site;
    site.config.bytes_per_second = 8000;  // a group a second
    site.start(1);
    const auto chains = some_chains(20);
    for (const auto& chain : chains) site.put(1, chain, 0, 24);
    site.start(2);
    site.advance(62s);
    const auto first = site.gauge(1, "bytes_copied");
    site.advance(10s);
    const auto more = site.gauge(1, "bytes_copied") - first;
    CHECK(more >= 72'000);
    CHECK(more <= 88'000);
  }

  TEST_CASE("a block larger than the memory for it stays, and others move") {
    mover_site site;
    site.config.staging_bytes = 64 << 10;
    site.start(1);
    site.start(2);
    const auto large = foreign_chain(site, 1, 1, 1000, 100'000);
    const auto small = foreign_chain(site, 1, 8, 2000, 10'000);  // together larger, too
    REQUIRE(site.put(1, large, 0, 1) == 1);
    REQUIRE(site.put(1, small, 0, 8) == 8);
    site.advance(61s + 15s);
    site.check_placed(small, 8);
    CHECK(site.holders(large, 0) == std::set<uint64_t>{1});
    CHECK(site.gauge(1, "blocks_too_large") == 1);
    CHECK(site.gauge(1, "groups_waiting") == 1);
  }

  TEST_CASE("a scope that is purged while it moves is purged where it went") {
    mover_site site;
    site.config.linger = 10s;
    site.start(1);
    site.start(2);
    const auto gone = foreign_chain(site, 1, 8);
    site.put(1, gone, 0, 8);
    site.advance(61s + 2s);
    REQUIRE(site.holders(gone, 0) == std::set<uint64_t>{1, 2});
    // the order reached the owner before the blocks did, so only this store hears of it
    site.purge(1, gone.scope);
    site.advance(5s);
    CHECK(site.holders(gone, 0).empty());
    CHECK(site.gauge(1, "purges_followed") == 1);
    // a purge after a group was handed over is no reason
    const auto kept = foreign_chain(site, 1, 8, 3000, 1000, "t1");
    site.put(1, kept, 0, 8);
    site.advance(60s);
    REQUIRE(site.holders(kept, 0) == std::set<uint64_t>{2});
    const auto other = make_chain("other", 5, 1);
    site.put(1, other, 0, 1);
    site.purge(1, other.scope);
    site.advance(10s);
    CHECK(site.holders(kept, 0) == std::set<uint64_t>{2});
  }

  TEST_CASE("an evicted head and the purge of another tenant take nothing of a group elsewhere") {
    for (const uint64_t evicting : {1, 2}) {
      CAPTURE(evicting);
      mover_site site;
      site.config.linger = 20s;
      site.start(1);
      site.start(2);
      const auto kept = foreign_chain(site, 1, 1);
      const auto gone = foreign_chain(site, 1, 8, 3000, 1000, "t1");
      site.put(1, kept, 0, 1);
      site.put(1, gone, 0, 8);
      site.advance(63s);
      REQUIRE(site.holders(kept, 0) == std::set<uint64_t>{1, 2});
      REQUIRE(site.holders(gone, 7) == std::set<uint64_t>{1, 2});
      // room is made, and the first to go is over its share
      moving_store& one = *site.stores.at(evicting);
      one.blocks().set_quota(kept.scope, 0);
      const auto stats = one.blocks().stats();
      const uint64_t room = one.capacity - (stats.live_bytes - 1);
      REQUIRE(one.blocks().make_room(room, site.clocks(one)));
      const uint64_t other = 3 - evicting;
      REQUIRE(site.holders(kept, 0) == std::set<uint64_t>{other});
      REQUIRE(site.holders(gone, 7) == std::set<uint64_t>{1, 2});
      // as an operator's order, which reaches all stores
      site.purge(1, gone.scope);
      site.purge(2, gone.scope);
      site.advance(10s);
      CHECK(site.holders(kept, 0) == std::set<uint64_t>{other});
      for (uint32_t i = 0; i < 8; ++i) CHECK(site.holders(gone, i).empty());
      // in time the owner has the group, as it lets it
      one.blocks().set_quota(kept.scope, UINT64_MAX);
      site.advance(300s);
      CHECK(site.holders(kept, 0) == std::set<uint64_t>{2});
      for (uint32_t i = 0; i < 8; ++i) CHECK(site.holders(gone, i).empty());
    }
  }

  TEST_CASE("a purge is followed whenever it comes, also just before a group is given away") {
    for (uint32_t tenth = 0; tenth < 12; ++tenth) {
      CAPTURE(tenth);
      mover_site site;
      site.config.linger = 10s;
      site.config.bytes_per_second = 16'000;  // so that it leaves between two ticks
      site.start(1);
      site.start(2);
      const auto gone = foreign_chain(site, 1, 8);
      site.put(1, gone, 0, 8);
      while (site.gauge(1, "groups_leaving") == 0) site.advance(100ms);
      REQUIRE(site.holders(gone, 0) == std::set<uint64_t>{1, 2});
      site.advance(9s + tenth * 100ms);
      // the order reached the owner before the blocks did, so only this store hears of it
      site.purge(1, gone.scope);
      site.advance(10s);
      for (uint32_t i = 0; i < 8; ++i) CHECK(site.holders(gone, i).empty());
    }
  }

  TEST_CASE("what was read before a purge and is sent after it is purged where it goes") {
    mover_site site;
    site.start(1);
    site.start(2);
    const auto gone = foreign_chain(site, 1, 8);
    site.put(1, gone, 0, 8);
    moving_store& one = *site.stores.at(1);
    site.advance(59s);
    one.moving_io.held = true;
    const auto reads = [&one] { return one.blocks().stats().read_blocks; };
    while (reads() == 0) {  // everything up to the reading of bytes
      for (const io_work& work : std::exchange(one.moving_io.kept, {})) {
        work.run();
        if (reads() != 0)
          one.moving_io.kept.push_back({work.number, [] {}, work.reply_to});
        else
          caf::anon_send(work.reply_to, io_done{work.number});
      }
      if (reads() == 0) site.advance(100ms);
    }
    site.purge(1, gone.scope);
    site.advance(3s);  // some ticks, while the device has not said that it is done
    one.moving_io.let_go();
    site.run();
    CHECK(site.gauge(1, "blocks_copied") == 8);
    site.advance(10s);
    for (uint32_t i = 0; i < 8; ++i) CHECK(site.holders(gone, i).empty());
  }

  TEST_CASE("two stores that sent to each other follow a purge once, not for ever") {
    mover_site site;
    site.config.linger = 10s;
    site.start(1);
    site.start(2);
    for (const uint64_t from : {1, 2}) {
      const auto chain = foreign_chain(site, from, 8);
      site.put(from, chain, 0, 8);
    }
    site.advance(61s + 2s);
    REQUIRE(site.sum("blocks_copied") == 16);
    const auto scope = make_chain("t0", 1000, 1).scope;
    for (const uint64_t number : {1, 2}) site.purge(number, scope);
    site.advance(100s);
    CHECK(site.sum("purges_followed") == 2);
    CHECK(site.store_gauge(1, "purges") == 2);
    CHECK(site.store_gauge(2, "purges") == 2);
  }

  TEST_CASE("a mover that is told to stop, or switched off, begins nothing") {
    mover_site site;
    site.config.bytes_per_second = 4000;
    site.start(1);
    const auto chains = some_chains(20);
    for (const auto& chain : chains) site.put(1, chain, 0, 24);
    site.start(2);
    site.advance(62s);
    REQUIRE(site.gauge(1, "walking") == 1);
    caf::anon_send(site.stores.at(1)->mover, stop_moving{});
    site.run();
    const auto puts = site.gauge(1, "puts");
    site.advance(300s);
    CHECK(site.gauge(1, "puts") == puts);
    CHECK(site.gauge(1, "walking") == 0);

    mover_site off;
    off.config.enabled = false;
    off.start(1);
    for (const auto& chain : chains) off.put(1, chain, 0, 24);
    off.start(2);
    off.advance(300s);
    CHECK(off.sum("walks") == 0);
  }
}
