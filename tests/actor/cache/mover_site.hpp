#pragma once

#include "actors/cache/kv_io.hpp"
#include "actors/cache/kv_mover.hpp"
#include "actors/cache/kv_store.hpp"
#include "actors/cache/kv_wire.hpp"
#include "storage/memory/memory_store.hpp"
#include "tests/actor/cache/held_io.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/remote_world.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

/// Several stores with their movers, each on a node of its own, in virtual time.
namespace deepinfer::test {

inline constexpr uint32_t mover_group = 8;

/// What lies on the disk of a store, and one life of it.
struct moving_store {
  explicit moving_store(uint64_t number)
      : id{number, number + 100},
        address("10.0.0." + std::to_string(number) + ":1"),
        medium(number) {}

  storage::store_id id;
  std::string address;
  storage::memory_medium medium;
  uint64_t capacity = 16 << 20;
  uint64_t own_weight =
      0;  ///< that its mover gives it, other than it tells others; 0: the capacity
  uint32_t replicas = 1, group_blocks = mover_group;
  kv_mover_config config;
  held_io moving_io;  ///< of the mover

  remote_node* node = nullptr;  ///< null: does not live
  kv_backing backing;
  kv_store_impl_actor store;
  kv_mover_actor mover;

  [[nodiscard]] storage::block_store& blocks() const { return *backing.store; }
};

class mover_site {
public:
  using seconds = std::chrono::seconds;

  explicit mover_site(const net::loop_options& network = remote_world::instant())
      : net(1, network) {}
  ~mover_site() {
    for (const auto& [number, one] : stores) end(*one);
  }

  /// Settings that tests change before they start a store.
  kv_mover_config config = quick();
  uint32_t replicas = 1;

  static kv_mover_config quick() {
    kv_mover_config made;
    made.settle = seconds{2};
    made.gone_after = seconds{60};
    made.strays_every = seconds{20};
    made.copies_every = std::chrono::hours{1};
    made.linger = seconds{3};
    made.left_out = seconds{1};
    made.put_deadline = seconds{2};
    made.staging_bytes = 1 << 20;
    return made;
  }

  moving_store& make(uint64_t number) {
    auto& made = stores[number];
    if (!made) {
      made = std::make_unique<moving_store>(number);
      made->config = config;
      made->replicas = replicas;
    }
    return *made;
  }

  /// A store's next life; everybody hears of it.
  moving_store& start(uint64_t number) {
    moving_store& one = make(number);
    one.node = &net.start(one.address);
    one.medium.process_died();
    spawn(one);
    tell();
    return one;
  }

  /// kill -9.
  void kill(uint64_t number) {
    net.network.kill(stores.at(number)->address);
    end(*stores.at(number));
    tell();
  }

  /// The member table as it is now, to all movers.
  void tell() {
    for (const auto& [number, one] : stores)
      if (one->node != nullptr) caf::anon_send(one->mover, members_for(*one));
    run();
  }

  void run() { net.run(); }
  void advance(std::chrono::nanoseconds time) { net.advance(time); }

  /// Blocks [from, to) of a chain, into a store directly.
  uint32_t put(uint64_t number, const block_chain& chain, uint32_t from, uint32_t to) {
    const moving_store& one = *stores.at(number);
    return chain_writer{one.blocks()}.put(chain, from, to, clocks(one));
  }
  [[nodiscard]] static storage::clock_reading clocks(const moving_store& one) {
    return at(std::chrono::duration_cast<std::chrono::milliseconds>(one.node->world.now()));
  }

  /// The stores that have this block; that its bytes are right is checked.
  std::set<uint64_t> holders(const block_chain& chain, uint32_t index) {
    std::set<uint64_t> found;
    for (const auto& [number, one] : stores) {
      if (one->node == nullptr) continue;
      if (one->blocks().places({&chain.keys[index], 1}).front().length == 0) continue;
      found.insert(number);
      std::vector<std::byte> bytes(chain.length);
      const storage::read_item item{chain.keys[index], bytes};
      const auto read = one->blocks().read({&item, 1}, {}, clocks(*one));
      REQUIRE(read);
      if (read->front().status == storage::read_status::ok)
        REQUIRE(bytes == bytes_of(chain.keys[index], chain.length));
    }
    return found;
  }

  /// Where placement wants the group of a block, over the stores that live.
  [[nodiscard]] std::set<uint64_t> owners(const block_chain& chain, uint32_t index) const {
    std::vector<policy::store_site> sites;
    std::vector<uint64_t> numbers;
    for (const auto& [number, one] : stores) {
      if (one->node == nullptr) continue;
      sites.push_back({one->id.hi, one->id.lo, one->capacity});
      numbers.push_back(number);
    }
    std::set<uint64_t> found;
    for (const uint32_t i :
         policy::owners(chain.keys[index / mover_group * mover_group], sites, replicas))
      found.insert(numbers[i]);
    return found;
  }
  /// Every block lies exactly on its owners.
  void check_placed(const block_chain& chain, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks; ++i) {
      CAPTURE(i);
      CHECK(holders(chain, i) == owners(chain, i));
    }
  }

  int64_t gauge(uint64_t number, const std::string& name) {
    moving_store& one = *stores.at(number);
    return figure(one, one.mover, name);
  }
  int64_t store_gauge(uint64_t number, const std::string& name) {
    moving_store& one = *stores.at(number);
    return figure(one, one.store, name);
  }
  int64_t sum(const std::string& name) {
    int64_t all = 0;
    for (const auto& [number, one] : stores)
      if (one->node != nullptr) all += gauge(number, name);
    return all;
  }

  /// As by an order that reaches this store alone.
  void purge(uint64_t number, storage::scope_id scope) {
    moving_store& one = *stores.at(number);
    wire::draft<wire::KvPurge> out;
    out->setScope(static_cast<uint64_t>(scope));
    one.node->world.self->send(one.store, out.freeze());
    net.run();
  }

  remote_world net;
  std::map<uint64_t, std::unique_ptr<moving_store>> stores;

private:
  template <class Handle>
  int64_t figure(moving_store& one, const Handle& actor, const std::string& name) {
    const auto info =
        net.ask<wire::msg<wire::ActorInfo>>(*one.node, actor, wire::msg<wire::Inspect>{});
    REQUIRE(info);
    for (const auto counter : info->get().getCounters())
      if (counter.getName() == name.c_str()) return counter.getValue();
    return 0;
  }

  void spawn(moving_store& one) {
    kv_store_setup setup;
    setup.config.store.capacity_bytes = one.capacity;
    setup.config.store.segment_bytes = 1 << 20;
    setup.config.store.group_blocks = one.group_blocks;
    setup.config.replicas = one.replicas;
    setup.config.staging_bytes = setup.config.pull_bytes = 1 << 20;
    setup.backing.store = *one.medium.open(store_settings(setup.config, one.capacity));
    setup.backing.id = one.id;
    setup.backing.replicas = one.replicas;
    setup.backing.capacity_bytes = one.capacity;
    setup.hub = &one.node->hub;
    setup.transport = one.node->transport.get();
    setup.wall = [node = one.node] {
      return at(std::chrono::duration_cast<std::chrono::milliseconds>(node->world.now())).wall;
    };
    setup.spawn_io = [node = one.node] {
      return kv_io_actor{node->world.system.spawn(kv_io, std::cref(node->hub))};
    };
    one.backing = setup.backing;
    one.store = one.node->world.system.spawn(kv_store, setup);
    kv_mover_setup moving;
    moving.config = one.config;
    moving.backing = setup.backing;
    if (one.own_weight != 0) moving.backing.capacity_bytes = one.own_weight;
    moving.group_blocks = one.group_blocks;
    moving.hub = setup.hub;
    moving.transport = setup.transport;
    moving.store = one.store;
    moving.wall = setup.wall;
    moving.spawn_io = [&one] { return one.moving_io.spawn(one.node->world); };
    one.mover = one.node->world.system.spawn(kv_mover, moving);
    run();
  }

  void end(moving_store& one) {
    if (one.node == nullptr) return;
    caf::anon_send_exit(one.mover, caf::exit_reason::kill);
    caf::anon_send_exit(one.store, caf::exit_reason::kill);
    run();
    one.mover = nullptr;
    one.store = nullptr;
    one.backing = {};
    one.node = nullptr;
  }

  wire::msg<wire::Members> members_for(const moving_store& reader) {
    std::vector<moving_store*> alive;
    for (const auto& [number, one] : stores)
      if (one->node != nullptr) alive.push_back(one.get());
    wire::draft<wire::Members> out;
    out->initSelf().setHi(reader.node->id().hi);
    out->getSelf().setLo(reader.node->id().lo);
    auto records = out->initRecords(static_cast<uint32_t>(alive.size()));
    for (uint32_t i = 0; i < alive.size(); ++i) {
      records[i].initId().setHi(alive[i]->node->id().hi);
      records[i].getId().setLo(alive[i]->node->id().lo);
      records[i].setState(wire::NodeState::ALIVE);
      auto service = records[i].initServices(1)[0];
      service.setKind("kvstore");
      write_ref(service.initActor(),
                *alive[i]->node->hub.export_actor(kv_store_actor{alive[i]->store}));
    }
    return out.freeze();
  }
};

}  // namespace deepinfer::test
