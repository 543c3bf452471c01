#include "tests/support/sim_cluster.hpp"

#include "runtime/base/digest.hpp"
#include "runtime/schedule/choices.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace deepinfer::test {
namespace {

/// Where the simulation's wall clock begins.
constexpr std::chrono::hours sim_epoch{500'000};

// Body of a simulated request: numbers separated by blanks, see `encode`.
std::string encode(const sim_request& r) {
  std::ostringstream out;
  out << r.max_tokens << ' ' << r.sampling.temperature << ' ' << r.sampling.seed << ' '
      << r.ignore_eos << ' ' << r.stream << ' ' << r.choices << ' '
      << (r.logprobs ? static_cast<int>(*r.logprobs) : -1) << ' ' << r.stop_at;
  for (const int32_t id : r.prompt) out << ' ' << id;
  return out.str();
}

uint64_t digest_row(const token_logprobs& row) {
  std::ostringstream out;
  out << std::hexfloat << row.chosen;
  for (const scored_token& one : row.best) out << ' ' << one.id << ' ' << one.logprob;
  return digest_of(out.str()).lo;
}

// The answer's bytes: every token as "<id> ", of a choice above 0 as "<choice>:<id> ", with log
// probabilities as "<choice>:<id>:<digest> "; the end of a choice as "<choice>! ", that of the
// answer as "end". An error event is "error".
class sim_writer final : public answer_writer {
public:
  sim_writer(const sim_request& request) : request_(request), stopped_(request.choices) {}

  std::string begin(const answer_usage&) override { return ""; }
  fed feed(const fed_tokens& tokens) override {
    REQUIRE(tokens.choice < request_.choices);
    REQUIRE(tokens.logprobs.size() == (request_.logprobs ? tokens.ids.size() : 0));
    std::string bytes;
    for (size_t i = 0; i < tokens.ids.size() && !stopped_[tokens.choice]; ++i) {
      const std::string id = std::to_string(tokens.ids[i]);
      if (tokens.choice != 0 || request_.logprobs) bytes += std::to_string(tokens.choice) + ':';
      bytes += id;
      if (request_.logprobs) bytes += ':' + std::to_string(digest_row(tokens.logprobs[i]));
      bytes += ' ';
      stopped_[tokens.choice] = tokens.ids[i] == request_.stop_at;
    }
    whole_ += bytes;
    return {bytes, stopped_[tokens.choice]};
  }
  std::string end(const choice_result& how, const answer_usage& usage) override {
    REQUIRE(how.choice < request_.choices);
    std::string bytes = request_.choices == 1 ? "" : std::to_string(how.choice) + "! ";
    whole_ += bytes;
    if (++ended_ < request_.choices) return bytes;
    const bool streamed = usage.output_tokens == 0 || !request_.stream;
    return (streamed ? whole_ : bytes) + "end";
  }
  std::string fail(const recipe::api_error& why) override {
    return why.status == 504 ? "late error" : "error";
  }
  std::string keep_alive() override { return ""; }

private:
  sim_request request_;
  std::vector<bool> stopped_;
  uint32_t ended_ = 0;
  std::string whole_;
};

class sim_protocol final : public protocol_codec {
public:
  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context&) const override {
    auto out = std::make_shared<prepared_exchange>();
    sim_request r;
    std::istringstream in{request.body};
    int logprobs = -1;
    in >> out->max_tokens >> out->sampling.temperature >> out->sampling.seed >> out->ignore_eos >>
        r.stream >> r.choices >> logprobs >> r.stop_at;
    for (int32_t id = 0; in >> id;) out->tokens.push_back(id);
    if (logprobs >= 0) r.logprobs = static_cast<uint32_t>(logprobs);
    out->stream = r.stream;
    out->choices = r.choices;
    out->logprobs = r.logprobs;
    out->writer = std::make_unique<sim_writer>(r);
    return out;
  }
  std::string error_body(const http_request&,
                         const recipe::api_error& error,
                         const exchange_context&) const override {
    return recipe::error_body(error);
  }
  bool serves(std::string_view path) const override { return path == "/v1/chat/completions"; }
  std::optional<recipe::api_result<std::string>> look_up(const http_request&) const override {
    return std::nullopt;
  }
};

}  // namespace

result<void> sim_client::respond(uint16_t status,
                                 std::string_view,
                                 std::string body,
                                 const http_headers&) {
  REQUIRE(state_ == outcome::open);
  REQUIRE(status_ == 0);
  status_ = status;
  if (status != 200) {
    state_ = outcome::error_status;
    text_ = body;
    late_ = status == 504;
  } else {
    take(body);
  }
  return {};
}

result<void> sim_client::begin_stream(uint16_t status, std::string_view, const http_headers&) {
  REQUIRE(status_ == 0);
  status_ = status;
  return {};
}

result<size_t> sim_client::write(std::string chunk) {
  REQUIRE(status_ != 0);
  if (left_) return failure{error_code::unreachable, "gone"};
  if (pending_ + chunk.size() > capacity_) {
    refused_ = true;
    return failure{error_code::no_capacity, "full"};
  }
  if (capacity_ < unlimited) pending_ += chunk.size();
  take(chunk);
  return pending_;
}

result<void> sim_client::finish() {
  if (state_ == outcome::open) state_ = outcome::cut;
  return {};
}

void sim_client::take(const std::string& bytes) {
  REQUIRE(state_ == outcome::open);
  // Pieces may end anywhere: words count once they are whole.
  half_ += bytes;
  const size_t whole =
      half_.ends_with("end") || half_.ends_with("error") ? half_.size() : half_.rfind(' ') + 1;
  std::istringstream in{half_.substr(0, whole)};
  half_.erase(0, whole);
  for (std::string word; in >> word;) take_word(word);
  text_ += bytes;
}

void sim_client::take_word(const std::string& word) {
  if (word == "end") {
    state_ = outcome::complete;
  } else if (word == "late") {
    late_ = true;
  } else if (word == "error") {
    state_ = outcome::error_event;
  } else if (word.ends_with('!')) {
    REQUIRE_FALSE(std::exchange(choices_[std::stoul(word)].ended, true));
  } else {
    const size_t first = word.find(':'), second = word.find(':', first + 1);
    sim_choice& choice = choices_[first == std::string::npos ? 0 : std::stoul(word)];
    REQUIRE_FALSE(choice.ended);
    choice.tokens.push_back(std::stoi(first == std::string::npos ? word : word.substr(first + 1)));
    if (first != std::string::npos && second != std::string::npos)
      choice.rows.push_back(std::stoull(word.substr(second + 1)));
  }
}

const sim_choice& sim_client::choice(uint32_t number) const {
  static const sim_choice none;
  const auto found = choices_.find(number);
  return found == choices_.end() ? none : found->second;
}

void sim_client::read_all() {
  const bool was_full = std::exchange(pending_, 0) > 0 || refused_;
  refused_ = false;
  if (was_full && drain_) drain_();
}

void sim_client::leave() {
  left_ = true;
  if (closed_) closed_({error_code::cancelled, "client left"});
}

sim_node::sim_node(net::loop_network& network,
                   const net::loop_node& life,
                   const std::set<node_role>& what,
                   const sim_options& options,
                   const std::vector<std::string>& seeds,
                   const kv_backing& backing,
                   const sim_clock& clock,
                   uint64_t seed)
    : store(backing), transport(network.make_transport(life)), roles(what), address(life.address) {
  world.shuffle(seed);
  hub = std::make_unique<remote_hub>(world.system, *transport, remote_config{},
                                     [this] { return world.now(); });
  hub->subscribe(events->subscription(nullptr));
  REQUIRE(transport->start(*hub));
  node_plan plan;
  plan.settings = options.settings;
  plan.roles = roles;
  plan.cluster = life.cluster;
  plan.self.id = life.id;
  plan.self.epoch = life.epoch;
  plan.self.address = plan.self.name = life.address;
  for (const auto role : roles) plan.self.roles.emplace_back(to_string(role));
  plan.seeds = seeds;
  plan.hub = hub.get();
  plan.transport = transport.get();
  plan.make_model = [&options] {
    return std::shared_ptr<model::step_model>{*model::make_toy_model(options.model)};
  };
  plan.model_name = options.model.name;
  plan.protocol = std::make_shared<sim_protocol>();
  if (!options.public_prompts.empty())
    plan.shared_prompts = std::make_shared<const public_prompts>(options.public_prompts);
  plan.unix_time = [] { return std::chrono::seconds{0}; };
  plan.unix_time_ms = [this, clock] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(world.now()) + sim_epoch + *clock;
  };
  if (options.fetch_apart) {
    plan.settings.kvfetch.process = "separate";
    plan.self.machine = "the only one";
    plan.fetch_process.may_start = [] { return true; };
    plan.fetch_process.start = [] { return result<void>{}; };  // the test does
    plan.fetch_process.ended = [] { return std::optional<fetch_end>{}; };
  }
  plan.store = store;
  plan.seed = seed;
  plan.low_water_bytes = 16;
  plan.piece_bytes = 8;
  plan.threads = threading::simulation;
  auto made = spawn_node_actors(world.system, plan);
  REQUIRE(made);
  actors = *std::move(made);
  events->deliver_to(actors.membership);
}

sim_node::~sim_node() {
  transport->stop();
  hub->stop();
  end_node_actors(actors);
  actors = {};
  world.settle();
  CHECK(world.live_actors() == 0);
}

sim_cluster::sim_cluster(uint64_t seed, const sim_options& options)
    : network(seed, options.network), options_(options), seed_(seed), source_(network) {
  driver_.add_source(source_);
}

sim_cluster::~sim_cluster() {
  nodes_.clear();
  graves_.clear();
  CHECK(network.regions() == 0);
}

sim_node& sim_cluster::start(const std::string& address, const std::set<node_role>& roles) {
  ++lives_;
  const net::loop_node life{node_id{0xA0 + lives_, lives_}, lives_, address};
  if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end())
    addresses_.push_back(address);
  const kv_backing store = roles.contains(node_role::kvstore) ? store_at(address) : kv_backing{};
  nodes_.push_back(std::make_unique<sim_node>(network, life, roles, options_, addresses_, store,
                                              clock_at(address), seed_ * 1000 + lives_));
  driver_.add_source(nodes_.back()->world);
  return *nodes_.back();
}

kv_backing sim_cluster::store_at(const std::string& address) {
  const uint64_t number = digest_of(address).lo;
  storage::memory_medium& medium = media_.try_emplace(address, number).first->second;
  medium.process_died();
  constexpr uint64_t capacity = 64 << 20;
  auto opened = medium.open(store_settings(options_.settings.kvstore, capacity));
  REQUIRE(opened);
  kv_backing made;
  made.store = *std::move(opened);
  made.id = {number, 1};
  made.replicas = options_.settings.kvstore.replicas;
  made.capacity_bytes = capacity;
  return made;
}

void sim_cluster::kill(const std::string& address) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& n) { return n->address == address; });
  REQUIRE(found != nodes_.end());
  network.kill(address);
  driver_.remove_source((*found)->world);
  graves_.push_back(std::move(*found));
  nodes_.erase(found);
}

void sim_cluster::leave(const std::string& address) {
  sim_node* node = find(address);
  REQUIRE(node != nullptr);
  caf::anon_send(node->actors.membership, leave_cluster{});
  advance(std::chrono::milliseconds(200));
  kill(address);
}

sim_node* sim_cluster::find(const std::string& address) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& n) { return n->address == address; });
  return found == nodes_.end() ? nullptr : found->get();
}

std::shared_ptr<sim_client> sim_cluster::send(sim_node& gateway,
                                              const sim_request& request,
                                              size_t capacity) {
  auto client = std::make_shared<sim_client>(capacity);
  auto http = std::make_shared<http_request>();
  http->method = "POST";
  http->path = "/v1/chat/completions";
  http->body = encode(request);
  if (!request.tenant.empty()) http->headers.push_back({"authorization", request.tenant});
  caf::anon_send(gateway.actors.gateway, http_exchange{http, client});
  return client;
}

sim_choice sim_cluster::expected(const sim_request& request, uint32_t choice) const {
  model::sampling_params params = request.sampling;
  params.seed = schedule::choice_seed(params.seed, choice);
  std::vector<int32_t> all = request.prompt;
  sim_choice out;
  out.ended = request.choices > 1;  // a single answer's end is that of the whole
  while (out.tokens.size() < request.max_tokens && all.size() < options_.model.context_limit) {
    const int32_t next = model::toy_next_token(options_.model, all, params);
    if (request.logprobs)
      out.rows.push_back(
          digest_row(model::toy_logprobs(options_.model, all, next, *request.logprobs)));
    all.push_back(next);
    out.tokens.push_back(next);
    if (next == options_.model.stop_token && !request.ignore_eos) break;
    if (next == request.stop_at) break;
  }
  return out;
}

void sim_cluster::check_answer(const sim_request& request, const sim_client& client) const {
  for (uint32_t i = 0; i < request.choices; ++i) {
    CAPTURE(i);
    const sim_choice want = expected(request, i);
    const sim_choice& got = client.choice(i);
    REQUIRE(got.tokens.size() <= want.tokens.size());
    CHECK(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));  // I-4, I-5
    CHECK(got.rows.size() == (request.logprobs ? got.tokens.size() : 0));
    CHECK(std::equal(got.rows.begin(), got.rows.end(), want.rows.begin()));
    if (got.ended || client.state() == sim_client::outcome::complete) CHECK(got == want);
  }
  CHECK(client.choice(request.choices).tokens.empty());
  CHECK(client.state() != sim_client::outcome::cut);
}

void sim_cluster::check_idle(sim_node& node) {
  for (const auto& engine : node.actors.engines) {
    const auto gauges = counters(node, engine);
    for (const char* name : {"sequences", "waiting", "steps_in_flight", "transfers", "staged",
                             "requests_known", "receivers"}) {
      CAPTURE(name);
      CHECK(gauges.at(name) == 0);
    }
    CHECK(gauges.at("free_tokens") == gauges.at("state_tokens"));
  }
  if (node.actors.writer) {
    const auto gauges = counters(node, node.actors.writer);
    for (const char* name : {"queue_bytes", "jobs", "in_flight", "staged_bytes"}) {
      CAPTURE(name);
      CHECK(gauges.at(name) == 0);
    }
  }
  if (!node.actors.gateway) return;
  const auto gauges = counters(node, node.actors.gateway);
  CHECK(gauges.at("open") == 0);
  CHECK(gauges.at("places") == 0);
}

order_report sim_cluster::purge(sim_node& node, const storage::cache_scope& scope) {
  auto answer = node.world.start_ask<order_report>(node.actors.orders, purge_scope{scope});
  advance(std::chrono::seconds(20));
  const auto report = answer.get();
  REQUIRE(report);
  return *report;
}

std::map<std::string, int64_t> sim_cluster::counters(sim_node& node,
                                                     const inspectable_actor& actor) {
  auto answer = node.world.start_ask<wire::msg<wire::ActorInfo>>(actor, wire::msg<wire::Inspect>{});
  run();
  std::map<std::string, int64_t> all;
  const auto info = answer.get();
  REQUIRE(info);
  for (const auto counter : info->get().getCounters())
    all[counter.getName().cStr()] = counter.getValue();
  return all;
}

std::vector<sim_figures> sim_cluster::figures(sim_node& node) {
  auto answer = node.world.start_ask<wire::msg<wire::LocalTopology>>(
      console_actor{node.actors.console}, wire::msg<wire::LocalTopologyQuery>{});
  run();
  const auto all = answer.get();
  REQUIRE(all);
  std::vector<sim_figures> out;
  for (const auto actor : all->get().getActors()) {
    sim_figures one{actor.getKind().cStr(), {}};
    for (const auto counter : actor.getCounters())
      one.counters[counter.getName().cStr()] = counter.getValue();
    out.push_back(std::move(one));
  }
  return out;
}

void sim_cluster::check_cache_idle(sim_node& node) {
  static const std::map<std::string, std::vector<std::string>> held{
      {"kv_fetch",
       {"open_fetches", "waiting_fetches", "jobs", "open_groups", "reads_under_way",
        "reading_bytes", "blocks_held", "askers"}},
      {"kv_store",
       {"leases", "reservations", "puts_open", "reads_open", "pulling_bytes", "staged_bytes",
        "works_waiting"}},
      {"ring_host", {"holds"}},
  };
  for (const sim_figures& actor : figures(node)) {
    const auto found = held.find(actor.kind);
    if (found == held.end()) continue;
    for (const std::string& name : found->second) {
      CAPTURE(node.address);
      CAPTURE(actor.kind);
      CAPTURE(name);
      CHECK(actor.counters.at(name) == 0);
    }
  }
}

}  // namespace deepinfer::test
