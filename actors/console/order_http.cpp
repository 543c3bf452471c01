#include "actors/console/order_http.hpp"

#include "actors/edge/client_party.hpp"
#include "actors/messages/errors.hpp"
#include "runtime/recipe/json_value.hpp"

#include <caf/event_based_actor.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace deepinfer {
namespace {

using responder_ptr = std::shared_ptr<http_responder>;
using recipe::json_value;
using std::chrono::milliseconds;

constexpr std::string_view json = "application/json";
constexpr milliseconds usual_time{60'000}, shortest_time{100}, longest_time{3'600'000};
/// The order ends by itself; this is in case its actor does not.
constexpr std::chrono::seconds answer_slack{5};

void refuse(const responder_ptr& to, const http_problem& problem) {
  static_cast<void>(to->respond(problem.status, json, problem_json(problem)));
}

failure wrong(std::string why) {
  return {error_code::invalid_argument, std::move(why)};
}

/// The members of an order, each of a known name, and how long it may take.
struct order_fields {
  std::optional<std::string> tenant, organization;
  bool everybody = false;  ///< what is of prompts that the operators list
  milliseconds within = usual_time;
};

result<void> read_field(const recipe::member_view& member, order_fields& out) {
  if (member.key == "within_ms") {
    const auto* number = member.value->as<int64_t>();
    if (number == nullptr || *number < shortest_time.count() || *number > longest_time.count())
      return wrong("within_ms is a number from 100 to 3600000");
    out.within = milliseconds{*number};
    return {};
  }
  if (member.key == "public") {
    const auto* yes = member.value->as<bool>();
    if (yes == nullptr || !*yes) return wrong("public is true, or left out");
    out.everybody = true;
    return {};
  }
  const bool tenant = member.key == "tenant";
  if (!tenant && member.key != "organization")
    return wrong("unknown field '" + std::string{member.key} + "'");
  const auto* text = member.value->as<std::string>();
  if (text == nullptr) return wrong(std::string{member.key} + " is a string");
  (tenant ? out.tenant : out.organization) = *text;
  return {};
}

result<order_fields> read_fields(std::string_view body) {
  const auto parsed = recipe::parse_json(body, {size_t{64} << 10, 4, 64});
  if (!parsed) return parsed.error();
  const auto* object = parsed->as<recipe::json_object>();
  if (object == nullptr) return wrong("an order is a JSON object");
  order_fields out;
  for (const recipe::member_view& member : recipe::distinct_members(*object))
    if (const auto good = read_field(member, out); !good) return good.error();
  return out;
}

template <class Order>
void carry_out(const order_http_setup& setup, const result<Order>& order, const responder_ptr& to) {
  if (!order) return refuse(to, {400, "invalid_request_error", "bad_order", order.error().detail});
  setup.system->spawn<caf::hidden>(
      [orders = setup.orders, order = *order, to](caf::event_based_actor* self) {
        self->request(orders, order.within + answer_slack, order)
            .then(
                [to](const order_report& report) {
                  static_cast<void>(to->respond(200, json, order_json(report)));
                },
                [to](const caf::error& e) {
                  const std::string why = from_caf(e).detail;
                  refuse(to, {503, "server_error", "order_failed",
                              why.empty() ? "the order was not carried out in time" : why});
                });
      });
}

json_value number(uint64_t value) {
  return json_value{static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX))};
}

json_value entry(const order_outcome& o) {
  recipe::json_object out;
  out.push_back({"kind", json_value{o.kind}});
  out.push_back({"node", json_value{o.node}});
  if (!o.store.empty()) out.push_back({"store", json_value{o.store}});
  out.push_back({"blocks", number(o.blocks)});
  out.push_back({"bytes", number(o.bytes)});
  out.push_back({"rings", number(o.rings)});
  out.push_back({"was_frozen", json_value{o.was_frozen}});
  out.push_back({"problem", json_value{o.problem}});
  return json_value{std::move(out)};
}

}  // namespace

result<purge_scope> read_purge(std::string_view body) {
  const auto fields = read_fields(body);
  if (!fields) return fields.error();
  const int named = int{fields->tenant.has_value()} + int{fields->organization.has_value()} +
                    int{fields->everybody};
  if (named != 1) return wrong("a purge names a tenant, an organization or public, one of them");
  if (fields->everybody) return purge_scope{storage::public_scope(), fields->within};
  auto scope = fields->tenant
                   ? scope_named(storage::scope_kind::tenant, *fields->tenant)
                   : scope_named(storage::scope_kind::organization, *fields->organization);
  if (!scope) return scope.error();
  return purge_scope{*std::move(scope), fields->within};
}

result<acknowledge_clocks> read_acknowledge(std::string_view body) {
  const auto fields = read_fields(body);
  if (!fields) return fields.error();
  if (fields->tenant || fields->organization || fields->everybody)
    return wrong("clocks are of stores, not of tenants or organizations");
  return acknowledge_clocks{fields->within};
}

std::string order_json(const order_report& report) {
  uint64_t blocks = 0, bytes = 0, rings = 0, writes = 0, frozen = 0, stores = 0, problems = 0;
  recipe::json_array list;
  for (const order_outcome& o : report.outcomes) {
    list.push_back(entry(o));
    problems += o.problem.empty() ? 0 : 1;
    rings += o.rings;
    if (o.kind == "kv_writer") writes += o.blocks;
    if (o.kind != "kvstore") continue;
    ++stores;
    blocks += o.blocks;
    bytes += o.bytes;
    frozen += o.was_frozen && o.problem.empty() ? 1 : 0;
  }
  recipe::json_object out;
  out.push_back({"complete", json_value{stores > 0 && problems == 0}});
  out.push_back({"stores", number(stores)});
  out.push_back({"blocks", number(blocks)});
  out.push_back({"bytes", number(bytes)});
  out.push_back({"rings", number(rings)});
  out.push_back({"writes", number(writes)});
  out.push_back({"frozen", number(frozen)});
  out.push_back({"outcomes", json_value{std::move(list)}});
  std::string text;
  recipe::append_spaced_json(text, json_value{std::move(out)});
  return text;
}

void handle_order(const order_http_setup& setup,
                  const http_request& request,
                  const responder_ptr& to) {
  if (request.method != "POST")
    return refuse(to, {405, "invalid_request_error", "method_not_allowed", "Orders are POSTed."});
  // Every browser names the page a POST comes from, and no command line does.
  if (!request.header("origin").empty() || !request.header("sec-fetch-site").empty())
    return refuse(to, {403, "invalid_request_error", "not_for_pages",
                       "Orders are given by command line, not by web pages."});
  if (!request.header("content-type").starts_with(json))
    return refuse(to, {415, "invalid_request_error", "not_json",
                       "Orders are JSON: send content-type: application/json."});
  if (!setup.orders)
    return refuse(to, {503, "server_error", "no_orders", "This node takes no orders."});
  if (request.path == "/api/kv/purge") return carry_out(setup, read_purge(request.body), to);
  if (request.path == "/api/kv/acknowledge-clock")
    return carry_out(setup, read_acknowledge(request.body), to);
  refuse(to, {404, "invalid_request_error", "not_found",
              "No such order: /api/kv/purge, /api/kv/acknowledge-clock."});
}

}  // namespace deepinfer
