#include "actors/node/node_process.hpp"

#include "actors/console/console_http.hpp"
#include "actors/edge/answer_headers.hpp"
#include "actors/edge/api_protocols.hpp"
#include "actors/edge/prompt_encoding.hpp"
#include "actors/messages/errors.hpp"
#include "actors/node/bundled_model.hpp"
#include "actors/node/fetch_process.hpp"
#include "actors/node/marked_log.hpp"
#include "actors/node/node.hpp"
#include "actors/node/peer_events.hpp"
#include "actors/node/process_metrics.hpp"
#include "actors/node/public_prompt_files.hpp"
#include "actors/node/service_scheduler.hpp"
#include "actors/node/store_quotas.hpp"
#include "kernels/api/cpu_device.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"
#include "runtime/net/local_registry.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

namespace deepinfer {
namespace {

uint64_t random_word() {
  uint64_t word = 0;
  while (::getrandom(&word, sizeof word, 0) != sizeof word) {
  }
  return word;
}

std::chrono::nanoseconds steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::chrono::milliseconds since(std::chrono::nanoseconds begun) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(steady_now() - begun);
}

std::chrono::seconds unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

std::chrono::milliseconds unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

uint64_t epoch_now() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

/// Flushing what a store has written.
constexpr std::chrono::seconds store_drain{10};

std::string join_text(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const auto& item : items) text.append(text.empty() ? "" : separator).append(item);
  return text;
}

/// What the listener refuses before there is a request, in the words of its path's protocol.
http_refusal refusal_of(const protocol_codec& protocol,
                        const http_problem& problem,
                        std::string_view path) {
  http_request request;
  request.path = path;
  const exchange_context context{{random_word(), random_word()}, unix_now(), 0};
  const recipe::api_error error{problem.status,
                                std::string{problem.type},
                                std::string{problem.code},
                                {},
                                std::string{problem.message}};
  return {protocol.error_body(request, error, context), with_request_id(context.id)};
}

struct system_config : caf::actor_system_config {
  explicit system_config(uint32_t threads) {
    use_service_scheduler(*this, threads);
    register_failure_category(*this);
  }
};

class running_node final : public node_process {
public:
  running_node(const process_config& config, std::function<void()> on_loss)
      : config_(config),
        effective_(config.schema().effective()),
        on_loss_(std::move(on_loss)),
        caf_config_(config.node.threads) {}

  ~running_node() override { stop(); }

  result<void> open();
  void stop() override;
  bool lost() const override { return lost_; }
  const node_endpoints& endpoints() const override { return endpoints_; }

private:
  result<void> open_log();
  result<void> open_store();
  result<void> load_model();
  result<void> open_fabric();
  result<void> open_registries();
  result<std::shared_ptr<const protocol_codec>> make_protocol();
  result<void> spawn();
  result<void> open_listeners();
  result<void> write_endpoints();
  node_plan plan();
  keeper_setup fetch_starter(const std::string& machine);
  [[nodiscard]] bool only_fetches() const { return roles_ == std::set{node_role::fetch}; }
  void log(std::string_view event, std::initializer_list<log_field> fields) {
    log_->info(event, fields);
  }

  const process_config& config_;
  std::string effective_;  ///< all settings, for a child
  std::function<void()> on_loss_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> stopped_{false};
  std::set<node_role> roles_;
  node_id id_{random_word(), random_word()};
  uint64_t epoch_ = epoch_now();
  std::string model_name_;
  std::shared_ptr<process_log> log_;
  std::shared_ptr<process_metrics> metrics_;
  std::shared_ptr<const text::tokenizer> tokenizer_;
  std::shared_ptr<const protocol_codec> protocol_;
  std::vector<std::shared_ptr<model::step_model>> models_;
  uint32_t context_limit_ = 0;
  kv_backing store_;
  std::vector<std::shared_ptr<net::registry>> registries_;
  system_config caf_config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<net::transport> transport_;
  std::unique_ptr<remote_hub> hub_;
  std::shared_ptr<peer_events> events_ = std::make_shared<peer_events>();
  node_actors actors_;
  node_actor node_;
  std::unique_ptr<http_server> gateway_http_;
  std::unique_ptr<http_server> console_http_;
  node_endpoints endpoints_;
  std::unique_ptr<endpoints_file> endpoints_file_;
  std::shared_ptr<fetch_right> fetch_right_ = std::make_shared<fetch_right>();
  std::shared_ptr<fetch_child> fetch_child_ = std::make_shared<fetch_child>();
};

result<void> running_node::open() {
  using step = result<void> (running_node::*)();
  // The names under which the log tells how long a step took.
  const std::pair<step, std::string_view> steps[] = {
      {&running_node::open_log, {}},
      {&running_node::open_store, "took_store"},
      {&running_node::load_model, "took_model"},
      {&running_node::open_fabric, "took_fabric"},
      {&running_node::open_registries, {}},
      {&running_node::spawn, "took_actors"},
      {&running_node::open_listeners, "took_listeners"},
      {&running_node::write_endpoints, {}}};
  std::vector<log_field> fields;
  for (const auto& [run, name] : steps) {
    const auto begun = steady_now();
    if (auto done = (this->*run)(); !done) return done;
    if (!name.empty()) fields.emplace_back(name, since(begun));
  }
  const std::initializer_list<log_field> where{{"node", to_string(id_)},
                                               {"cluster", config_.node.cluster},
                                               {"roles", join_text(config_.node.roles, ",")},
                                               {"fabric", transport_->address()},
                                               {"http", endpoints_.http},
                                               {"console", endpoints_.console}};
  fields.insert(fields.begin(), where);
  // Who waits for a node to start reads its log, and what it started writes there, too.
  log_->write(log_level::info, only_fetches() ? "kvfetch.up" : "node.started", fields);
  return {};
}

result<void> running_node::open_log() {
  auto roles = parse_roles(join_text(config_.node.roles, ","));
  if (!roles) return roles.error();
  roles_ = *std::move(roles);
  auto sink = make_process_log(config_.log, [] {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now());
  });
  if (!sink) return sink.error();
  log_ = only_fetches() ? mark_log(*sink, {"process", "kvfetch"}) : *sink;
  return {};
}

// A node that was asked for a store has one or does not start; one that does everything goes on
// without, since a cache that is missing costs time only.
result<void> running_node::open_store() {
  if (!roles_.contains(node_role::kvstore)) return {};
  const auto quotas = read_store_quotas(config_.actors.kvstore.quotas);
  if (!quotas) return quotas.error();
  const std::string home = cache_directory();
  const std::string name = net::safe_file_name(config_.node.cluster);
  auto opened =
      open_kv_backing(config_.actors.kvstore, {home.empty() ? home : home + "/" + name + "/kv",
                                               {random_word(), random_word()},
                                               {random_word(), random_word()},
                                               epoch_});
  if (opened) {
    store_ = *std::move(opened);
    for (const auto& [scope, bytes] : *quotas) store_.store->set_quota(scope, bytes);
    log("kvstore.opened", {{"folder", store_.folder},
                           {"blocks", store_.store->stats().blocks},
                           {"capacity_bytes", store_.capacity_bytes}});
    for (const std::string& what : store_.mended) log_->warn("kvstore.mended", {{"what", what}});
    return {};
  }
  // A setting that is wrong is wrong whatever else the node does.
  if (opened.error().code == error_code::invalid_argument ||
      config_.node.roles != std::vector<std::string>{"all"})
    return opened.error();
  roles_.erase(node_role::kvstore);
  log_->warn("kvstore.absent", {{"why", opened.error().detail}});
  return {};
}

// Both engines of a node compute side by side, each with a model object of its own.
result<void> running_node::load_model() {
  const bool computes = roles_.contains(node_role::prefill) || roles_.contains(node_role::decode);
  const bool talks = roles_.contains(node_role::gateway);
  if (!computes && !talks) return {};
  const std::filesystem::path named{config_.node.model};
  const std::filesystem::path dir = (named.empty() ? bundled_model() : named).lexically_normal();
  if (dir.empty())
    return failure{error_code::invalid_argument, "no model: name a checkpoint folder with --model"};
  model_name_ = config_.node.served_name;
  if (model_name_.empty())
    model_name_ = (dir.has_filename() ? dir : dir.parent_path()).filename().string();
  model::v41_options options;
  options.level = *model::parse_level(config_.node.level);
  options.context_limit = config_.node.context_limit;
  const auto engines = static_cast<uint32_t>(roles_.contains(node_role::prefill)) +
                       static_cast<uint32_t>(roles_.contains(node_role::decode));
  const uint32_t cores =
      std::clamp(std::thread::hardware_concurrency(), 1u, kernels::most_device_threads);
  options.threads = config_.kernels.threads != 0 ? config_.kernels.threads
                                                 : std::max(1u, cores / std::max(1u, engines));
  const auto begun = steady_now();
  for (const auto role : {node_role::prefill, node_role::decode}) {
    if (!roles_.contains(role)) continue;
    auto made = model::make_v41_model(dir, options);
    if (!made) return made.error();
    models_.push_back(*std::move(made));
  }
  if (talks) {
    const auto files = model::checkpoint::open(dir);
    if (!files) return files.error();
    const auto shape = model::parse_v41_config(files->config_text());
    if (!shape) return shape.error();
    const uint32_t wanted = config_.node.context_limit;
    context_limit_ = wanted == 0 ? shape->max_positions : std::min(shape->max_positions, wanted);
    auto tokenizer = text::load_tokenizer(dir / "tokenizer.json");
    if (!tokenizer) return tokenizer.error();
    if (const auto usable = recipe::check_tokenizer(**tokenizer); !usable) return usable.error();
    tokenizer_ = *std::move(tokenizer);
  }
  log("model.loaded",
      {{"model", model_name_}, {"engines", models_.size()}, {"took", since(begun)}});
  return {};
}

result<void> running_node::open_fabric() {
  system_ = std::make_unique<caf::actor_system>(caf_config_);
  net::fabric_config fabric = config_.fabric;
  fabric.node = id_;
  fabric.epoch = epoch_;
  fabric.cluster = config_.node.cluster;
  fabric.secret = config_.node.secret;
  net::choose_provider(fabric.provider.c_str());
  auto transport = net::make_fabric_transport(fabric);
  if (!transport) return transport.error();
  transport_ = *std::move(transport);
  hub_ = std::make_unique<remote_hub>(*system_, *transport_, config_.remote, steady_now);
  hub_->subscribe(events_->subscription(log_));
  return {};
}

result<void> running_node::open_registries() {
  auto local = net::make_local_registry({runtime_directory(), config_.node.cluster});
  if (!local) return local.error();
  registries_.push_back(*std::move(local));
  if (!config_.multicast.enabled) return {};
  net::multicast_config multicast = config_.multicast.lan;
  multicast.cluster = config_.node.cluster;
  multicast.secret = config_.node.secret;
  auto lan = net::make_multicast_registry(multicast);
  if (!lan) return lan.error();
  registries_.push_back(*std::move(lan));
  return {};
}

node_plan running_node::plan() {
  node_plan plan;
  plan.settings = config_.actors;
  plan.roles = roles_;
  plan.cluster = config_.node.cluster;
  plan.self.id = id_;
  plan.self.epoch = epoch_;
  plan.self.address = plan.self.name = transport_->address();
  for (const auto role : roles_) plan.self.roles.emplace_back(to_string(role));
  plan.self.machine = machine_mark();
  plan.seeds = config_.node.join;
  plan.registries = registries_;
  plan.hub = hub_.get();
  plan.transport = transport_.get();
  plan.make_model = [this, next = size_t{0}]() mutable { return models_.at(next++); };
  plan.model_name = model_name_;
  plan.metrics = metrics_->requests();
  plan.match = metrics_->matches();
  plan.hits = metrics_->hits();
  plan.stored = metrics_->stored();
  plan.match->now = steady_now;
  plan.log = log_;
  plan.unix_time = unix_now;
  plan.unix_time_ms = unix_now_ms;
  plan.store = store_;
  plan.recent_log = [log = log_] { return log->tail(200); };
  plan.memory = read_memory_limits();
  // without a mark nobody could find the process that fetches for this machine
  const bool separate = config_.actors.kvfetch.process == "separate" && !plan.self.machine.empty();
  if (separate && !only_fetches()) plan.fetch_process = fetch_starter(plan.self.machine);
  plan.seed = random_word();
  plan.low_water_bytes =
      std::min(config_.http.low_water_bytes, config_.http.pending_write_bytes / 2);
  plan.piece_bytes = std::min<uint64_t>(64 << 10, config_.http.pending_write_bytes / 2);
  return plan;
}

// The child is a node of its own: the same settings, another port, and us to join.
keeper_setup running_node::fetch_starter(const std::string& machine) {
  keeper_setup setup;
  const std::string folder = runtime_directory() + "/" + net::safe_file_name(config_.node.cluster);
  setup.may_start = [right = fetch_right_, folder, machine] {
    return right->take(folder, machine);
  };
  setup.start = [this, child = fetch_child_, join = transport_->address()]() -> result<void> {
    process_config settings;
    if (const auto read = settings.schema().read_toml(effective_, "settings"); !read)
      return read.error();
    settings.node.join = {join};
    settings.fabric.listen_port = 0;
    settings.fabric.port_may_move = true;
    // of its own: each process starts a file anew when that has become long
    if (!settings.log.file.empty()) settings.log.file += ".kvfetch";
    return child->start(settings.schema().effective());
  };
  setup.ended = [child = fetch_child_] { return child->ended(); };
  return setup;
}

result<std::shared_ptr<const protocol_codec>> running_node::make_protocol() {
  auto options = make_recipe_options(config_.recipe);
  if (!options) return options.error();
  options->conversion.max_choices = config_.actors.request.max_choices;
  auto encoding =
      make_prompt_encoding(tokenizer_, {config_.encoder, metrics_->prompts(), steady_now});
  if (!encoding) return encoding.error();
  if (encoding->reuse) metrics_->watch(encoding->reuse);
  api_setup setup;
  setup.tokenizer = tokenizer_;
  setup.encoder = encoding->encoder;
  setup.model = {model_name_, config_.recipe.aliases, context_limit_};
  setup.model_created_s = static_cast<uint64_t>(unix_now().count());
  setup.options = *std::move(options);
  setup.headers = make_party_rules(config_.actors.gateway, config_.actors.cache).headers;
  setup.counters = [all = *std::move(encoding)] { return all.counters(); };
  return make_api_protocols(std::move(setup));
}

result<void> running_node::spawn() {
  if (const auto started = transport_->start(*hub_); !started) return started.error();
  metrics_ = std::make_shared<process_metrics>(*transport_, *hub_);
  node_plan what = plan();
  if (tokenizer_) {
    auto protocol = make_protocol();
    if (!protocol) return protocol.error();
    what.protocol = protocol_ = *std::move(protocol);
    auto shared = read_public_prompts(config_.actors.cache.public_prompts,
                                      recipe::prompt_reader{*tokenizer_});
    if (!shared) return shared.error();
    what.shared_prompts = *std::move(shared);
  }
  auto made = spawn_node_actors(*system_, what);
  if (!made) return made.error();
  actors_ = *std::move(made);
  node_actor_setup setup{hub_.get(), join_text(what.self.roles, ", "), actors_.essential,
                         [this](const failure& why) {
                           if (stopped_) return;  // ended in order, not lost
                           log_->error("node.lost", {{"why", to_string(why)}});
                           lost_ = true;
                           on_loss_();
                         }};
  node_ = system_->spawn(deepinfer::node, setup);
  caf::anon_send(actors_.console, track_actor{"node", node_});
  events_->deliver_to(actors_.membership);
  return {};
}

result<void> running_node::open_listeners() {
  if (only_fetches()) return {};
  auto console = make_http_server(
      config_.console_http,
      make_console_handler({system_.get(), console_actor{actors_.console}, actors_.orders,
                            metrics_->all(), std::chrono::seconds(5)}));
  if (!console) return console.error();
  console_http_ = *std::move(console);
  metrics_->watch("console", *console_http_);
  if (const auto ok = console_http_->start(); !ok) return ok.error();
  endpoints_.console = console_http_->address();
  if (!actors_.gateway) return {};
  auto gateway = make_http_server(
      config_.http,
      [gateway = actors_.gateway](std::shared_ptr<const http_request> request,
                                  std::shared_ptr<http_responder> responder) {
        caf::anon_send(gateway, http_exchange{std::move(request), std::move(responder)});
      },
      [protocol = protocol_](const http_problem& problem, std::string_view path) {
        return refusal_of(*protocol, problem, path);
      });
  if (!gateway) return gateway.error();
  gateway_http_ = *std::move(gateway);
  metrics_->watch("gateway", *gateway_http_);
  if (const auto ok = gateway_http_->start(); !ok) return ok.error();
  endpoints_.http = gateway_http_->address();
  return {};
}

result<void> running_node::write_endpoints() {
  if (only_fetches()) return {};
  endpoints_.node = to_string(id_);
  endpoints_.epoch = epoch_;
  auto file = endpoints_file::write(runtime_directory(), config_.node.cluster, endpoints_);
  if (!file) return file.error();
  endpoints_file_ = std::make_unique<endpoints_file>(*std::move(file));
  return {};
}

void running_node::stop() {
  if (stopped_.exchange(true)) return;
  if (actors_.keeper) caf::anon_send(actors_.keeper, stop_keeping{});
  endpoints_file_.reset();
  if (system_) {
    const caf::scoped_actor self{*system_};
    if (actors_.kv_mover) self->send(actors_.kv_mover, stop_moving{});
    if (actors_.membership && !lost_)
      self->request(actors_.membership, std::chrono::seconds(1), leave_cluster{})
          .receive([](const wire::msg<wire::Ack>&) {}, [](const caf::error&) {});
    // First what this node's own clients wait for, which may still need its engines; then what
    // other gateways run on them.
    if (actors_.gateway && !lost_)
      self->request(actors_.gateway, config_.node.drain + std::chrono::seconds(2),
                    drain_gateway{config_.node.drain})
          .receive([](const wire::msg<wire::Ack>&) {}, [](const caf::error&) {});
    for (const auto& engine : actors_.engines)
      if (!lost_)
        self->request(engine, config_.node.drain, drain_engine{})
            .receive([](const wire::msg<wire::Ack>&) {}, [](const caf::error&) {});
    if (actors_.writer && !lost_)
      self->request(actors_.writer, config_.node.drain, drain_writer{})
          .receive([](const wire::msg<wire::Ack>&) {}, [](const caf::error&) {});
    // Last, so that it takes what the engines still write.
    if (actors_.kv_store && !lost_)
      self->request(actors_.kv_store, store_drain, drain_store{})
          .receive([](const wire::msg<wire::Ack>&) {}, [](const caf::error&) {});
  }

  if (gateway_http_) gateway_http_->stop();
  if (console_http_) console_http_->stop();
  if (transport_) transport_->stop();
  if (hub_) hub_->stop();
  if (system_) {
    end_node_actors(actors_);
    caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
    node_ = nullptr;
    actors_ = {};
    gateway_http_.reset();
    console_http_.reset();
    system_.reset();
  }
  fetch_child_->stop();  // last: engines that drained may have needed it
  store_ = {};           // closed with the last actor that used it
  hub_.reset();
  transport_.reset();
  if (log_) log(only_fetches() ? "kvfetch.stopped" : "node.stopped", {{"node", to_string(id_)}});
}

}  // namespace

result<std::unique_ptr<node_process>> node_process::start(const process_config& config,
                                                          std::function<void()> on_loss) {
  auto made = std::make_unique<running_node>(config, std::move(on_loss));
  if (const auto opened = made->open(); !opened) return opened.error();
  return std::unique_ptr<node_process>{std::move(made)};
}

}  // namespace deepinfer
