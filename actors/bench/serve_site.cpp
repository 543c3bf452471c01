#include "actors/bench/serve_site.hpp"

#include "actors/bench/bare_site.hpp"
#include "actors/bench/bench_node.hpp"
#include "actors/bench/known_protocol.hpp"
#include "actors/bench/null_model.hpp"
#include "actors/edge/api_protocols.hpp"
#include "actors/node/node_actors.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

namespace deepinfer::bench {
namespace {

/// A node as `deepinfer node` starts it, but for the models and the protocol.
class actor_site {
public:
  ~actor_site() {
    if (server_) server_->stop();
    for (const auto& actor : actors_.essential)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    for (const auto& actor : actors_.companions)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }

  result<void> open(const site_plan& plan) {
    auto node = bench_node::make();
    if (!node) return node.error();
    node_ = *std::move(node);
    auto protocol = protocol_of(plan);
    if (!protocol) return protocol.error();
    auto made = spawn_node_actors(node_->system(), node_plan_of(plan, *std::move(protocol)));
    if (!made) return made.error();
    actors_ = *std::move(made);
    http_config config;
    config.listen = "127.0.0.1:0";
    auto server = make_http_server(
        config, [gateway = actors_.gateway](std::shared_ptr<const http_request> request,
                                            std::shared_ptr<http_responder> responder) {
          caf::anon_send(gateway, http_exchange{std::move(request), std::move(responder)});
        });
    if (!server) return server.error();
    server_ = *std::move(server);
    return server_->start();
  }

  [[nodiscard]] std::string address() const { return server_->address(); }

private:
  static result<std::shared_ptr<const protocol_codec>> protocol_of(const site_plan& plan) {
    if (plan.kind == site_kind::known) return make_known_protocol();
    auto tokenizer = text::load_tokenizer(std::filesystem::path{plan.model} / "tokenizer.json");
    if (!tokenizer) return tokenizer.error();
    const auto words = (*tokenizer)->encode(" the answer is that one of them was here", {});
    if (!words) return words.error();
    const std::shared_ptr<const text::tokenizer> shared = *std::move(tokenizer);
    return make_stamped_protocol(
        make_api_protocols({.tokenizer = shared, .model = {"null", {}, 1u << 16}}), *words);
  }

  node_plan node_plan_of(const site_plan& plan, std::shared_ptr<const protocol_codec> protocol) {
    node_plan out;
    // Room for the thousand streams whose memory is measured; all else as in service.
    for (engine_config* engine : {&out.settings.prefill, &out.settings.decode}) {
      engine->planner.max_sequences = engine->planner.max_waiting = 4096;
      engine->planner.state_tokens = uint64_t{1} << 32;
    }
    out.settings.gateway.max_open_requests = 4096;
    out.roles = *parse_roles("gateway,prefill,decode,controller");
    out.settings.cache.enabled = false;  // what is measured is computed
    out.cluster = "bench";
    out.self.id = node_->transport().self();
    out.self.epoch = node_->transport().epoch();
    out.self.address = out.self.name = node_->transport().address();
    for (const auto role : out.roles) out.self.roles.emplace_back(to_string(role));
    out.hub = &node_->hub();
    out.transport = &node_->transport();
    // The prefill engine is asked for first; only the decode engine keeps time.
    out.make_model = [step = plan.step, first = true]() mutable {
      return make_null_model({std::exchange(first, false) ? std::chrono::microseconds{0} : step});
    };
    out.model_name = "null";
    out.protocol = std::move(protocol);
    out.unix_time = [] { return std::chrono::seconds{1'772'366'400}; };
    out.recent_log = [] { return std::vector<std::string>{}; };
    out.seed = 1;
    return out;
  }

  std::unique_ptr<bench_node> node_;
  node_actors actors_;
  std::unique_ptr<http_server> server_;
};

int serve_until_input_ends(const std::string& address) {
  std::printf("%s\n", address.c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

int fail(const failure& why) {
  std::fprintf(stderr, "%s\n", to_string(why).c_str());
  return 1;
}

}  // namespace

int serve_site(const site_plan& plan) {
  net::choose_provider("tcp");
  if (plan.kind == site_kind::bare) {
    const auto site = bare_site::make(plan.step);
    return site ? serve_until_input_ends((*site)->address()) : fail(site.error());
  }
  actor_site site;
  if (const auto opened = site.open(plan); !opened) return fail(opened.error());
  return serve_until_input_ends(site.address());
}

}  // namespace deepinfer::bench
