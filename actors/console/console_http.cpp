#include "actors/console/console_http.hpp"

#include "actors/console/actor_metrics.hpp"
#include "actors/console/order_http.hpp"
#include "actors/console/topology_json.hpp"
#include "actors/console/topology_page.hpp"
#include "actors/messages/errors.hpp"

#include <caf/event_based_actor.hpp>

#include <functional>
#include <string>

namespace deepinfer {
namespace {

using responder_ptr = std::shared_ptr<http_responder>;

constexpr std::string_view json = "application/json";

void refuse(const responder_ptr& to, const http_problem& problem) {
  static_cast<void>(to->respond(problem.status, json, problem_json(problem)));
}

// One short-lived actor per question: the listener's thread never waits.
template <class Question, class Answer>
void ask(const console_http_setup& setup,
         const responder_ptr& to,
         std::string_view type,
         std::function<std::string(typename Answer::Reader)> write) {
  setup.system->spawn<caf::hidden>([console = setup.console, within = setup.within, to, type,
                                    write](caf::event_based_actor* self) {
    self->request(console, within, wire::msg<Question>{})
        .then(
            [to, type, write](const wire::msg<Answer>& answer) {
              static_cast<void>(to->respond(200, type, write(answer.get())));
            },
            [to](const caf::error& e) {
              const std::string why = from_caf(e).detail;
              refuse(to, {503, "server_error", "console_unavailable",
                          why.empty() ? "the console did not answer in time" : why});
            });
  });
}

void handle(const console_http_setup& setup, const http_request& request, const responder_ptr& to) {
  if (request.path.starts_with(order_routes))
    return handle_order({setup.system, setup.orders}, request, to);
  if (request.method != "GET" && request.method != "HEAD")
    return refuse(to, {405, "invalid_request_error", "method_not_allowed", "Use GET."});
  if (request.path == "/") {
    // Nothing on the page comes from elsewhere, and no page elsewhere may frame it.
    const http_headers strict{
        {"content-security-policy",
         "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
         "'self'; img-src data:; frame-ancestors 'none'"},
        {"x-content-type-options", "nosniff"}};
    static_cast<void>(
        to->respond(200, "text/html; charset=utf-8", std::string{topology_page}, strict));
  } else if (request.path == "/api/topology") {
    ask<wire::TopologyQuery, wire::Topology>(setup, to, json, topology_json);
  } else if (request.path == "/api/events") {
    ask<wire::LocalTopologyQuery, wire::LocalTopology>(setup, to, json, events_json);
  } else if (request.path == "/metrics") {
    ask<wire::LocalTopologyQuery, wire::LocalTopology>(
        setup, to, "text/plain; version=0.0.4; charset=utf-8",
        [numbers = setup.numbers](wire::LocalTopology::Reader node) {
          return numbers->text() + actor_metrics_text(node);
        });
  } else if (request.path == "/live") {
    static_cast<void>(to->respond(200, json, R"({"status":"live"})"));
  } else {
    refuse(to, {404, "invalid_request_error", "not_found",
                "No such route: /, /api/topology, /api/events, /metrics, /live, /api/kv/..."});
  }
}

}  // namespace

http_handler make_console_handler(const console_http_setup& setup) {
  return [setup](const std::shared_ptr<const http_request>& request,
                 const responder_ptr& responder) { handle(setup, *request, responder); };
}

}  // namespace deepinfer
