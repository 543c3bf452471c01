#include "actors/node/node_actors.hpp"

#include "actors/cache/fetch_io.hpp"
#include "actors/cache/fetch_locator.hpp"
#include "actors/cache/kv_fetch.hpp"
#include "actors/cache/kv_io.hpp"
#include "actors/cache/kv_orders.hpp"
#include "actors/cache/kv_writer.hpp"
#include "actors/cache/ring_host.hpp"
#include "actors/edge/codec.hpp"
#include "actors/serve/batch.hpp"
#include "runtime/base/digest.hpp"

#include <caf/send.hpp>

#include <array>
#include <utility>

namespace deepinfer {
namespace {

constexpr std::array<std::pair<node_role, std::string_view>, 6> role_names{{
    {node_role::gateway, "gateway"},
    {node_role::prefill, "prefill"},
    {node_role::decode, "decode"},
    {node_role::controller, "controller"},
    {node_role::kvstore, "kvstore"},
    {node_role::fetch, "fetch"},
}};

result<node_role> parse_role(std::string_view name) {
  for (const auto& [role, text] : role_names)
    if (text == name) return role;
  if (name == "vision")
    return failure{error_code::unsupported,
                   "the role " + std::string{name} + " is not in this release"};
  return failure{error_code::invalid_argument,
                 "unknown role '" + std::string{name} +
                     "'; roles are gateway, prefill, decode, controller, kvstore, or all"};
}

/// One node's actors while they are being made.
class spawner {
public:
  spawner(caf::actor_system& system, const node_plan& plan) : system_(system), plan_(plan) {}

  result<node_actors> run() {
    if (const auto ok = spawn_all(); !ok) {
      end_node_actors(made_);  // the system waits for its actors when it ends
      return ok.error();
    }
    return std::move(made_);
  }

private:
  result<void> spawn_all() {
    if (const auto ok = spawn_control(); !ok) return ok.error();
    if (has(node_role::prefill) || has(node_role::decode)) spawn_persistence();
    if (auto ok = spawn_fetching(); !ok) return ok.error();
    if (has(node_role::kvstore))
      if (const auto ok = spawn_store(); !ok) return ok.error();
    if (has(node_role::prefill))
      if (const auto ok = spawn_engine(schedule::engine_role::prefill); !ok) return ok.error();
    if (has(node_role::decode))
      if (const auto ok = spawn_engine(schedule::engine_role::decode); !ok) return ok.error();
    if (has(node_role::gateway)) spawn_gateway();
    return {};
  }

  [[nodiscard]] bool has(node_role role) const { return plan_.roles.contains(role); }
  [[nodiscard]] bool service() const { return plan_.threads == threading::service; }

  template <class Handle>
  void track(std::string kind, const Handle& handle) {
    caf::anon_send(made_.console, track_actor{std::move(kind), handle});
  }

  template <class Handle>
  void keep(std::string kind, const Handle& handle) {
    track(std::move(kind), handle);
    made_.essential.push_back(caf::actor_cast<caf::actor>(handle));
  }

  // Published before anybody sends to them: the console then shows them under one number.
  result<void> spawn_control() {
    made_.console = system_.spawn(
        console, console_setup{plan_.settings.console, plan_.hub, plan_.self.id, plan_.recent_log});
    made_.essential.push_back(caf::actor_cast<caf::actor>(made_.console));
    if (auto ok = plan_.hub->publish(console_actor_number, console_actor{made_.console}); !ok)
      return ok;
    membership_setup setup;
    setup.config = plan_.settings.membership;
    setup.cluster = plan_.cluster;
    setup.self = plan_.self;
    setup.seeds = plan_.seeds;
    setup.registries = plan_.registries;
    setup.hub = plan_.hub;
    setup.transport = plan_.transport;
    made_.membership = system_.spawn(membership, setup);
    if (auto ok = plan_.hub->publish(membership_actor_number, membership_actor{made_.membership});
        !ok)
      return ok;
    keep("membership", made_.membership);
    made_.orders = system_.spawn(kv_orders, kv_orders_setup{plan_.hub, plan_.self.id, plan_.log});
    accompany("kv_orders", made_.orders);
    return {};
  }

  void offer(const std::string& kind, const result<actor_ref>& ref, uint64_t layout = 0) {
    if (!ref) return;
    policy::service_record record{kind, ref->node, ref->actor, ref->interface, plan_.model_name};
    record.layout = layout;
    // Orders name a store that is down by it: where it was, another one may have come.
    if (kind == "kvstore") {
      record.store_hi = plan_.store.id.hi;
      record.store_lo = plan_.store.id.lo;
    }
    caf::anon_send(made_.membership, offer_service{std::move(record)});
  }

  // The same for all lives of a node, so that its blocks of an earlier one can be told.
  [[nodiscard]] uint64_t writer_id() const { return digest_of(plan_.self.address).lo; }

  template <class Handle>
  void accompany(std::string kind, const Handle& handle) {
    track(std::move(kind), handle);
    made_.companions.push_back(caf::actor_cast<caf::actor>(handle));
  }

  // For the engines of this node together.
  void spawn_persistence() {
    const cache_config& cache = plan_.settings.cache;
    if (!cache.enabled || cache.persist_by == "nobody") return;
    kv_writer_setup writer;
    writer.config = plan_.settings.kvwriter;
    writer.hub = plan_.hub;
    writer.transport = plan_.transport;
    writer.writer = {writer_id(), plan_.self.epoch};
    budget_ = std::make_shared<persist_budget>(writer.config.queue_bytes);
    writer.budget = budget_;
    made_.writer = service() ? system_.spawn<caf::detached>(kv_writer, writer)
                             : system_.spawn(kv_writer, writer);
    accompany("kv_writer", made_.writer);
    caf::anon_send(made_.membership, watch_members{made_.writer});
    offer("kv_writer", plan_.hub->export_actor(purgeable_actor{made_.writer}));
    rings_ =
        system_.spawn(ring_host, ring_host_setup{plan_.settings.rings, plan_.hub, plan_.transport});
    accompany("ring_host", rings_);
    offer("ring_host", plan_.hub->export_actor(ring_host_actor{rings_}));
  }

  result<void> spawn_store() {
    if (!plan_.store.store) return failure{error_code::internal, "no store for the role kvstore"};
    kv_store_setup setup;
    setup.config = plan_.settings.kvstore;
    setup.backing = plan_.store;
    setup.hub = plan_.hub;
    setup.transport = plan_.transport;
    setup.wall = plan_.unix_time_ms;
    setup.log = plan_.log;
    setup.metrics = plan_.stored;
    setup.spawn_io = [system = &system_, in_service = service(), hub = plan_.hub,
                      console = made_.console] {
      const kv_io_actor made = in_service ? system->spawn<caf::detached>(kv_io, std::cref(*hub))
                                          : system->spawn(kv_io, std::cref(*hub));
      caf::anon_send(console, track_actor{"kv_io", made});
      return made;
    };
    made_.kv_store = system_.spawn(kv_store, setup);
    keep("kv_store", made_.kv_store);
    kv_sweep_setup sweep;
    sweep.config = plan_.settings.kvsweep;
    sweep.backing = plan_.store;
    sweep.hub = plan_.hub;
    sweep.store = made_.kv_store;
    sweep.wall = plan_.unix_time_ms;
    sweep.spawn_io = setup.spawn_io;
    keep("kv_sweep", system_.spawn(kv_sweep, sweep));
    spawn_mover(setup);
    offer("kvstore", plan_.hub->export_actor(kv_store_actor{made_.kv_store}));
    return {};
  }

  void spawn_mover(const kv_store_setup& beside) {
    kv_mover_setup setup;
    setup.config = plan_.settings.kvmove;
    setup.backing = beside.backing;
    setup.group_blocks = beside.config.store.group_blocks;
    setup.hub = plan_.hub;
    setup.transport = plan_.transport;
    setup.store = made_.kv_store;
    setup.wall = beside.wall;
    setup.spawn_io = beside.spawn_io;
    made_.kv_mover = system_.spawn(kv_mover, setup);
    accompany("kv_mover", made_.kv_mover);
    caf::anon_send(made_.membership, watch_members{made_.kv_mover});
  }

  /// Here, because this is the process made for it, or because engines have no such process.
  [[nodiscard]] bool fetches() const {
    if (has(node_role::fetch)) return true;
    const bool computes = has(node_role::prefill) || has(node_role::decode);
    const bool inside = plan_.settings.kvfetch.process == "inside" || !plan_.fetch_process.start;
    return computes && inside && plan_.settings.cache.enabled;
  }

  result<void> spawn_fetching() {
    const bool computes = has(node_role::prefill) || has(node_role::decode);
    if (fetches()) {
      const auto made = fetch_maker()();
      // A process that is there to fetch is useless without; engines compute what they miss.
      if (!made && has(node_role::fetch)) return made.error();
      if (!made && plan_.log) plan_.log->warn("kvfetch.absent", {{"why", made.error().detail}});
      if (made) (has(node_role::fetch) ? made_.essential : made_.companions).push_back(*made);
    } else if (computes && plan_.settings.cache.enabled) {
      spawn_keeper();
    }
    return {};
  }

  void spawn_keeper() {
    keeper_setup setup = plan_.fetch_process;
    setup.hub = plan_.hub;
    setup.log = plan_.log;
    setup.fetch_inside = fetch_maker();
    made_.keeper = system_.spawn(fetch_keeper, setup);
    accompany("fetch_keeper", made_.keeper);
    caf::anon_send(made_.membership, watch_members{made_.keeper});
  }

  /// Makes a kv_fetch in this process, now or when the one beside it cannot be had.
  [[nodiscard]] std::function<result<caf::actor>()> fetch_maker() const {
    fetch_setup setup;
    setup.config = plan_.settings.kvfetch;
    setup.hub = plan_.hub;
    setup.transport = plan_.transport;
    setup.spawn_io = [system = &system_, hub = plan_.hub, in_service = service(),
                      console = made_.console] {
      const fetch_io_actor made = in_service
                                      ? system->spawn<caf::detached>(fetch_io, std::cref(*hub))
                                      : system->spawn(fetch_io, std::cref(*hub));
      caf::anon_send(console, track_actor{"fetch_io", made});
      return made;
    };
    return [setup, system = &system_, limits = plan_.memory, epoch = plan_.self.epoch,
            console = made_.console, membership = made_.membership]() -> result<caf::actor> {
      const auto bytes = arena_size(setup.config.arena_bytes, limits);
      if (!bytes) return bytes.error();
      auto memory = storage::shared_memory::make(*bytes, epoch);
      if (!memory) return memory.error();
      fetch_setup whole = setup;
      whole.memory = *std::move(memory);
      const kv_fetch_impl_actor made = system->spawn(kv_fetch, whole);
      caf::anon_send(console, track_actor{"kv_fetch", made});
      caf::anon_send(membership, watch_members{made});
      if (const auto ref = setup.hub->export_actor(kv_fetch_actor{made}))
        caf::anon_send(
            membership,
            offer_service{{fetch_service_kind, ref->node, ref->actor, ref->interface, {}, 0}});
      return caf::actor_cast<caf::actor>(made);
    };
  }

  result<void> spawn_engine(schedule::engine_role role) {
    const bool prefill = role == schedule::engine_role::prefill;
    engine_setup setup;
    setup.role = role;
    setup.config = prefill ? plan_.settings.prefill : plan_.settings.decode;
    setup.model = plan_.make_model();
    if (!setup.model) return failure{error_code::internal, "no model for an engine"};
    setup.hub = plan_.hub;
    setup.transport = plan_.transport;
    setup.cache = plan_.settings.cache;
    setup.hits = plan_.hits;
    setup.writer = made_.writer;
    setup.budget = budget_;
    setup.rings = rings_;
    setup.spawn_batch = [system = &system_, in_service = service(), console = made_.console](
                            const batch_config& config, const step_sink_actor& engine) {
      const batch_actor made = in_service ? system->spawn<caf::detached>(batch, config, engine)
                                          : system->spawn(batch, config, engine);
      caf::anon_send(console, track_actor{"batch", made});
      return made;
    };
    if (prefill)
      setup.spawn_swap = [system = &system_, in_service = service(), console = made_.console](
                             const kv_swap_config& config, const swap_sink_actor& engine) {
        const kv_swap_actor made = in_service
                                       ? system->spawn<caf::detached>(kv_swap, config, engine)
                                       : system->spawn(kv_swap, config, engine);
        caf::anon_send(console, track_actor{"kv_swap", made});
        return made;
      };
    const engine_impl_actor made = system_.spawn(engine, setup);
    if (prefill) caf::anon_send(made_.membership, watch_members{made});
    const std::string name{prefill ? "prefill" : "decode"};
    keep(name, made);
    offer(name, plan_.hub->export_actor(engine_actor{made}), setup.model->info().layout);
    made_.engines.push_back(made);
    return {};
  }

  balancer_actor spawn_balancer(const std::string& role,
                                std::shared_ptr<const policy::route_policy> policy) {
    balancer_setup setup;
    setup.role = role;
    setup.config = plan_.settings.balancer;
    setup.policy = std::move(policy);
    setup.model = plan_.model_name;
    setup.hub = plan_.hub;
    setup.gateway = made_.gateway;
    const balancer_impl_actor made = system_.spawn(balancer, setup);
    keep(role + "_balancer", made);
    caf::anon_send(made_.membership, watch_members{made});
    return made;
  }

  // On a thread of its own, since every request waits for it.
  void spawn_check() {
    kv_check_setup setup;
    setup.config = plan_.settings.check;
    setup.cache = plan_.settings.cache;
    setup.model = plan_.model_name;
    setup.hub = plan_.hub;
    setup.metrics = plan_.match;
    setup.shared = plan_.shared_prompts;
    setup.spawn_feed = [system = &system_, hub = plan_.hub, console = made_.console](
                           const feed_config& config,
                           const std::shared_ptr<storage::prefix_index>& index) {
      const index_feed_actor made = system->spawn(index_feed, config, hub, index);
      caf::anon_send(console, track_actor{"index_feed", made});
      return made;
    };
    made_.check =
        service() ? system_.spawn<caf::detached>(kv_check, setup) : system_.spawn(kv_check, setup);
    keep("kv_check", made_.check);
    caf::anon_send(made_.membership, watch_members{made_.check});
    offer("kv_check", plan_.hub->export_actor(kv_check_actor{made_.check}));
  }

  void spawn_gateway() {
    spawn_check();
    gateway_setup setup;
    setup.config = plan_.settings.gateway;
    setup.requests = plan_.settings.request;
    setup.cache = plan_.settings.cache;
    setup.check = made_.check;
    setup.model = plan_.model_name;
    setup.hub = plan_.hub;
    setup.node = plan_.self.id;
    setup.protocol = plan_.protocol;
    setup.metrics = plan_.metrics;
    setup.log = plan_.log;
    setup.unix_time = plan_.unix_time;
    setup.seed = plan_.seed;
    setup.low_water_bytes = plan_.low_water_bytes;
    setup.piece_bytes = plan_.piece_bytes;
    setup.track = [console = made_.console](const request_actor& made) {
      caf::anon_send(console, track_actor{"request", made});
    };
    for (uint32_t i = 0; i < plan_.settings.gateway.codecs; ++i) {
      const auto load = std::make_shared<codec_load>(0);
      const codec_actor made =
          service()
              ? system_.spawn<caf::detached>(codec, plan_.protocol, load, std::cref(*plan_.hub))
              : system_.spawn(codec, plan_.protocol, load, std::cref(*plan_.hub));
      keep("codec", made);
      setup.codecs.push_back({made, load});
    }
    made_.gateway = system_.spawn(gateway, setup);
    keep("gateway", made_.gateway);
    const auto& cost = plan_.settings.balancer;
    const auto prefill = spawn_balancer("prefill", policy::make_least_work_prefill());
    const auto decode = spawn_balancer(
        "decode", policy::make_least_work_decode(
                      {cost.decode_cost_per_sequence, cost.decode_cost_per_context_token}));
    caf::anon_send(made_.gateway, use_balancers{prefill, decode});
    caf::anon_send(made_.membership, watch_members{made_.gateway});
    offer("gateway", plan_.hub->export_actor(gateway_actor{made_.gateway}));
  }

  caf::actor_system& system_;
  const node_plan& plan_;
  node_actors made_;
  std::shared_ptr<persist_budget> budget_;  // null without a writer
  ring_host_impl_actor rings_;
};

}  // namespace

std::string_view to_string(node_role role) {
  for (const auto& [known, text] : role_names)
    if (known == role) return text;
  return "?";
}

result<std::set<node_role>> parse_roles(std::string_view text) {
  std::set<node_role> roles;
  if (text == "all") {
    for (const auto& [role, name] : role_names)
      if (role != node_role::fetch) roles.insert(role);
    return roles;
  }
  while (true) {
    const size_t comma = text.find(',');
    const auto role = parse_role(text.substr(0, comma));
    if (!role) return role.error();
    roles.insert(*role);
    if (comma == std::string_view::npos) return roles;
    text.remove_prefix(comma + 1);
  }
}

result<node_actors> spawn_node_actors(caf::actor_system& system, const node_plan& plan) {
  return spawner{system, plan}.run();
}

void end_node_actors(const node_actors& actors) {
  for (const auto* made : {&actors.essential, &actors.companions})
    for (const caf::actor& actor : *made)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

}  // namespace deepinfer
