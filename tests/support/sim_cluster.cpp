#include "tests/support/sim_cluster.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace deepinfer::test {
namespace {

// Body of a simulated request: numbers separated by blanks, see `encode`.
std::string encode(const sim_request& r) {
  std::ostringstream out;
  out << r.max_tokens << ' ' << r.sampling.temperature << ' ' << r.sampling.seed << ' '
      << r.ignore_eos << ' ' << r.stream;
  for (const int32_t id : r.prompt) out << ' ' << id;
  return out.str();
}

// The answer's bytes: every token as "<id> ", the end as "end". An error event is "error".
class sim_writer final : public answer_writer {
public:
  std::string begin() override { return ""; }
  fed feed(const fed_tokens& tokens) override {
    std::string bytes;
    for (const int32_t id : tokens.ids) bytes += std::to_string(id) + ' ';
    whole_ += bytes;
    return {bytes, false};
  }
  std::string end(const choice_result&, const answer_usage& usage) override {
    const bool streamed = usage.output_tokens == 0 || !stream;
    return (streamed ? whole_ : std::string{}) + "end";
  }
  std::string fail(const recipe::api_error& why) override {
    return why.status == 504 ? "late error" : "error";
  }
  std::string keep_alive() override { return ""; }

  bool stream = true;

private:
  std::string whole_;
};

class sim_protocol final : public protocol_codec {
public:
  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context&) const override {
    auto out = std::make_shared<prepared_exchange>();
    std::istringstream in{request.body};
    in >> out->max_tokens >> out->sampling.temperature >> out->sampling.seed >> out->ignore_eos >>
        out->stream;
    for (int32_t id = 0; in >> id;) out->tokens.push_back(id);
    auto writer = std::make_unique<sim_writer>();
    writer->stream = out->stream;
    out->writer = std::move(writer);
    return out;
  }
  std::string error_body(const http_request&,
                         const recipe::api_error& error,
                         const exchange_context&) const override {
    return recipe::error_body(error);
  }
  bool serves(std::string_view path) const override { return path == "/v1/chat/completions"; }
  std::string models_body() const override { return "{}"; }
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
  for (std::string word; in >> word;) {
    if (word == "end")
      state_ = outcome::complete;
    else if (word == "late")
      late_ = true;
    else if (word == "error")
      state_ = outcome::error_event;
    else
      tokens_.push_back(std::stoi(word));
  }
  text_ += bytes;
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
                   uint64_t seed)
    : transport(network.make_transport(life)), roles(what), address(life.address) {
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
  plan.unix_time = [] { return std::chrono::seconds{0}; };
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
}

sim_cluster::sim_cluster(uint64_t seed, const sim_options& options)
    : network(seed, options.network), options_(options), seed_(seed), source_(network) {
  driver_.add_source(source_);
}

sim_cluster::~sim_cluster() = default;

sim_node& sim_cluster::start(const std::string& address, const std::set<node_role>& roles) {
  ++lives_;
  const net::loop_node life{node_id{0xA0 + lives_, lives_}, lives_, address};
  if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end())
    addresses_.push_back(address);
  nodes_.push_back(std::make_unique<sim_node>(network, life, roles, options_, addresses_,
                                              seed_ * 1000 + lives_));
  driver_.add_source(nodes_.back()->world);
  return *nodes_.back();
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
  caf::anon_send(gateway.actors.gateway, http_exchange{http, client});
  return client;
}

std::vector<int32_t> sim_cluster::expected(const sim_request& request) const {
  std::vector<int32_t> all = request.prompt;
  std::vector<int32_t> out;
  while (out.size() < request.max_tokens && all.size() < options_.model.context_limit) {
    const int32_t next = model::toy_next_token(options_.model, all, request.sampling);
    all.push_back(next);
    out.push_back(next);
    if (next == options_.model.stop_token && !request.ignore_eos) break;
  }
  return out;
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

}  // namespace deepinfer::test
