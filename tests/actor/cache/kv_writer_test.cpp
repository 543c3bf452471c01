#include "actors/cache/kv_writer.hpp"

#include "tests/actor/cache/scripted_store.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t block_bytes = 300;

/// An engine's node with a writer, and stores on nodes of their own.
struct writer_world {
  explicit writer_world(kv_writer_config config = {}) {
    config.staging_bytes = 1 << 20;
    kv_writer_setup setup;
    setup.config = config;
    setup.hub = &home.hub;
    setup.transport = home.transport.get();
    setup.writer = {77, 5};
    setup.budget = budget;
    writer = home.world.system.spawn(kv_writer, setup);
    world.run();
  }

  /// The writer's memory is registered with a transport that ends with its node.
  ~writer_world() {
    caf::anon_send_exit(writer, caf::exit_reason::user_shutdown);
    world.run();
  }

  std::shared_ptr<store_script> add_store(const std::string& address, uint64_t id) {
    remote_node& node = world.start(address);
    auto script = std::make_shared<store_script>();
    script->where = home.id();
    script->transport = node.transport.get();
    script->id = {id, id};
    life(address, node, script);
    return script;
  }

  void life(const std::string& address, remote_node& node, std::shared_ptr<store_script> script) {
    const kv_store_actor store = node.world.system.spawn(scripted_store, script);
    services[address] = *node.hub.export_actor(store);
    tell_members();
  }

  void tell_members() {
    wire::draft<wire::Members> out;
    out->initSelf().setHi(home.id().hi);
    out->getSelf().setLo(home.id().lo);
    auto records = out->initRecords(static_cast<uint32_t>(services.size()));
    uint32_t i = 0;
    for (const auto& [address, ref] : services) {
      auto record = records[i++];
      record.initId().setHi(ref.node.hi);
      record.getId().setLo(ref.node.lo);
      auto service = record.initServices(1)[0];
      service.setKind("kvstore");
      write_ref(service.initActor(), ref);
    }
    caf::anon_send(writer, out.freeze());
    world.advance(milliseconds{10});
  }

  /// Blocks first .. first + count - 1 of a chain, all of one group; false: no budget.
  bool persist(int32_t chain, uint32_t first, uint32_t count) {
    std::vector<int32_t> tokens((first + count) * model::cache_block_tokens);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = chain + static_cast<int32_t>(i % 50);
    std::vector<storage::block_key> keys;
    const storage::block_key root{1, 2};
    storage::chain_hasher hasher{root, model::cache_block_tokens};
    REQUIRE(hasher.append(tokens, {}, keys));
    auto blocks = std::make_shared<std::vector<model::state_part>>();
    for (uint32_t i = first; i < first + count; ++i)
      blocks->push_back({model::part_kind::block, i,
                         std::vector<std::byte>(block_bytes, std::byte(chain + int32_t(i)))});
    persist_blocks out;
    out.line = {root, 9, 3, storage::traffic_class::agent, 4};
    out.first_block = first;
    out.parent = first == 0 ? root : keys[first - 1];
    out.head = keys[first / 4 * 4];
    out.keys.assign(keys.begin() + first, keys.end());
    out.tokens.assign(tokens.begin() + first * model::cache_block_tokens, tokens.end());
    out.blocks = blocks;
    if (!budget->take(uint64_t{count} * block_bytes)) return false;
    caf::anon_send(writer, out);
    world.advance(milliseconds{10});
    return true;
  }

  std::map<std::string, int64_t> gauges() {
    const auto info =
        world.ask<wire::msg<wire::ActorInfo>>(home, writer, wire::draft<wire::Inspect>{}.freeze());
    REQUIRE(info);
    std::map<std::string, int64_t> all;
    for (const auto counter : info->get().getCounters())
      all[counter.getName().cStr()] = counter.getValue();
    return all;
  }

  remote_world world;
  remote_node& home = world.start("engine");
  std::shared_ptr<persist_budget> budget = std::make_shared<persist_budget>(100 * block_bytes);
  kv_writer_actor writer;
  std::map<std::string, actor_ref> services;
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("blocks reach the store whole, named by their chain, under the writer's life") {
    writer_world w;
    CHECK_FALSE(w.persist(100, 0, 3));  // no store is known: not even taken
    const auto store = w.add_store("store", 1);
    REQUIRE(w.persist(100, 0, 3));
    REQUIRE(store->puts.size() == 1);
    const auto put = store->puts[0].get();
    CHECK(put.getWriter() == 77);
    CHECK(put.getWriterEpoch() == 5);
    CHECK(put.getScope() == 3);
    CHECK(put.getTraffic() == static_cast<uint8_t>(storage::traffic_class::agent));
    CHECK(put.getBlocks()[2].getDepth() == 2);
    CHECK(store->blocks.size() == 3);
    CHECK(store->damaged == 0);
    CHECK(w.gauges()["stored"] == 3);
    CHECK(w.gauges()["stored_bytes"] == 3 * block_bytes);
    CHECK(w.gauges()["staged_bytes"] == 0);
    CHECK(w.budget->used() == 0);
    REQUIRE(w.persist(100, 3, 1));  // the group goes on
    CHECK(store->blocks.size() == 4);
    REQUIRE(w.persist(100, 0, 3));  // known: nothing is sent
    CHECK(store->puts.size() == 2);
    CHECK(w.gauges()["known"] == 3);
  }

  TEST_CASE("a slow store holds its bytes in the budget until it answers, or its deadline") {
    kv_writer_config config;
    config.put_deadline = seconds{2};
    config.left_out = seconds{5};
    writer_world w{config};
    const auto store = w.add_store("store", 1);
    store->answers = false;
    REQUIRE(w.persist(100, 0, 2));
    CHECK(w.budget->used() == 2 * block_bytes);
    w.world.advance(seconds{1});
    store->open[0].deliver(put_verdicts(store->puts[0], wire::KvPutOutcome::STORED));
    w.world.run();
    CHECK(w.budget->used() == 0);
    REQUIRE(w.persist(200, 0, 2));
    w.world.advance(seconds{4});  // never
    CHECK(w.budget->used() == 0);
    CHECK(w.gauges()["dropped_unreachable"] == 2);
    CHECK(w.gauges()["puts_unanswered"] == 1);
    CHECK(w.gauges()["in_flight"] == 0);
    REQUIRE(w.persist(300, 0, 1));
    CHECK(store->puts.size() == 2);  // left out
    CHECK(w.gauges()["dropped_no_store"] == 1);
    store->answers = true;
    w.world.advance(seconds{5});
    REQUIRE(w.persist(400, 0, 1));
    CHECK(store->puts.size() == 3);
    w.world.advance(seconds{5});
    CHECK(w.gauges()["staged_bytes"] == 0);  // the lease of the unanswered one has ended
  }

  TEST_CASE("over the budget nothing is taken; what the stores answer makes room") {
    writer_world w;
    const auto store = w.add_store("store", 1);
    store->answers = false;
    for (int32_t chain = 0; chain < 25; ++chain) REQUIRE(w.persist(100 + 60 * chain, 0, 4));
    CHECK_FALSE(w.persist(9000, 0, 1));
    CHECK(store->puts.size() == 4);  // puts_per_store
    CHECK(w.gauges()["queue_bytes"] == 100 * block_bytes);
    store->answers = true;
    for (size_t i = 0; i < 4; ++i)
      store->open[i].deliver(put_verdicts(store->puts[i], wire::KvPutOutcome::STORED));
    w.world.advance(milliseconds{10});
    CHECK(w.budget->used() == 0);
    CHECK(store->blocks.size() == 100);
    CHECK(w.persist(9000, 0, 1));
  }

  TEST_CASE("a full store, a quota and a missing parent drop blocks, each counted by its reason") {
    writer_world w;
    const auto store = w.add_store("store", 1);
    store->outcome = wire::KvPutOutcome::FULL;
    REQUIRE(w.persist(100, 0, 2));
    REQUIRE(w.persist(100, 2, 1));  // behind it
    CHECK(store->puts.size() == 1);
    store->outcome = wire::KvPutOutcome::OVER_QUOTA;
    REQUIRE(w.persist(200, 0, 1));
    store->outcome = wire::KvPutOutcome::NO_PARENT;
    REQUIRE(w.persist(300, 1, 1));
    store->outcome = wire::KvPutOutcome::DIVERGED;
    REQUIRE(w.persist(400, 0, 1));
    auto gauges = w.gauges();
    CHECK(gauges["dropped_full"] == 2);
    CHECK(gauges["dropped_orphan"] == 1);
    CHECK(gauges["dropped_quota"] == 1);
    CHECK(gauges["dropped_no_parent"] == 1);
    CHECK(gauges["diverged"] == 1);
    CHECK(gauges["dropped"] == 5);
    CHECK(w.budget->used() == 0);
  }

  TEST_CASE("a store that dies over a put: its blocks go to another one") {
    writer_world w;
    const auto one = w.add_store("one", 1);
    const auto two = w.add_store("two", 2);
    one->answers = two->answers = false;
    REQUIRE(w.persist(100, 0, 2));
    const bool first = !one->puts.empty();
    const auto& dead = first ? one : two;
    const auto& other = first ? two : one;
    const std::string address = first ? "one" : "two";
    REQUIRE(dead->puts.size() == 1);
    other->answers = true;
    w.world.network.kill(address);
    w.world.advance(seconds{3});
    CHECK(other->blocks.size() == 2);
    CHECK(w.gauges()["stored"] == 2);
    w.services.erase(address);
    w.tell_members();
    CHECK(w.gauges()["stores"] == 1);
  }

  TEST_CASE("a restarted store takes its place again, its old life leaves without harm") {
    writer_world w;
    const auto store = w.add_store("store", 1);
    REQUIRE(w.persist(100, 0, 2));
    remote_node& again = w.world.start("store again");
    auto next = std::make_shared<store_script>(*store);
    next->transport = again.transport.get();
    next->epoch = 2;
    w.life("store again", again, next);
    w.services.erase("store");
    w.tell_members();
    CHECK(w.gauges()["stores"] == 1);
    const size_t before = next->puts.size();
    REQUIRE(w.persist(100, 2, 1));
    CHECK(next->puts.size() == before + 1);
    CHECK(w.gauges()["dropped"] == 0);
  }

  TEST_CASE("after a link to a store was lost and is back, blocks reach that life again") {
    kv_writer_config config;
    config.left_out = seconds{5};
    writer_world w{config};
    const auto store = w.add_store("store", 1);
    REQUIRE(w.persist(100, 0, 2));
    REQUIRE(store->puts.size() == 1);
    w.world.network.partition({"engine"}, {"store"});
    w.world.advance(seconds{10});
    REQUIRE(w.persist(200, 0, 1));  // nobody to send it to: dropped at once, not kept
    CHECK(w.budget->used() == 0);
    CHECK(store->puts.size() == 1);
    CHECK(w.gauges()["dropped"] == 1);
    CHECK(w.gauges()["staged_bytes"] == 0);
    // The member table is the same as before: it was shorter than a death, and nobody tells it.
    w.world.network.heal();
    w.home.transport->dial("store");
    w.world.advance(seconds{6});
    CHECK(w.gauges()["stores"] == 1);
    REQUIRE(w.persist(300, 0, 2));
    CHECK(store->puts.size() == 2);
    CHECK(store->blocks.size() == 4);
    CHECK(w.gauges()["stored"] == 4);
    CHECK(w.gauges()["dropped"] == 1);
  }

  TEST_CASE("a store that does not say who it is gets nothing until it does") {
    writer_world w;
    remote_node& node = w.world.start("mute");
    auto script = std::make_shared<store_script>();
    script->where = w.home.id();
    script->transport = node.transport.get();
    script->speaks = false;
    w.life("mute", node, script);
    CHECK_FALSE(w.budget->is_open());
    script->speaks = true;
    w.world.advance(seconds{12});
    CHECK(w.budget->is_open());
    CHECK(w.persist(100, 0, 1));
    CHECK(script->blocks.size() == 1);
  }

  TEST_CASE("a drain is answered when all that was taken is stored or dropped") {
    writer_world w;
    const auto store = w.add_store("store", 1);
    store->answers = false;
    REQUIRE(w.persist(100, 0, 2));
    const auto drained = w.home.world.start_ask<wire::msg<wire::Ack>>(w.writer, drain_writer{});
    w.world.advance(seconds{1});
    CHECK_FALSE(drained.ready());
    store->open[0].deliver(put_verdicts(store->puts[0], wire::KvPutOutcome::STORED));
    w.world.run();
    CHECK(drained.ready());
    const auto empty = w.world.ask<wire::msg<wire::Ack>>(w.home, w.writer, drain_writer{});
    CHECK(empty);
  }

  TEST_CASE("a purge is answered when nothing of its scope is on its way any more") {
    kv_writer_config config;
    config.puts_per_store = 1;
    writer_world w{config};
    const auto store = w.add_store("store", 1);
    store->answers = false;
    REQUIRE(w.persist(100, 0, 2));
    REQUIRE(w.persist(300, 0, 3));  // waits for the first
    const auto purge = [&w](uint64_t scope) {
      wire::draft<wire::KvPurge> out;
      out->setScope(scope);
      return w.home.world.start_ask<wire::msg<wire::KvPurged>>(w.writer, out.freeze());
    };
    const auto strange = purge(4);
    const auto purged = purge(3);
    w.world.advance(seconds{1});
    REQUIRE(strange.ready());
    CHECK(strange.get()->get().getBlocks() == 0);
    CHECK_FALSE(purged.ready());
    CHECK(w.gauges()["dropped_purged"] == 3);
    CHECK(w.budget->used() == 2 * block_bytes);
    store->answers = true;
    store->open[0].deliver(put_verdicts(store->puts[0], wire::KvPutOutcome::STORED));
    w.world.run();
    REQUIRE(purged.ready());
    CHECK(purged.get()->get().getBlocks() == 3);
    CHECK(w.budget->used() == 0);
    CHECK(store->puts.size() == 1);
    REQUIRE(w.persist(100, 0, 2));  // what it has stored counts as known no more
    CHECK(store->puts.size() == 2);
  }

  TEST_CASE("a purge over a store that never answers ends with the put's deadline") {
    kv_writer_config config;
    config.put_deadline = seconds{2};
    writer_world w{config};
    const auto store = w.add_store("store", 1);
    store->answers = false;
    REQUIRE(w.persist(100, 0, 2));
    wire::draft<wire::KvPurge> out;
    out->setScope(3);
    const auto purged = w.home.world.start_ask<wire::msg<wire::KvPurged>>(w.writer, out.freeze());
    w.world.advance(seconds{4});
    CHECK(purged.ready());
    CHECK(store->puts.size() == 1);
  }

  TEST_CASE("a group that can never be staged is dropped, and does not block those behind it") {
    writer_world w;
    const auto store = w.add_store("store", 1);
    persist_blocks out;
    const storage::block_key root{1, 2};
    out.line = {root, 9, 3, storage::traffic_class::chat, 4};
    out.parent = root;
    out.tokens.assign(model::cache_block_tokens, 3);
    out.keys = {storage::key_of(root, storage::content_of(out.tokens, 0, {}))};
    out.head = out.keys[0];
    out.blocks = std::make_shared<std::vector<model::state_part>>(
        1, model::state_part{model::part_kind::block, 0, std::vector<std::byte>((1 << 20) + 1)});
    caf::anon_send(w.writer, out);
    w.world.run();
    CHECK(w.gauges()["dropped_failed"] == 1);
    REQUIRE(w.persist(100, 0, 1));
    CHECK(store->blocks.size() == 1);
  }
}
