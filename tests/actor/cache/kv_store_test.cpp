#include "tests/actor/cache/store_site.hpp"

#include <algorithm>

namespace deepinfer {

using namespace std::chrono_literals;
using test::make_chain;
using test::put_options;
using test::store_site;
using wire::KvPutOutcome;
using wire::KvReadStatus;

namespace {

size_t how_many(const std::vector<KvPutOutcome>& all, KvPutOutcome one) {
  return static_cast<size_t>(std::count(all.begin(), all.end(), one));
}

wire::msg<wire::KvPurge> purge_of(storage::scope_id scope) {
  wire::draft<wire::KvPurge> out;
  out->setScope(static_cast<uint64_t>(scope));
  return out.freeze();
}

}  // namespace

TEST_SUITE_BEGIN("actors/cache/kv_store");

TEST_CASE("blocks that were put are opened, read with their bytes, and closed") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 8);
  CHECK(how_many(site.put(chain, 0, 8), KvPutOutcome::STORED) == 8);
  CHECK(site.released().size() == 1);

  const auto opened = site.opened(chain, 0, 8);
  CHECK(opened.get().getBlocks() == 8);
  CHECK(opened.get().getLease() != 0);
  CHECK(opened.get().getPlaces().size() == 0);  // no folder: only this store reaches the bytes
  CHECK(site.gauge("leases") == 1);

  const auto read = site.read(opened.get(), chain.keys);
  REQUIRE(read.get().getBlocks().size() == 8);
  for (uint32_t i = 0; i < 8; ++i) {
    const auto block = read.get().getBlocks()[i];
    REQUIRE(block.getStatus() == KvReadStatus::OK);
    const auto bytes = site.pull(block.getBytes());
    CHECK(bytes == test::bytes_of(chain.keys[i], chain.length));
    CHECK(block.getChecksum() == storage::block_checksum(chain.keys[i], bytes));
  }
  CHECK(site.gauge("staged_bytes") > 0);
  wire::draft<wire::LeaseRelease> release;
  release->setId(read.get().getLease().getId());
  site.peer.world.self->send(site.store, release.freeze());
  site.run();
  CHECK(site.gauge("staged_bytes") == 0);

  site.close(opened.get(), storage::use_kind::used);
  CHECK(site.gauge("leases") == 0);
}

TEST_CASE("the time and the bytes of reads and writes are told, of those that were done") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 8);
  site.put(chain, 0, 8);
  const auto bytes = static_cast<double>(8 * chain.length);
  CHECK(site.writes.seconds.size() == 1);
  CHECK(site.writes.bytes == bytes);
  site.put(chain, 0, 8);  // there already: nothing is stored
  CHECK(site.writes.seconds.size() == 1);
  const auto opened = site.opened(chain, 0, 8);
  site.read(opened.get(), chain.keys);
  const auto other = make_chain("b", 2, 2);
  site.read(opened.get(), other.keys);  // not there: nothing is read
  CHECK(site.reads.seconds.size() == 1);
  CHECK(site.reads.bytes == bytes);
}

TEST_CASE("what is there already is refreshed without pulling its bytes again") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 2);
  const auto before = site.home.transport->stats().read_bytes;
  const auto outcomes = site.put(chain, 0, 4);
  CHECK(how_many(outcomes, KvPutOutcome::REFRESHED) == 2);
  CHECK(how_many(outcomes, KvPutOutcome::STORED) == 2);
  CHECK(site.home.transport->stats().read_bytes - before == 2 * chain.length);
}

TEST_CASE("bytes that are not those of the digest or the checksum are not stored") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 3);
  for (const bool digest : {true, false}) {
    put_options wrong;
    (digest ? wrong.flip_a_bit : wrong.wrong_checksum) = true;
    const auto outcomes = site.put(chain, 0, 3, wrong);
    CHECK(outcomes.front() == KvPutOutcome::CORRUPT);
    CHECK(how_many(outcomes, KvPutOutcome::STORED) == 0);
  }
  CHECK(site.opened(chain, 0, 3).get().getBlocks() == 0);
  CHECK(site.gauge("reservations") == 0);
  CHECK(site.released().size() == 2);
}

TEST_CASE("a gap in a chain ends it, and a group may begin without what is in front") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 16);
  put_options gap;
  gap.lacking = {2};
  CHECK(site.put(chain, 0, 5, gap) == std::vector{KvPutOutcome::STORED, KvPutOutcome::STORED,
                                                  KvPutOutcome::NO_PARENT,
                                                  KvPutOutcome::NO_PARENT});
  CHECK(how_many(site.put(chain, 8, 16), KvPutOutcome::STORED) == 8);  // group_blocks is 8
  CHECK(site.opened(chain, 8, 16).get().getBlocks() == 8);
}

TEST_CASE("an older life of a writer is refused, and its leases are let go") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 2);
  CHECK(how_many(site.put(chain, 0, 1, {.writer = {5, 2}}), KvPutOutcome::STORED) == 1);
  CHECK(how_many(site.put(chain, 0, 2, {.writer = {5, 1}}), KvPutOutcome::STALE) == 2);
  CHECK(site.released().size() == 2);
}

TEST_CASE("malformed writes fail clearly and give the lease back") {
  store_site site;
  site.config.pull_bytes = 1 << 20;
  site.config.store.max_batch = 4;
  site.open();
  const auto chain = make_chain("a", 1, 5, 100);
  const auto ask = [&](const wire::msg<wire::KvPut>& put) {
    const auto answer = site.net.ask<wire::msg<wire::KvPutDone>>(site.peer, site.store, put);
    REQUIRE_FALSE(answer);
    return answer.error().code;
  };
  CHECK(ask(site.put_of(chain, 0, 5)) == error_code::too_large);
  CHECK(ask(wire::msg<wire::KvPut>{}) == error_code::invalid_argument);
  auto other_key = chain;
  other_key.keys[0].lo ^= 1;
  CHECK(ask(site.put_of(other_key, 0, 1)) == error_code::invalid_argument);
  const auto huge = make_chain("a", 2, 2, 600 << 10);  // two of them are over pull_bytes
  site.staging = *staging_area::make(*site.peer.transport, 4 << 20);
  CHECK(ask(site.put_of(huge, 0, 2)) == error_code::too_large);
  CHECK(site.released().size() == 3);
  CHECK(site.gauge("puts_malformed") == 3);
  CHECK(site.gauge("puts_open") == 0);
}

TEST_CASE("malformed questions fail clearly") {
  store_site site;
  site.config.store.max_query_blocks = 4;
  site.config.store.max_batch = 4;
  site.open();
  const auto chain = make_chain("a", 1, 5);
  const auto open = [&](const wire::msg<wire::KvOpen>& question) {
    const auto answer = site.net.ask<wire::msg<wire::KvOpened>>(site.peer, site.store, question);
    REQUIRE_FALSE(answer);
    return answer.error().code;
  };
  CHECK(open(store_site::open_of(chain, 0, 5)) == error_code::too_large);
  CHECK(open({}) == error_code::invalid_argument);
  wire::draft<wire::KvOpen> half_a_key;
  half_a_key->initKeys(24);
  CHECK(open(half_a_key.freeze()) == error_code::invalid_argument);
  wire::draft<wire::KvOpen> half_a_block;
  half_a_block->initKeys(32);
  half_a_block->initTokens(4 * 15);
  CHECK(open(half_a_block.freeze()) == error_code::invalid_argument);
  const auto read = site.net.ask<wire::msg<wire::KvReadDone>>(site.peer, site.store,
                                                              store_site::read_of({}, chain.keys));
  REQUIRE_FALSE(read);
  CHECK(read.error().code == error_code::too_large);
}

TEST_CASE("a read finds no room rather than wait, and reads what fits") {
  store_site site;
  site.config.staging_bytes = 4096;
  site.open();
  const auto chain = make_chain("a", 1, 8);  // 1000 bytes each, 1024 in memory
  site.put(chain, 0, 8);
  const auto opened = site.opened(chain, 0, 8);
  const auto first = site.read(opened.get(), chain.keys);
  const auto statuses = [](const wire::msg<wire::KvReadDone>& read) {
    std::vector<KvReadStatus> all;
    for (const auto block : read.get().getBlocks()) all.push_back(block.getStatus());
    return all;
  };
  const auto got = statuses(first);
  CHECK(std::count(got.begin(), got.begin() + 4, KvReadStatus::OK) == 4);
  CHECK(std::count(got.begin() + 4, got.end(), KvReadStatus::NO_ROOM) == 4);
  const auto second = statuses(site.read(opened.get(), chain.keys));
  CHECK(std::count(second.begin(), second.end(), KvReadStatus::NO_ROOM) == 8);
  site.advance(11s);  // the reader never said that it was done: its lease ends
  CHECK(site.gauge("staged_bytes") == 0);
  CHECK(statuses(site.read(opened.get(), {chain.keys.data(), 1})).front() == KvReadStatus::OK);
}

TEST_CASE("leases of another life of the store read nothing") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 2);
  site.put(chain, 0, 2);
  wire::draft<wire::KvOpened> other;
  other->setLease(1);
  other->setEpoch(site.backing.store->epoch() - 1);
  const auto opened = other.freeze();
  for (const auto block : site.read(opened.get(), chain.keys).get().getBlocks())
    CHECK(block.getStatus() == KvReadStatus::STALE);
  CHECK(site.gauge("staged_bytes") == 0);
}

TEST_CASE("a writer that dies while its blocks are pulled leaves no half block") {
  net::loop_options slow = test::remote_world::instant();
  slow.bytes_per_second = 20'000;  // a block takes 50 ms
  store_site site{slow};
  site.open();
  const auto chain = make_chain("a", 1, 8);
  site.peer.world.self->send(site.store, site.put_of(chain, 0, 8));
  site.advance(300ms);
  REQUIRE(site.backing.store->stats().reservations == 8);
  site.net.network.kill("10.0.0.2:1");
  auto watcher =
      site.home.world.start_ask<wire::msg<wire::ActorInfo>>(site.local, wire::msg<wire::Inspect>{});
  site.advance(30s);
  REQUIRE(watcher.ready());
  CHECK(site.backing.store->stats().reservations == 0);
  // what had come by then is whole, and stays
  const auto stored = static_cast<uint32_t>(site.backing.store->stats().blocks);
  CHECK(stored > 0);
  CHECK(stored < 8);
  CHECK(test::read_back(*site.backing.store, chain, stored, test::at(1min)) == stored);
}

TEST_CASE("of two writers of one key both end well, and the block is stored once") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 4);
  auto one = site.peer.world.start_ask<wire::msg<wire::KvPutDone>>(
      site.store, site.put_of(chain, 0, 4, {.writer = {1, 1}}));
  auto two = site.peer.world.start_ask<wire::msg<wire::KvPutDone>>(
      site.store, site.put_of(chain, 0, 4, {.writer = {2, 1}}));
  site.run();
  std::vector<KvPutOutcome> all = store_site::outcomes_of(one.get());
  const auto others = store_site::outcomes_of(two.get());
  all.insert(all.end(), others.begin(), others.end());
  CHECK(how_many(all, KvPutOutcome::STORED) == 4);
  CHECK(how_many(all, KvPutOutcome::REFRESHED) == 4);
  CHECK(site.gauge("blocks") == 4);
  CHECK(site.gauge("reservations") == 0);
  CHECK(site.released().size() == 2);
}

TEST_CASE("whoever reports a bad block is believed only when it is bad") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 3);
  site.put(chain, 0, 3);
  const auto report = [&](uint32_t index) {
    wire::draft<wire::KvReportBad> out;
    write_block_key(out->initKey(), chain.keys[index]);
    site.peer.world.self->send(site.store, out.freeze());
    site.run();
  };
  report(1);
  CHECK(site.opened(chain, 0, 3).get().getBlocks() == 3);
  CHECK(site.gauge("quarantined") == 0);
  while (site.backing.store->stats().quarantined == 0) {
    REQUIRE(site.medium.damage());
    for (uint32_t i = 0; i < 3; ++i) report(i);
  }
  CHECK(site.opened(chain, 0, 3).get().getBlocks() < 3);
}

TEST_CASE("bytes that the reader verifies go with the checksum they should have") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 3);
  site.put(chain, 0, 3);
  const auto opened = site.opened(chain, 0, 3);
  const auto wrong = [&] {
    const auto read = site.read(opened.get(), chain.keys, storage::read_check::by_reader);
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; ++i) {
      const auto block = read.get().getBlocks()[i];
      REQUIRE(block.getStatus() == KvReadStatus::OK);
      CHECK(block.getChecksum() ==
            storage::block_checksum(chain.keys[i], test::bytes_of(chain.keys[i], chain.length)));
      count += storage::block_checksum(chain.keys[i], site.pull(block.getBytes())) !=
               block.getChecksum();
    }
    wire::draft<wire::LeaseRelease> release;
    release->setId(read.get().getLease().getId());
    site.peer.world.self->send(site.store, release.freeze());
    site.run();
    return count;
  };
  CHECK(wrong() == 0);
  uint32_t damaged = 0;
  while (damaged == 0) {
    REQUIRE(site.medium.damage());
    damaged = wrong();
  }
  CHECK(site.gauge("quarantined") == 0);  // the store has not looked
  uint32_t bad = 0;
  for (const auto block : site.read(opened.get(), chain.keys).get().getBlocks())
    bad += block.getStatus() == KvReadStatus::BAD;
  CHECK(bad == damaged);
  CHECK(site.gauge("quarantined") > 0);
}

TEST_CASE("a purged tenant's blocks are gone when the store answers, another's stay") {
  store_site site;
  site.open();
  const auto gone = make_chain("gone", 1, 4);
  const auto kept = make_chain("kept", 1, 3);
  site.put(gone, 0, 4);
  site.put(kept, 0, 3);
  const auto lease = site.opened(gone, 0, 4);
  const auto purged =
      site.net.ask<wire::msg<wire::KvPurged>>(site.peer, site.store, purge_of(gone.scope));
  REQUIRE(purged);
  CHECK(purged->get().getBlocks() == 4);
  CHECK(purged->get().getBytes() == 4 * uint64_t{gone.length});
  CHECK(site.opened(gone, 0, 4).get().getBlocks() == 0);
  const auto read = site.read(lease.get(), gone.keys);  // also under a lease of before
  CHECK(read.get().getBlocks()[0].getStatus() != wire::KvReadStatus::OK);
  CHECK(site.opened(kept, 0, 3).get().getBlocks() == 3);
  site.close(lease.get(), storage::use_kind::unused);
  CHECK(how_many(site.put(gone, 0, 4), KvPutOutcome::STORED) == 4);  // as if it had never been
}

TEST_CASE("blocks of a purged tenant that left another store before are not taken") {
  store_site site;
  site.config.longest_put = std::chrono::seconds{20};
  site.open();
  const auto chain = make_chain("a", 1, 2);
  const put_options moved{.expiry = site.wall() + std::chrono::hours{50}};
  REQUIRE(site.net.ask<wire::msg<wire::KvPurged>>(site.peer, site.store, purge_of(chain.scope)));
  CHECK(how_many(site.put(chain, 0, 2, moved), KvPutOutcome::STALE) == 2);
  CHECK(site.gauge("blocks") == 0);
  CHECK(site.gauge("reservations") == 0);
  CHECK(how_many(site.put(make_chain("b", 1, 2), 0, 2, moved), KvPutOutcome::STORED) == 2);
  CHECK(how_many(site.put(chain, 0, 1), KvPutOutcome::STORED) == 1);  // a writer's: from now
  site.advance(std::chrono::seconds{21});
  CHECK(how_many(site.put(chain, 0, 2, moved), KvPutOutcome::STORED) == 1);
}

TEST_SUITE_END();

}  // namespace deepinfer
