#include "actors/edge/gateway.hpp"

#include "runtime/recipe/api_error.hpp"

#include <string>
#include <string_view>

namespace deepinfer {
namespace {

using self_ptr = gateway_impl_actor::stateful_pointer<gateway_state>;

constexpr std::string_view json = "application/json";

void respond(const http_exchange& exchange,
             uint16_t status,
             std::string body,
             const http_headers& extra = {}) {
  static_cast<void>(exchange.responder->respond(status, json, std::move(body), extra));
}

void refuse(self_ptr self,
            const http_exchange& exchange,
            const http_problem& problem,
            const http_headers& extra = {}) {
  self->state.card.count("refused");
  respond(exchange, problem.status, problem_json(problem), extra);
}

bool serves(const gateway_state& state, const std::string& role) {
  const auto found = state.accepting.find(role);
  return found != state.accepting.end() && found->second > 0;
}

bool ready(const gateway_state& state) {
  return !state.draining && state.has_majority && serves(state, "prefill") &&
         serves(state, "decode");
}

std::string health_body(const gateway_state& state) {
  std::string body =
      std::string{R"({"status":")"} + (ready(state) ? "ready" : "not_ready") + R"(","reason":")";
  if (state.draining)
    body += "this node is shutting down";
  else if (!state.has_majority)
    body += "this side of the cluster lost contact to the majority of its nodes";
  else if (!serves(state, "prefill"))
    body += "no prefill engine accepts work: start a node with --roles prefill";
  else if (!serves(state, "decode"))
    body += "no decode engine accepts work: start a node with --roles decode";
  body += R"(","open_requests":)" + std::to_string(state.open.size());
  for (const auto& [role, count] : state.accepting)
    body += ",\"" + role + "_engines\":" + std::to_string(count);
  return body + "}";
}

void start_request(self_ptr self, const http_exchange& exchange) {
  gateway_state& state = self->state;
  const http_headers later{{"retry-after", "1"}};
  if (state.draining)
    return refuse(self, exchange,
                  {503, "server_error", "shutting_down",
                   "This node is shutting down; send the request to another one."},
                  later);
  if (!state.has_majority)
    return refuse(self, exchange,
                  {503, "server_error", "minority",
                   "This side of the cluster lost contact to the majority of its nodes and takes "
                   "no requests until they are back."},
                  later);
  auto places = std::make_shared<held_places>(state.places);
  if (!places->take(1))
    return refuse(self, exchange,
                  {503, "overloaded_error", "too_many_requests",
                   "All places for requests are taken (gateway.max_open_requests); retry later."},
                  later);
  const auto& setup = *state.requests;
  auto own = std::make_shared<request_setup>(setup);
  own->places = std::move(places);
  own->codec = state.setup.codecs[state.next_codec++ % state.setup.codecs.size()];
  const exchange_context context{
      {state.random.next(), state.random.next()}, state.setup.unix_time(), state.random.next()};
  const request_actor made =
      self->spawn(request, std::shared_ptr<const request_setup>{own}, exchange, context);
  self->monitor(made);
  state.open.emplace(made.address(), made);
  state.card.count("requests");
  state.card.sent(made);  // it starts with what the gateway hands it
  if (state.setup.track) state.setup.track(made);
}

void on_exchange(self_ptr self, const http_exchange& exchange) {
  const http_request& request = *exchange.request;
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (self->state.setup.protocol->serves(request.path)) {
    if (request.method == "POST") return start_request(self, exchange);
    return refuse(self, exchange, {405, "invalid_request_error", "method_not_allowed", "Use POST."},
                  {{"allow", "POST"}});
  }
  const bool known = request.path == "/v1/models" || request.path == "/live" ||
                     request.path == "/ready" || request.path == "/health";
  if (!known)
    return refuse(
        self, exchange,
        {404, "invalid_request_error", "not_found",
         "No such route: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages; "
         "GET /v1/models, /live, /ready, /health."});
  if (!get)
    return refuse(self, exchange, {405, "invalid_request_error", "method_not_allowed", "Use GET."},
                  {{"allow", "GET, HEAD"}});
  if (request.path == "/v1/models")
    return respond(exchange, 200, self->state.setup.protocol->models_body());
  if (request.path == "/live") return respond(exchange, 200, R"({"status":"live"})");
  // /health tells in detail, /ready decides: both fail when a request could not be served.
  respond(exchange, ready(self->state) ? 200 : 503, health_body(self->state));
}

void on_request_down(self_ptr self, const caf::down_msg& down) {
  gateway_state& state = self->state;
  state.open.erase(down.source);
  if (state.draining && state.open.empty() && state.drained.pending())
    state.drained.deliver(wire::msg<wire::Ack>{});
}

caf::typed_response_promise<wire::msg<wire::Ack>> drain(self_ptr self, const drain_gateway& order) {
  gateway_state& state = self->state;
  state.draining = true;
  state.drained = self->make_response_promise<wire::msg<wire::Ack>>();
  if (state.open.empty()) state.drained.deliver(wire::msg<wire::Ack>{});
  for (const auto& [address, open] : state.open)
    self->delayed_send(open, order.grace,
                       stop_request{{error_code::unreachable, "this node is shutting down"}});
  return state.drained;
}

void use(self_ptr self, const use_balancers& balancers) {
  gateway_state& state = self->state;
  state.requests->prefill_balancer = balancers.prefill;
  state.requests->decode_balancer = balancers.decode;
}

}  // namespace

gateway_impl_actor::behavior_type gateway(gateway_impl_actor::stateful_pointer<gateway_state> self,
                                          const gateway_setup& setup) {
  gateway_state& state = self->state;
  state.setup = setup;
  state.random = rng{setup.seed};
  state.card = actor_card{"gateway", *setup.hub};
  state.places = std::make_shared<answer_places>(setup.config.max_open_requests);
  state.requests = std::make_shared<request_setup>();
  state.requests->config = setup.requests;
  state.requests->model = setup.model;
  state.requests->hub = setup.hub;
  state.requests->protocol = setup.protocol;
  state.requests->unix_time = setup.unix_time;
  state.requests->node = setup.node;
  state.requests->low_water_bytes = setup.low_water_bytes;
  state.requests->piece_bytes = setup.piece_bytes;
  state.requests->metrics = setup.metrics;
  state.requests->log = setup.log;
  self->set_down_handler([self](const caf::down_msg& down) { on_request_down(self, down); });
  return {
      [self](const http_exchange& exchange) { on_exchange(self, exchange); },
      [self](const engines_available& news) { self->state.accepting[news.role] = news.accepting; },
      [self](const wire::msg<wire::Members>& members) {
        self->state.has_majority = members.get().getMajority();
      },
      [self](const drain_gateway& order) { return drain(self, order); },
      [self](const wire::msg<wire::Inspect>&) {
        self->state.card.set("open", static_cast<int64_t>(self->state.open.size()));
        self->state.card.set("places", self->state.places->taken());
        return self->state.card.info(*self, std::to_string(self->state.open.size()) +
                                                " requests open" +
                                                (ready(self->state) ? "" : ", not ready"));
      },
      [self](const use_balancers& balancers) { use(self, balancers); },
  };
}

}  // namespace deepinfer
