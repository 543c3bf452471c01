#include "actors/console/order_http.hpp"

#include "tests/support/actor_world.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace deepinfer;
using storage::scope_kind;

/// Keeps the one answer.
class kept_answer : public http_responder {
public:
  result<void> respond(uint16_t code,
                       std::string_view,
                       std::string text,
                       const http_headers&) override {
    status = code;
    body = std::move(text);
    return {};
  }
  result<void> begin_stream(uint16_t, std::string_view, const http_headers&) override { return {}; }
  result<size_t> write(std::string) override { return size_t{0}; }
  result<void> finish() override { return {}; }
  void on_drain(std::function<void()>) override {}
  void on_closed(std::function<void(const failure&)>) override {}
  [[nodiscard]] size_t pending_bytes() const override { return 0; }

  uint16_t status = 0;
  std::string body;
};

http_request post(const std::string& path, const std::string& body) {
  http_request request;
  request.method = "POST";
  request.path = path;
  request.headers = {{"content-type", "application/json"}};
  request.body = body;
  return request;
}

struct order_site : test::actor_world {
  order_site() {
    orders = system.spawn([this](kv_orders_actor::pointer) -> kv_orders_actor::behavior_type {
      return {[this](const purge_scope& order) {
                purged.push_back(order.scope);
                return report;
              },
              [this](const acknowledge_clocks&) {
                ++acknowledged;
                return report;
              },
              [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; }};
    });
  }

  kept_answer answer_to(const http_request& request) {
    const auto kept = std::make_shared<kept_answer>();
    handle_order({&system, orders}, request, kept);
    run();
    return *kept;
  }

  kv_orders_actor orders;
  order_report report;
  std::vector<storage::cache_scope> purged;
  int acknowledged = 0;
};

}  // namespace

TEST_SUITE("actors/console/order_http") {
  TEST_CASE("a purge names a tenant or an organization, and the time it may take") {
    const auto tenant = read_purge(R"({"tenant": "bob", "within_ms": 1500})");
    REQUIRE(tenant);
    CHECK(tenant->scope == storage::cache_scope{scope_kind::tenant, "bob"});
    CHECK(tenant->within == std::chrono::milliseconds{1500});
    const auto shared = read_purge(R"({"organization": "acme"})");
    REQUIRE(shared);
    CHECK(shared->scope == storage::cache_scope{scope_kind::organization, "acme"});
    const auto everybody = read_purge(R"({"public": true})");
    REQUIRE(everybody);
    CHECK(everybody->scope == storage::public_scope());
    CHECK(read_acknowledge("{}"));
  }

  TEST_CASE("what is no order is refused, and the text says why") {
    const std::string deep = std::string(10, '[') + std::string(10, ']');
    for (const std::string& body :
         {std::string{}, std::string{"[]"}, std::string{"{}"}, std::string{R"({"tenant": 1})"},
          std::string{R"({"tenant": "a b"})"},
          std::string{R"({"tenant": "a", "organization": "b"})"},
          std::string{R"({"public": false})"}, std::string{R"({"public": "true"})"},
          std::string{R"({"tenant": "a", "public": true})"}, std::string{R"({"tenants": "a"})"},
          std::string{R"({"tenant": "a", "within_ms": 0})"},
          std::string{R"({"tenant": "a", "within_ms": 3600001})"}, deep,
          R"({"tenant": ")" + std::string(70'000, 'a') + "\"}"}) {
      CAPTURE(body.substr(0, 60));
      const auto order = read_purge(body);
      REQUIRE_FALSE(order);
      CHECK_FALSE(order.error().detail.empty());
    }
    CHECK_FALSE(read_acknowledge(R"({"tenant": "a"})"));
    CHECK_FALSE(read_acknowledge(R"({"public": true})"));
  }

  TEST_CASE("an order is carried out once, and answered with what became of it") {
    order_site site;
    site.report.outcomes = {{"kvstore", "one", "id", 3, 300}, {"ring_host", "two", "", 0, 0, 2}};
    const auto got = site.answer_to(post("/api/kv/purge", R"({"tenant": "anonymous"})"));
    CHECK(got.status == 200);
    CHECK(site.purged.size() == 1);
    CHECK(got.body.find(R"("complete": true)") != std::string::npos);
    CHECK(got.body.find(R"("blocks": 3, "bytes": 300, "rings": 2)") != std::string::npos);
    site.report.outcomes[0].problem = "its node is down";
    CHECK(site.answer_to(post("/api/kv/purge", R"({"tenant": "anonymous"})"))
              .body.find(R"("complete": false)") != std::string::npos);
    CHECK(site.answer_to(post("/api/kv/acknowledge-clock", "{}")).status == 200);
    CHECK(site.acknowledged == 1);
  }

  TEST_CASE("without any store nothing counts as complete") {
    order_site site;
    CHECK(site.answer_to(post("/api/kv/purge", R"({"tenant": "bob"})"))
              .body.find(R"("complete": false)") != std::string::npos);
  }

  TEST_CASE("no page in a browser gives an order, nor a request that could be one by mistake") {
    order_site site;
    const auto order = post("/api/kv/purge", R"({"tenant": "bob"})");
    auto page = order;
    page.headers.push_back({"origin", "http://127.0.0.1:8001"});
    CHECK(site.answer_to(page).status == 403);
    auto fetched = order;
    fetched.headers.push_back({"sec-fetch-site", "same-origin"});
    CHECK(site.answer_to(fetched).status == 403);
    auto form = order;
    form.headers[0].value = "text/plain";
    CHECK(site.answer_to(form).status == 415);
    auto get = order;
    get.method = "GET";
    CHECK(site.answer_to(get).status == 405);
    CHECK(site.answer_to(post("/api/kv/drop", "{}")).status == 404);
    CHECK(site.answer_to(post("/api/kv/purge", "{}")).status == 400);
    CHECK(site.purged.empty());
    const auto kept = std::make_shared<kept_answer>();
    handle_order({&site.system, {}}, order, kept);
    CHECK(kept->status == 503);
  }
}
