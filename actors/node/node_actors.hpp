#pragma once

#include "actors/cache/cache_config.hpp"
#include "actors/cache/fetch_config.hpp"
#include "actors/cache/kv_check.hpp"
#include "actors/cache/kv_mover.hpp"
#include "actors/cache/kv_store.hpp"
#include "actors/cache/kv_sweep.hpp"
#include "actors/cache/kv_writer_config.hpp"
#include "actors/console/console.hpp"
#include "actors/control/balancer.hpp"
#include "actors/control/membership.hpp"
#include "actors/edge/gateway.hpp"
#include "actors/messages/cache_orders.hpp"
#include "actors/node/arena_room.hpp"
#include "actors/node/fetch_keeper.hpp"
#include "actors/serve/engine.hpp"
#include "runtime/base/log.hpp"
#include "runtime/model/step_model.hpp"

#include <caf/actor_system.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace deepinfer {

/// `fetch` is the role of a process that a node starts for its machine, not one of `all`.
enum class node_role : uint8_t { gateway, prefill, decode, controller, kvstore, fetch };
[[nodiscard]] std::string_view to_string(node_role role);
/// "all", or names separated by commas; `invalid_argument` names the wrong one, `unsupported` a
/// role that this release does not have.
[[nodiscard]] result<std::set<node_role>> parse_roles(std::string_view text);

/// Settings of the actors of a node, one struct per component.
struct node_settings {
  membership_actor_config membership;
  balancer_config balancer;
  engine_config prefill;
  engine_config decode;
  cache_config cache;
  kv_check_config check;
  kv_writer_config kvwriter;
  fetch_config kvfetch;
  ring_host_config rings;
  kv_store_config kvstore;
  kv_sweep_config kvsweep;
  kv_mover_config kvmove;
  gateway_config gateway;
  request_config request;
  console_config console;
};

/// How actors get their threads: in service the ones that compute or block have one each; in
/// simulation all run on the testing scheduler, so that a seed replays exactly.
enum class threading : uint8_t { service, simulation };

struct node_plan {
  node_settings settings;
  std::set<node_role> roles;
  std::string cluster;
  policy::member_record self;
  std::vector<std::string> seeds;
  std::vector<std::shared_ptr<net::registry>> registries;
  remote_hub* hub = nullptr;
  net::transport* transport = nullptr;
  /// One model per engine of this node: engines compute side by side. Called for engine roles only.
  std::function<std::shared_ptr<model::step_model>()> make_model;
  std::string model_name;
  std::shared_ptr<const protocol_codec> protocol;        ///< for the gateway role
  std::shared_ptr<request_metrics> metrics;              ///< may be null
  std::shared_ptr<match_metrics> match;                  ///< may be null
  std::shared_ptr<const hit_metrics> hits;               ///< may be null
  std::shared_ptr<const store_metrics> stored;           ///< may be null
  std::shared_ptr<const public_prompts> shared_prompts;  ///< null: nothing is everybody's
  std::shared_ptr<log_sink> log;                         ///< may be null
  std::function<std::chrono::seconds()> unix_time;
  std::function<std::chrono::milliseconds()> unix_time_ms;  ///< lives of blocks end by it
  kv_backing store;                                         ///< opened, for the kvstore role
  std::function<std::vector<std::string>()> recent_log;
  /// How a process of its own is started that fetches blocks for the engines of this machine
  /// (kvfetch.process); without `start`: none is.
  keeper_setup fetch_process;
  memory_limits memory;  ///< what shared memory must fit into
  uint64_t seed = 0;
  uint64_t low_water_bytes = 256 << 10;
  uint64_t piece_bytes = 64 << 10;  ///< below what a connection may hold unsent
  threading threads = threading::service;
};

struct node_actors {
  membership_impl_actor membership;
  console_impl_actor console;
  gateway_impl_actor gateway;  ///< null without the role
  kv_check_self_actor check;   ///< beside the gateway
  std::vector<engine_impl_actor> engines;
  kv_writer_actor writer;        ///< null when nothing is stored from here
  kv_store_impl_actor kv_store;  ///< null without the role
  kv_mover_actor kv_mover;       ///< beside it
  kv_orders_actor orders;
  fetch_keeper_actor keeper;  ///< null when no process is kept
  /// Actors whose unexpected end makes the process useless; the node ends with them.
  std::vector<caf::actor> essential;
  /// Actors without which a node only does more work; they end with it.
  std::vector<caf::actor> companions;
};

/// Spawns what the roles need and connects it; publishes membership and console.
///
// clang-format off
/// | actor                      | watched by               | when it ends                      |
/// |----------------------------|--------------------------|-----------------------------------|
/// | membership, console,       | node                     | the process ends, exit code 1     |
/// | gateway, balancers,        |                          |                                   |
/// | codecs, engines, kv_check, |                          |                                   |
/// | kv_store, kv_sweep         |                          |                                   |
/// | index_feed                 | linked to its kv_check   | both end                          |
/// | kv_writer, ring_host       | nobody                   | blocks, rings are not kept        |
/// | kv_mover                   | nobody                   | blocks stay where they are        |
/// | kv_orders                  | nobody                   | this node takes no orders         |
/// | batch                      | linked to its engine     | both end                          |
/// | kv_swap                    | linked to its prefill    | both end                          |
/// |                            | engine                   |                                   |
/// | kv_fetch, fetch_keeper     | nobody; kv_fetch in its  | hits are computed; its process    |
/// |                            | own process: node;       | ends                              |
/// |                            | instead of one: linked   |                                   |
/// |                            | to its keeper            |                                   |
/// | fetch_io                   | linked to its kv_fetch   | both end                          |
/// | kv_io                      | linked to its kv_store,  | both end                          |
/// |                            | kv_sweep or kv_mover     |                                   |
/// | request                    | gateway, console         | its place is free again           |
/// | request, as a receiver     | engines that run or hold | the sequence is dropped, what was |
/// |                            | its sequence             | staged for it is freed            |
/// | engine                     | requests on it           | they are routed anew              |
/// | subscriber of load reports | engine                   | gets no more reports              |
// clang-format on
[[nodiscard]] result<node_actors> spawn_node_actors(caf::actor_system& system,
                                                    const node_plan& plan);

/// Tells all of them to end. Many hold handles to each other, so none ends by being forgotten, nor
/// does what it holds: registered memory, shared memory, files.
void end_node_actors(const node_actors& actors);

}  // namespace deepinfer
