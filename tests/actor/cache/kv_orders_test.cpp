#include "actors/cache/kv_orders.hpp"

#include "actors/cache/kv_wire.hpp"
#include "actors/control/membership.hpp"
#include "tests/actor/cache/scripted_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using std::chrono::milliseconds;
using std::chrono::seconds;
using storage::scope_kind;

const storage::cache_scope bob{scope_kind::tenant, "bob"};

/// A service in the member table, and what its node is said to be.
struct named_service {
  std::string kind, node;
  actor_ref ref;
  storage::block_key store;
  wire::NodeState state = wire::NodeState::ALIVE;
};

wire::msg<wire::Members> table_of(const std::vector<named_service>& services, const node_id& self) {
  wire::draft<wire::Members> out;
  out->initSelf().setHi(self.hi);
  out->getSelf().setLo(self.lo);
  auto records = out->initRecords(static_cast<uint32_t>(services.size()));
  for (uint32_t i = 0; i < services.size(); ++i) {
    const named_service& s = services[i];
    records[i].initId().setHi(s.ref.node.hi);
    records[i].getId().setLo(s.ref.node.lo);
    records[i].setName(s.node);
    records[i].setState(s.state);
    auto service = records[i].initServices(1)[0];
    service.setKind(s.kind);
    write_ref(service.initActor(), s.ref);
    service.initStore().setHi(s.store.hi);
    service.getStore().setLo(s.store.lo);
  }
  return out.freeze();
}

/// Counts what it is told to let go of; answers when the test says.
struct holder_script {
  std::vector<uint64_t> purges;
  uint64_t blocks = 0, rings = 0;
  bool obeys = true;
  std::vector<std::string>* log = nullptr;
};

caf::typed_response_promise<wire::msg<wire::KvPurged>> obey(
    caf::typed_response_promise<wire::msg<wire::KvPurged>> promise,
    holder_script& script,
    wire::KvPurge::Reader order) {
  script.purges.push_back(order.getScope());
  if (!script.obeys) return promise;
  wire::draft<wire::KvPurged> out;
  out->setBlocks(script.blocks);
  out->setRings(script.rings);
  promise.deliver(out.freeze());
  return promise;
}

purgeable_actor::behavior_type scripted_writer(purgeable_actor::pointer self,
                                               const std::shared_ptr<holder_script>& script) {
  return {[self, script](const wire::msg<wire::KvPurge>& m) {
    return obey(self->make_response_promise<wire::msg<wire::KvPurged>>(), *script, m.get());
  }};
}

ring_host_actor::behavior_type scripted_host(ring_host_actor::pointer self,
                                             const std::shared_ptr<holder_script>& script) {
  using namespace wire;
  return {[](const msg<RingPull>&) { return msg<RingReady>{}; }, [](const msg<RingSubscribe>&) {},
          [](const msg<LeaseRelease>&) {},
          [self, script](const msg<KvPurge>& m) {
            return obey(self->make_response_promise<msg<KvPurged>>(), *script, m.get());
          },
          [](const msg<Inspect>&) { return msg<ActorInfo>{}; }};
}

membership_actor::behavior_type scripted_membership(
    membership_actor::pointer,
    const std::shared_ptr<std::vector<named_service>>& services,
    const node_id& self) {
  using namespace wire;
  return {[](const msg<Gossip>&) {},
          [services, self](const msg<MembersQuery>&) { return table_of(*services, self); },
          [](const msg<Inspect>&) { return msg<ActorInfo>{}; }};
}

struct orders_world {
  orders_world() {
    REQUIRE(home.hub.publish(
        membership_actor_number,
        membership_actor{home.world.system.spawn(scripted_membership, services, home.id())}));
    orders = home.world.system.spawn(kv_orders, kv_orders_setup{&home.hub, home.id(), nullptr});
    world.run();
  }

  std::shared_ptr<store_script> add_store(const std::string& address, uint64_t id) {
    remote_node& node = world.start(address);
    auto script = std::make_shared<store_script>();
    script->purged_blocks = 10 * id;
    const auto ref =
        node.hub.export_actor(kv_store_actor{node.world.system.spawn(scripted_store, script)});
    services->push_back({"kvstore", address, *ref, {id, id}});
    return script;
  }

  std::shared_ptr<holder_script> add_writer(const std::string& address) {
    remote_node& node = world.start(address);
    auto script = std::make_shared<holder_script>();
    const auto ref =
        node.hub.export_actor(purgeable_actor{node.world.system.spawn(scripted_writer, script)});
    services->push_back({"kv_writer", address, *ref, {}});
    return script;
  }

  std::shared_ptr<holder_script> add_host(const std::string& address) {
    remote_node& node = world.start(address);
    auto script = std::make_shared<holder_script>();
    const auto ref =
        node.hub.export_actor(ring_host_actor{node.world.system.spawn(scripted_host, script)});
    services->push_back({"ring_host", address, *ref, {}});
    return script;
  }

  template <class Order>
  auto start(const Order& order) {
    return home.world.start_ask<order_report>(orders, order);
  }

  template <class Order>
  order_report carry_out(const Order& order) {
    const auto answer = start(order);
    world.advance(seconds{5});
    REQUIRE(answer.ready());
    const auto report = answer.get();
    REQUIRE(report);
    return *report;
  }

  remote_world world;
  remote_node& home = world.start("console");
  std::shared_ptr<std::vector<named_service>> services =
      std::make_shared<std::vector<named_service>>();
  kv_orders_actor orders;
};

const order_outcome& of(const order_report& report, const std::string& node) {
  const auto found =
      std::find_if(report.outcomes.begin(), report.outcomes.end(),
                   [&node](const order_outcome& outcome) { return outcome.node == node; });
  REQUIRE(found != report.outcomes.end());
  return *found;
}

}  // namespace

TEST_SUITE("actors/cache/kv_orders") {
  TEST_CASE("a purge asks every store, host of rings and writer, of the scope that was named") {
    orders_world w;
    const auto one = w.add_store("one", 1);
    const auto two = w.add_store("two", 2);
    const auto host = w.add_host("host");
    const auto writer = w.add_writer("writer");
    host->rings = 3;
    writer->blocks = 2;
    const auto report = w.carry_out(purge_scope{bob});
    const auto scope = static_cast<uint64_t>(storage::id_of(bob));
    CHECK(one->orders == std::vector<std::string>{"purge " + std::to_string(scope)});
    CHECK(two->orders == one->orders);
    CHECK(host->purges == std::vector<uint64_t>{scope});
    CHECK(writer->purges == std::vector<uint64_t>{scope, scope});  // again, behind the stores
    CHECK(report.outcomes.size() == 4);
    for (const auto& outcome : report.outcomes) CHECK(outcome.problem.empty());
    CHECK(of(report, "one").blocks == 10);
    CHECK(of(report, "two").blocks == 20);
    CHECK(of(report, "two").bytes == 20'000);
    CHECK(of(report, "two").store == to_string(storage::block_key{2, 2}));
    CHECK(of(report, "host").rings == 3);
  }

  TEST_CASE("no store is asked before the writers have let go") {
    orders_world w;
    const auto store = w.add_store("store", 1);
    const auto writer = w.add_writer("writer");
    writer->obeys = false;
    const auto answer = w.start(purge_scope{bob, seconds{10}});
    w.world.advance(seconds{3});
    CHECK(store->orders.empty());
    w.world.advance(
        seconds{2});  // its share of the time is over: the stores are asked all the same
    CHECK(store->orders.size() == 1);
    REQUIRE(answer.ready());
    const auto report = answer.get();
    CHECK(of(*report, "writer").problem == "no answer in time");
    CHECK(of(*report, "store").problem.empty());
  }

  TEST_CASE("a slow store and one that refuses are named, the rest is done, within the time") {
    orders_world w;
    const auto good = w.add_store("good", 1);
    const auto slow = w.add_store("slow", 2);
    const auto full = w.add_store("full", 3);
    slow->obeys = false;
    full->purge_fails = true;
    const auto answer = w.start(purge_scope{bob, seconds{8}});
    w.world.advance(seconds{5});
    CHECK_FALSE(answer.ready());
    w.world.advance(seconds{3});
    REQUIRE(answer.ready());
    const auto report = answer.get();
    CHECK(of(*report, "good").blocks == 10);
    CHECK(of(*report, "good").problem.empty());
    CHECK(of(*report, "slow").problem == "no answer in time");
    CHECK(of(*report, "full").problem == "its disk is full");
    CHECK(of(*report, "full").blocks == 0);
    slow->obeys = true;
    full->purge_fails = false;
    for (const auto& outcome : w.carry_out(purge_scope{bob}).outcomes)
      CHECK(outcome.problem.empty());  // it may be repeated
  }

  TEST_CASE("a store whose node is down is named until the same store is back elsewhere") {
    orders_world w;
    w.add_store("here", 1);
    auto gone = w.services->front();
    gone.node = "gone";
    gone.ref.node = {0xdead, 1};
    gone.store = {7, 7};
    for (const auto state : {wire::NodeState::DEAD, wire::NodeState::LEFT}) {
      gone.state = state;
      w.services->push_back(gone);
      const auto report = w.carry_out(purge_scope{bob});
      CHECK(of(report, "gone").problem.starts_with("its node is down"));
      CHECK(of(report, "here").problem.empty());
      w.services->pop_back();
    }
    w.services->push_back(gone);
    w.add_store("back", 7);
    CHECK(w.carry_out(purge_scope{bob}).outcomes.size() == 2);
  }

  TEST_CASE(
      "a node that cannot be reached fails its part at once; rings of the dead are no concern") {
    orders_world w;
    w.add_store("store", 1);
    auto far = w.services->front();
    far.node = "far";
    far.ref.node = {0xfa5, 1};
    far.store = {8, 8};
    w.services->push_back(far);
    auto host = far;
    host.kind = "ring_host";
    host.node = "dead host";
    host.state = wire::NodeState::DEAD;
    w.services->push_back(host);
    const auto answer = w.start(purge_scope{bob});
    w.world.run();
    REQUIRE(answer.ready());
    CHECK_FALSE(of(*answer.get(), "far").problem.empty());
    CHECK(answer.get()->outcomes.size() == 2);
  }

  TEST_CASE("clocks are acknowledged where they stand, and only there") {
    orders_world w;
    const auto one = w.add_store("one", 1);
    const auto two = w.add_store("two", 2);
    two->clock_frozen = true;
    const auto report = w.carry_out(acknowledge_clocks{});
    CHECK(one->orders.empty());
    CHECK(two->orders == std::vector<std::string>{"acknowledge"});
    CHECK_FALSE(of(report, "one").was_frozen);
    CHECK(of(report, "two").was_frozen);
    CHECK_FALSE(of(w.carry_out(acknowledge_clocks{}), "two").was_frozen);
  }

  TEST_CASE("a store that does not say how its clock is, is named") {
    orders_world w;
    const auto mute = w.add_store("mute", 1);
    mute->speaks = false;
    const auto answer = w.start(acknowledge_clocks{seconds{4}});
    w.world.advance(seconds{5});
    REQUIRE(answer.ready());
    CHECK(of(*answer.get(), "mute").problem == "no answer in time");
  }

  TEST_CASE("more orders at once than the limit are refused") {
    orders_world w;
    const auto store = w.add_store("store", 1);
    store->obeys = false;
    for (int i = 0; i < 16; ++i) static_cast<void>(w.start(purge_scope{bob, seconds{10}}));
    const auto over = w.start(purge_scope{bob, seconds{10}});
    w.world.run();
    REQUIRE(over.ready());
    REQUIRE_FALSE(over.get());
    CHECK(over.get().error().code == error_code::no_capacity);
    w.world.advance(seconds{10});
    store->obeys = true;
    CHECK(w.carry_out(purge_scope{bob}).outcomes.size() == 1);
  }
}
