#include "actors/cache/kv_writer.hpp"
#include "tests/actor/cache/store_site.hpp"

#include <doctest/doctest.h>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A writer on the client's node of a store.
struct written_site : store_site {
  written_site() {
    open();
    kv_writer_setup setup;
    setup.config.staging_bytes = 1 << 20;
    setup.hub = &peer.hub;
    setup.transport = peer.transport.get();
    setup.writer = {77, 5};
    setup.budget = budget;
    writer = peer.world.system.spawn(kv_writer, setup);
    tell_members();
    hasher.emplace(root, model::cache_block_tokens);
    rng random{3};
    tokens.resize(20 * model::cache_block_tokens);
    for (int32_t& id : tokens) id = static_cast<int32_t>(random.below(1000));
    REQUIRE(hasher->append(tokens, {}, keys));
  }
  ~written_site() {
    caf::anon_send_exit(writer, caf::exit_reason::user_shutdown);
    run();
  }

  void tell_members() {
    wire::draft<wire::Members> out;
    out->initSelf().setHi(peer.id().hi);
    out->getSelf().setLo(peer.id().lo);
    auto record = out->initRecords(1)[0];
    record.initId().setHi(home.id().hi);
    record.getId().setLo(home.id().lo);
    auto service = record.initServices(1)[0];
    service.setKind("kvstore");
    write_ref(service.initActor(), *home.hub.export_actor(kv_store_actor{local}));
    caf::anon_send(writer, out.freeze());
    advance(milliseconds{10});
  }

  /// Blocks [from, to) of the sequence, which lie in one group of eight.
  void persist(uint32_t from, uint32_t to) {
    auto blocks = std::make_shared<std::vector<model::state_part>>();
    for (uint32_t i = from; i < to; ++i)
      blocks->push_back({model::part_kind::block, i, bytes_of(keys[i], 900)});
    persist_blocks out;
    out.line = {root, 9, 3, storage::traffic_class::chat, 8};
    out.first_block = from;
    out.parent = from == 0 ? root : keys[from - 1];
    out.head = keys[from / 8 * 8];
    out.keys.assign(keys.begin() + from, keys.begin() + to);
    out.tokens.assign(tokens.begin() + from * model::cache_block_tokens,
                      tokens.begin() + to * model::cache_block_tokens);
    out.blocks = blocks;
    REQUIRE(budget->take(uint64_t{to - from} * 900));
    caf::anon_send(writer, out);
    advance(seconds{1});
  }

  wire::msg<wire::KvOpened> open_blocks(uint32_t from, uint32_t to) {
    wire::draft<wire::KvOpen> out;
    const auto data = keys_as_data(std::span{keys}.subspan(from, to - from));
    out->setKeys({reinterpret_cast<const kj::byte*>(data.data()), data.size()});
    const auto part = std::span{tokens}.subspan(size_t{from} * model::cache_block_tokens,
                                                size_t{to - from} * model::cache_block_tokens);
    out->setTokens({reinterpret_cast<const kj::byte*>(part.data()), part.size_bytes()});
    out->setFirstDepth(from);
    const auto got = net.ask<wire::msg<wire::KvOpened>>(peer, store, out.freeze());
    REQUIRE(got);
    return *got;
  }

  int64_t writer_gauge(const std::string& name) {
    const auto info = net.ask<wire::msg<wire::ActorInfo>>(peer, writer, wire::msg<wire::Inspect>{});
    REQUIRE(info);
    for (const auto counter : info->get().getCounters())
      if (counter.getName() == name.c_str()) return counter.getValue();
    return 0;
  }

  storage::block_key root{1, 2};
  std::optional<storage::chain_hasher> hasher;
  std::vector<int32_t> tokens;
  std::vector<storage::block_key> keys;
  std::shared_ptr<persist_budget> budget = std::make_shared<persist_budget>(1 << 20);
  kv_writer_actor writer;
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("what a writer was given is read back from a store, byte for byte") {
    written_site site;
    site.persist(0, 5);
    site.persist(5, 8);
    site.persist(8, 12);  // the next group
    CHECK(site.writer_gauge("stored") == 12);
    CHECK(site.writer_gauge("staged_bytes") == 0);
    CHECK(site.budget->used() == 0);
    for (const uint32_t from : {0u, 8u}) {
      const uint32_t count = from == 0 ? 8 : 4;
      const auto opened = site.open_blocks(from, from + 8);
      REQUIRE(opened.get().getBlocks() == count);
      const auto done = site.read(opened.get(), std::span{site.keys}.subspan(from, count));
      for (uint32_t i = 0; i < count; ++i) {
        const auto block = done.get().getBlocks()[i];
        REQUIRE(block.getStatus() == wire::KvReadStatus::OK);
        CHECK(site.pull(block.getBytes()) == bytes_of(site.keys[from + i], 900));
      }
    }
  }

  TEST_CASE("a store that starts again takes the rest of a group, whose parents it has kept") {
    written_site site;
    site.persist(0, 3);
    site.end();
    site.open();
    site.tell_members();
    site.persist(3, 5);
    CHECK(site.writer_gauge("stored") == 5);
    CHECK(site.writer_gauge("dropped") == 0);
    CHECK(site.writer_gauge("stores") == 1);
    CHECK(site.open_blocks(0, 8).get().getBlocks() == 5);
  }

  TEST_CASE("blocks whose parents the store never had are dropped, the next group is stored") {
    written_site site;
    site.persist(2, 4);
    CHECK(site.writer_gauge("dropped_no_parent") == 2);
    site.persist(4, 5);
    CHECK(site.writer_gauge("dropped_orphan") == 1);
    site.persist(8, 10);
    CHECK(site.writer_gauge("stored") == 2);
    site.persist(0, 5);  // the next turn brings all of it
    CHECK(site.writer_gauge("stored") == 7);
  }
}
