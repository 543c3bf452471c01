#include "actors/cache/kv_fetch.hpp"

#include "actors/cache/fetch_io.hpp"
#include "actors/cache/fetch_locator.hpp"
#include "tests/actor/cache/check_peers.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/remote_world.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

/// A store that holds some blocks in registered memory and does as the test says.
struct holder {
  net::transport* transport = nullptr;
  actor_ref self;
  std::map<storage::block_key, std::vector<std::byte>> blocks;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  net::memory_region region;
  uint64_t used = 0, next_lease = 1;
  bool opens = true, reads = true, lies = false;
  uint32_t forgets_after = 1000;  ///< blocks that it still has when they are read

  uint32_t open_leases = 0, staged = 0, reads_asked = 0, blocks_asked = 0, reports = 0,
           used_closes = 0;
};

std::vector<storage::block_key> keys_in(capnp::Data::Reader data) {
  std::vector<storage::block_key> keys;
  for (size_t at = 0; at < data.size(); at += storage::key_bytes)
    keys.push_back(storage::key_from_bytes(reinterpret_cast<const std::byte*>(data.begin()) + at));
  return keys;
}

wire::msg<wire::KvOpened> opened(holder& h, wire::KvOpen::Reader asked) {
  wire::draft<wire::KvOpened> out;
  uint32_t count = 0;
  for (const auto& key : keys_in(asked.getKeys())) {
    if (!h.blocks.contains(key)) break;
    ++count;
  }
  out->setBlocks(count);
  if (count == 0) return out.freeze();
  ++h.open_leases;
  out->setLease(h.next_lease++);
  out->setEpoch(1);
  out->setTtlMs(30000);
  return out.freeze();
}

wire::msg<wire::KvReadDone> read_done(holder& h, wire::KvRead::Reader asked) {
  const auto keys = keys_in(asked.getKeys());
  ++h.reads_asked;
  wire::draft<wire::KvReadDone> out;
  auto list = out->initBlocks(static_cast<uint32_t>(keys.size()));
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const auto found = h.blocks.find(keys[i]);
    if (found == h.blocks.end() || h.blocks_asked++ >= h.forgets_after) {
      list[i].setStatus(wire::KvReadStatus::ABSENT);
      continue;
    }
    const auto& bytes = found->second;
    std::memcpy(h.memory.data() + h.used, bytes.data(), bytes.size());
    if (h.lies) h.memory[h.used + 5] ^= std::byte{1};
    list[i].initBytes().setRegion(h.region.key);
    list[i].getBytes().setOffset(h.used);
    list[i].getBytes().setLength(bytes.size());
    list[i].setChecksum(storage::block_checksum(keys[i], bytes));
    h.used += (bytes.size() + 63) / 64 * 64;
  }
  ++h.staged;
  out->initLease().setId(1);
  write_ref(out->getLease().initOwner(), h.self);
  return out.freeze();
}

kv_store_actor::behavior_type holding_store(kv_store_actor::pointer self, holder* h) {
  using namespace wire;
  return {
      [](const msg<KvPut>&) { return msg<KvPutDone>{}; },
      [self, h](const msg<KvOpen>& m) {
        auto promise = self->make_response_promise<msg<KvOpened>>();
        if (h->opens) promise.deliver(opened(*h, m.get()));
        return promise;
      },
      [self, h](const msg<KvRead>& m) {
        auto promise = self->make_response_promise<msg<KvReadDone>>();
        if (h->reads) promise.deliver(read_done(*h, m.get()));
        return promise;
      },
      [](const msg<KvChangesQuery>&) { return msg<KvChanges>{}; },
      [](const msg<KvSnapshotQuery>&) { return msg<KvSnapshotPage>{}; },
      [](const msg<KvInfoQuery>&) { return msg<KvInfo>{}; },
      [](const msg<KvHave>&) { return msg<KvHas>{}; },
      [](const msg<KvPurge>&) { return msg<KvPurged>{}; },
      [](const msg<KvClockAcknowledge>&) { return msg<Ack>{}; },
      [](const msg<KvRenew>&) {},
      [h](const msg<KvClose>& m) {
        --h->open_leases;
        if (m.get().getUsed()) ++h->used_closes;
      },
      [h](const msg<KvReportBad>&) { ++h->reports; },
      [h](const msg<LeaseRelease>&) { --h->staged; },
      [](const msg<Inspect>&) { return msg<ActorInfo>{}; },
  };
}

struct fetch_world {
  fetch_world() {
    for (uint64_t i = 0; i < 2; ++i) {
      nodes[i] = &world.start("store" + std::to_string(i) + ":1");
      holder& h = stores[i];
      h.transport = nodes[i]->transport.get();
      h.region = *h.transport->register_memory(h.memory);
      const auto made = nodes[i]->world.system.spawn(holding_store, &h);
      h.self = *nodes[i]->hub.export_actor(made);
    }
    engine = &world.start("engine:1");
    fetch_setup setup;
    setup.config.open_timeout = 200ms;
    setup.config.read_timeout = 500ms;
    setup.config.batch_blocks = 3;
    setup.memory = *storage::shared_memory::make(1 << 20, 77);
    setup.hub = &engine->hub;
    setup.transport = engine->transport.get();
    setup.spawn_io = [this] {
      return engine->world.system.spawn(fetch_io, std::cref(engine->hub));
    };
    sut = engine->world.system.spawn(kv_fetch, setup);
    for (const auto& key : chain.keys) {
      stores[0].blocks[key] = test::bytes_of(key, 1000);
      stores[1].blocks[key] = test::bytes_of(key, 1000);
    }
  }

  wire::msg<wire::KvFetch> order(uint64_t ticket, std::chrono::milliseconds deadline = 2s) {
    wire::draft<wire::KvFetch> out;
    out->initTicket().setLo(ticket);
    out->setDeadlineMs(static_cast<uint32_t>(deadline.count()));
    auto keys = out->initKeys(chain.size() * 16);
    for (uint32_t i = 0; i < chain.size(); ++i) {
      const auto one = storage::to_bytes(chain.keys[i]);
      std::memcpy(keys.begin() + 16 * i, one.data(), 16);
    }
    auto tokens = out->initTokens(static_cast<uint32_t>(chain.tokens.size() * 4));
    std::memcpy(tokens.begin(), chain.tokens.data(), tokens.size());
    out->setGroupBlocks(4);
    auto groups = out->initGroups(2);
    for (uint32_t g = 0; g < 2; ++g) {
      auto list = groups[g].initStores(2);
      for (uint32_t s = 0; s < 2; ++s) write_ref(list[s], stores[s].self);
    }
    out->setTraffic(2);
    return out.freeze();
  }

  struct pending {
    std::shared_ptr<std::optional<result<wire::msg<wire::KvFetched>>>> state =
        std::make_shared<std::optional<result<wire::msg<wire::KvFetched>>>>();
    caf::actor asker;

    [[nodiscard]] bool ready() const { return state->has_value(); }
    [[nodiscard]] const result<wire::msg<wire::KvFetched>>& get() const { return **state; }
  };

  /// Asked by an actor that lives on, as an engine does.
  pending fetch(uint64_t ticket, std::chrono::milliseconds deadline = 2s) {
    pending answer;
    answer.asker = engine->world.system.spawn(
        [to = kv_fetch_actor{sut}, what = order(ticket, deadline),
         state = answer.state](caf::event_based_actor* self) -> caf::behavior {
          self->request(to, caf::infinite, what)
              .then([state](const wire::msg<wire::KvFetched>& m) { state->emplace(m); },
                    [state](const caf::error& e) { state->emplace(from_caf(e)); });
          return {[](int) {}};
        });
    world.run();
    return answer;
  }

  void release(uint64_t ticket, uint32_t used) {
    wire::draft<wire::KvFetchRelease> out;
    out->initTicket().setLo(ticket);
    out->setUsedBlocks(used);
    engine->world.self->send(kv_fetch_actor{sut}, out.freeze());
    world.run();
  }

  /// The answer's blocks are the chain's first `count`, byte for byte.
  void check_blocks(const wire::msg<wire::KvFetched>& answer, uint32_t count) {
    storage::arena_views views;
    const auto got = open_fetched(views, answer.get());
    REQUIRE(got);
    REQUIRE(got->blocks.size() == count);
    for (uint32_t i = 0; i < count; ++i) {
      const auto want = test::bytes_of(chain.keys[i], 1000);
      CHECK(std::equal(want.begin(), want.end(), got->blocks[i].bytes.begin(),
                       got->blocks[i].bytes.end()));
      CHECK(storage::block_checksum(chain.keys[i], got->blocks[i].bytes) ==
            got->blocks[i].checksum);
    }
  }

  holder stores[2];
  test::remote_world world;
  test::remote_node* nodes[2] = {};
  test::remote_node* engine = nullptr;
  kv_fetch_impl_actor sut;
  test::block_chain chain = test::make_chain("tenant", 1, 7);
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("it says how many of the cluster's stores it could read from") {
    fetch_world w;
    const auto told = [&w] {
      const auto info = w.world.ask<wire::msg<wire::ActorInfo>>(*w.engine, kv_fetch_actor{w.sut},
                                                                wire::msg<wire::Inspect>{});
      REQUIRE(info);
      for (const auto counter : info->get().getCounters())
        if (counter.getName() == "stores") return counter.getValue();
      return int64_t{-1};
    };
    CHECK(told() == 0);
    caf::anon_send(w.sut, test::members_of({{"kvstore", w.stores[0].self, {}},
                                            {"kv_check", w.stores[0].self, {}},
                                            {"kvstore", w.stores[1].self, {}}}));
    w.world.run();
    CHECK(told() == 2);
    w.world.network.kill("store1:1");
    w.world.advance(5s);
    CHECK(told() == 1);
    caf::anon_send(w.sut, test::members_of({}));
    w.world.run();
    CHECK(told() == 0);
  }

  TEST_CASE("blocks of a store lie in shared memory, verified, and its memory is free at once") {
    fetch_world w;
    const auto answer = w.fetch(1);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 7);
    CHECK(answer.get()->get().getArenaEpoch() == 77);
    CHECK(answer.get()->get().getWhy().getCode() == 0);
    CHECK(w.stores[0].staged == 0);
    CHECK(w.stores[0].open_leases == 2);
    w.release(1, 7);
    CHECK(w.stores[0].open_leases == 0);
    CHECK(w.stores[0].used_closes == 2);
  }

  TEST_CASE("the same hit again does not read the store") {
    fetch_world w;
    REQUIRE(w.fetch(1).ready());
    w.release(1, 7);
    const uint32_t reads = w.stores[0].reads_asked;
    const auto again = w.fetch(2);
    REQUIRE(again.ready());
    w.check_blocks(*again.get(), 7);
    CHECK(w.stores[0].reads_asked == reads);
  }

  TEST_CASE("a store whose bytes are not those of the checksum is reported, the replica is read") {
    fetch_world w;
    w.stores[0].lies = true;
    const auto answer = w.fetch(1);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 7);
    CHECK(w.stores[0].reports > 0);
    CHECK(w.stores[0].staged == 0);
  }

  TEST_CASE("when every store lies no block is handed out") {
    fetch_world w;
    w.stores[0].lies = w.stores[1].lies = true;
    const auto answer = w.fetch(1);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 0);
    CHECK(answer.get()->get().getWhy().getCode() == static_cast<uint16_t>(error_code::corrupt));
  }

  TEST_CASE("a store that says nothing costs its time only") {
    fetch_world w;
    w.stores[0].opens = false;
    const auto answer = w.fetch(1);
    CHECK_FALSE(answer.ready());
    w.world.advance(300ms);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 7);
  }

  TEST_CASE("a read that never ends is asked for at the replica") {
    fetch_world w;
    w.stores[0].reads = false;
    const auto answer = w.fetch(1, 5s);
    w.world.advance(700ms);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 7);
  }

  TEST_CASE("a store that dies over a fetch is replaced by the next one") {
    fetch_world w;
    w.stores[0].reads = false;
    const auto answer = w.fetch(1, 5s);
    CHECK_FALSE(answer.ready());
    w.nodes[0]->transport->stop();
    w.world.advance(100ms);
    REQUIRE(answer.ready());
    w.check_blocks(*answer.get(), 7);
  }

  TEST_CASE("at the deadline the blocks in front of what did not come are kept") {
    fetch_world w;
    for (holder& h : w.stores) h.forgets_after = 5;
    w.stores[1].blocks.clear();
    const auto answer = w.fetch(1);
    w.world.advance(2s);
    REQUIRE(answer.ready());
    const auto got = answer.get()->get();
    CHECK(got.getBlocks().size() > 0);
    CHECK(got.getBlocks().size() < 7);
    w.check_blocks(*answer.get(), got.getBlocks().size());
    CHECK(got.getWhy().getCode() != 0);
  }

  TEST_CASE("an asker that ends lets go of all it was given") {
    fetch_world w;
    const auto answer = w.fetch(1);
    REQUIRE(answer.ready());
    w.world.advance(100ms);
    CHECK(w.stores[0].open_leases == 2);
    caf::anon_send_exit(answer.asker, caf::exit_reason::kill);
    w.world.run();
    CHECK(w.stores[0].open_leases == 0);
    CHECK(w.stores[0].used_closes == 0);
  }

  TEST_CASE("a malformed order is refused") {
    fetch_world w;
    wire::draft<wire::KvFetch> out;
    out->setKeys(capnp::Data::Reader{});
    auto answer =
        w.engine->world.start_ask<wire::msg<wire::KvFetched>>(kv_fetch_actor{w.sut}, out.freeze());
    w.world.run();
    REQUIRE(answer.ready());
    CHECK(answer.get().error().code == error_code::invalid_argument);
  }
}
