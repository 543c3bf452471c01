#include "actors/edge/gateway.hpp"

#include "actors/edge/answer_headers.hpp"
#include "runtime/recipe/api_error.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace deepinfer {
namespace {

using self_ptr = gateway_impl_actor::stateful_pointer<gateway_state>;

constexpr std::string_view json = "application/json";

/// A request at the door: what was asked, and under which id.
struct visit {
  const http_exchange& exchange;
  exchange_context context;

  [[nodiscard]] const http_request& request() const { return *exchange.request; }
  void respond(uint16_t status, std::string body, http_headers more = {}) const {
    static_cast<void>(exchange.responder->respond(status, json, std::move(body),
                                                  with_request_id(context.id, std::move(more))));
  }
};

// Read from what all requests count, at the moment of the question.
void show_cache_uses(actor_card& card, const cache_uses& uses) {
  for (const auto& [name, use] :
       {std::pair<std::string, const cache_use*>{"agent", &uses.agent}, {"chat", &uses.chat}}) {
    card.set("prompt_tokens_" + name, static_cast<int64_t>(use->prompt_tokens));
    card.set("cached_tokens_" + name, static_cast<int64_t>(use->cached_tokens));
    card.set("prompt_blocks_" + name, static_cast<int64_t>(use->prompt_blocks));
    card.set("cached_blocks_" + name, static_cast<int64_t>(use->cached_blocks));
  }
}

void refuse(self_ptr self,
            const visit& from,
            const recipe::api_error& error,
            http_headers more = {}) {
  self->state.card.count("refused");
  from.respond(static_cast<uint16_t>(error.status),
               self->state.setup.protocol->error_body(from.request(), error, from.context),
               std::move(more));
}

recipe::api_error wrong_request(int status, std::string code, std::string message) {
  return {status, "invalid_request_error", std::move(code), {}, std::move(message)};
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

/// Why no request is taken now, if that is so.
std::optional<recipe::api_error> closed(const gateway_state& state) {
  if (state.draining)
    return recipe::api_error{503,
                             "server_error",
                             "shutting_down",
                             {},
                             "This node is shutting down; send the request to another one."};
  if (!state.has_majority)
    return recipe::api_error{503,
                             "server_error",
                             "minority",
                             {},
                             "This side of the cluster lost contact to the majority of its nodes "
                             "and takes no requests until they are back."};
  return std::nullopt;
}

/// A body that came packed is not unpacked: a few bytes could become gigabytes.
bool is_packed(const http_request& request) {
  constexpr std::string_view identity = "identity";
  const auto is_coding = [&](const http_header& h) {
    return h.name == "content-encoding" && !h.value.empty() &&
           !std::equal(h.value.begin(), h.value.end(), identity.begin(), identity.end(),
                       [](char a, char b) { return (a | 0x20) == b; });
  };
  return std::any_of(request.headers.begin(), request.headers.end(), is_coding);
}

/// Nobody waits behind a huge prompt while another codec is free.
codec_actor least_loaded(const std::vector<pooled_codec>& codecs, uint64_t bytes) {
  const auto least = std::min_element(
      codecs.begin(), codecs.end(),
      [](const auto& a, const auto& b) { return a.load->load() < b.load->load(); });
  *least->load += bytes;
  return least->codec;
}

void start_request(self_ptr self, const visit& from) {
  gateway_state& state = self->state;
  if (const auto why = closed(state)) return refuse(self, from, *why, {{"retry-after", "1"}});
  if (is_packed(from.request()))
    return refuse(self, from,
                  wrong_request(415, "unsupported_content_encoding",
                                "The body has a content-encoding, which is not supported; send it "
                                "as it is, without the header."));
  const auto party = party_of(from.request(), state.parties);
  if (!party) return refuse(self, from, party.error());
  auto places = std::make_shared<held_places>(state.places);
  if (!places->take(1))
    return refuse(self, from,
                  {503,
                   "overloaded_error",
                   "too_many_requests",
                   {},
                   "All places for requests are taken (gateway.max_open_requests); retry later."},
                  {{"retry-after", "1"}});
  const auto& setup = *state.requests;
  auto own = std::make_shared<request_setup>(setup);
  own->places = std::move(places);
  own->party = *party;
  own->codec = least_loaded(state.setup.codecs, from.request().body.size());
  const request_actor made =
      self->spawn(request, std::shared_ptr<const request_setup>{own}, from.exchange, from.context);
  self->monitor(made);
  state.open.emplace(made.address(), made);
  state.card.count("requests");
  state.card.sent(made);  // it starts with what the gateway hands it
  if (state.setup.track) state.setup.track(made);
}

/// Status and body of a `GET`; nothing for a path that is none.
std::optional<std::pair<uint16_t, std::string>> look_up(const gateway_state& state,
                                                        const visit& from) {
  const std::string& path = from.request().path;
  if (path == "/live") return std::pair{uint16_t{200}, std::string{R"({"status":"live"})"}};
  // /health tells in detail, /ready decides: both fail when a request could not be served.
  if (path == "/ready" || path == "/health")
    return std::pair{uint16_t(ready(state) ? 200 : 503), health_body(state)};
  auto found = state.setup.protocol->look_up(from.request());
  if (!found) return std::nullopt;
  if (*found) return std::pair{uint16_t{200}, **std::move(found)};
  const recipe::api_error& error = found->error();
  return std::pair{static_cast<uint16_t>(error.status),
                   state.setup.protocol->error_body(from.request(), error, from.context)};
}

void on_exchange(self_ptr self, const http_exchange& exchange) {
  gateway_state& state = self->state;
  const visit from{
      exchange,
      {{state.random.next(), state.random.next()}, state.setup.unix_time(), state.random.next()}};
  const std::string& method = from.request().method;
  if (state.setup.protocol->serves(from.request().path)) {
    if (method == "POST") return start_request(self, from);
    return refuse(self, from, wrong_request(405, "method_not_allowed", "Use POST."),
                  {{"allow", "POST"}});
  }
  auto found = look_up(state, from);
  if (!found)
    return refuse(self, from,
                  wrong_request(404, "not_found",
                                "No such route. There are: " + state.setup.protocol->routes() +
                                    ", /live, /ready, /health."));
  if (method != "GET" && method != "HEAD")
    return refuse(self, from, wrong_request(405, "method_not_allowed", "Use GET."),
                  {{"allow", "GET, HEAD"}});
  from.respond(found->first, std::move(found->second));
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

party_rules make_party_rules(const gateway_config& gateway, const cache_config& cache) {
  return {gateway.trust_tenant_header ? header_trust::believed : header_trust::none,
          cache.share == "organization" ? cache_sharing::organization : cache_sharing::tenant,
          gateway.agent_tenants};
}

gateway_impl_actor::behavior_type gateway(gateway_impl_actor::stateful_pointer<gateway_state> self,
                                          const gateway_setup& setup) {
  gateway_state& state = self->state;
  state.setup = setup;
  state.random = rng{setup.seed};
  state.parties = make_party_rules(setup.config, setup.cache);
  state.card = actor_card{"gateway", *setup.hub};
  state.places = std::make_shared<answer_places>(setup.config.max_open_requests);
  state.requests = std::make_shared<request_setup>();
  state.requests->config = setup.requests;
  state.requests->cache = setup.cache;
  state.requests->check = setup.check;
  state.requests->model = setup.model;
  state.requests->hub = setup.hub;
  state.requests->protocol = setup.protocol;
  state.requests->unix_time = setup.unix_time;
  state.requests->node = setup.node;
  state.requests->low_water_bytes = setup.low_water_bytes;
  state.requests->piece_bytes = setup.piece_bytes;
  state.requests->metrics = setup.metrics;
  state.requests->uses = std::make_shared<cache_uses>();
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
        show_cache_uses(self->state.card, *self->state.requests->uses);
        return self->state.card.info(*self, std::to_string(self->state.open.size()) +
                                                " requests open" +
                                                (ready(self->state) ? "" : ", not ready"));
      },
      [self](const use_balancers& balancers) { use(self, balancers); },
  };
}

}  // namespace deepinfer
