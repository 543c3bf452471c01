#include "actors/edge/client_party.hpp"

#include <doctest/doctest.h>

#include <set>

namespace deepinfer {
namespace {

using storage::scope_kind;
using storage::traffic_class;

http_request with(const http_headers& headers) {
  http_request request;
  request.headers = headers;
  return request;
}

const party_rules plain{};
const party_rules trusting{header_trust::believed, cache_sharing::tenant, {}};
const party_rules sharing{header_trust::believed, cache_sharing::organization, {}};

TEST_SUITE_BEGIN("actors/edge");

TEST_CASE("without trust a tenant is its credentials, whatever its headers claim") {
  const auto none = party_of(with({{"x-deepinfer-tenant", "acme"},
                                   {"x-deepinfer-organization", "org"},
                                   {"x-deepinfer-class", "nonsense"}}),
                             plain);
  REQUIRE(none);
  CHECK(none->scope == storage::cache_scope{scope_kind::tenant, "anonymous"});
  CHECK(none->traffic == traffic_class::chat);
  std::set<std::string> ids;
  for (const http_headers& h :
       std::vector<http_headers>{{{"authorization", "Bearer a"}},
                                 {{"authorization", "Bearer b"}},
                                 {{"x-api-key", "Bearer a"}},
                                 {{"authorization", "Bearer a"}, {"x-api-key", "b"}},
                                 {{"authorization", ""}}}) {
    const auto party = party_of(with(h), plain);
    REQUIRE(party);
    CHECK(party->scope.kind == scope_kind::tenant);
    ids.insert(party->scope.id);
  }
  CHECK(ids.size() == 5);
  CHECK(ids.contains("anonymous"));
  // "authorization:Bearer a\n" by sha256sum
  CHECK(ids.contains("key:fbf1dd64aa05c71e947b296bb93dff1c5a1d64fb2b513f277f715e9803562418"));
}

TEST_CASE("a trusted proxy names the tenant, over its own credentials") {
  const auto party =
      party_of(with({{"authorization", "proxy"}, {"x-deepinfer-tenant", "acme-1.x_Y"}}), trusting);
  REQUIRE(party);
  CHECK(party->scope == storage::cache_scope{scope_kind::tenant, "acme-1.x_Y"});
  const auto unnamed = party_of(with({{"authorization", "proxy"}}), trusting);
  REQUIRE(unnamed);
  CHECK(unnamed->scope.id.starts_with("key:"));
}

TEST_CASE("an organization shares only where that is set") {
  const auto request = with({{"x-deepinfer-tenant", "a"}, {"x-deepinfer-organization", "org"}});
  CHECK(party_of(request, trusting)->scope == storage::cache_scope{scope_kind::tenant, "a"});
  CHECK(party_of(request, sharing)->scope == storage::cache_scope{scope_kind::organization, "org"});
  CHECK(party_of(with({{"x-deepinfer-tenant", "org"}}), sharing)->scope ==
        storage::cache_scope{scope_kind::tenant, "org"});
}

TEST_CASE("the class comes from the header, else from the list of agents, else it is chat") {
  party_rules rules = trusting;
  rules.agent_tenants = {"robot"};
  const auto traffic = [&rules](const http_headers& h) {
    return party_of(with(h), rules)->traffic;
  };
  CHECK(traffic({}) == traffic_class::chat);
  CHECK(traffic({{"x-deepinfer-class", "agent"}}) == traffic_class::agent);
  CHECK(traffic({{"x-deepinfer-tenant", "robot"}}) == traffic_class::agent);
  CHECK(traffic({{"x-deepinfer-tenant", "robot"}, {"x-deepinfer-class", "chat"}}) ==
        traffic_class::chat);
  rules.headers = header_trust::none;
  CHECK(traffic({{"x-deepinfer-tenant", "robot"}}) == traffic_class::chat);
  rules.agent_tenants = {party_of(with({{"x-api-key", "k"}}), rules)->scope.id};
  CHECK(traffic({{"x-api-key", "k"}}) == traffic_class::agent);
}

TEST_CASE("trusted headers that make no sense are refused, and the header is named") {
  const std::string longest(128, 'a');
  CHECK(party_of(with({{"x-deepinfer-tenant", longest}}), trusting));
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{"x-deepinfer-tenant", longest + "a"},
        {"x-deepinfer-tenant", ""},
        {"x-deepinfer-tenant", "anonymous"},
        {"x-deepinfer-tenant", "key:00"},
        {"x-deepinfer-tenant", "a b"},
        {"x-deepinfer-organization", "\xc3\xa4"},
        {"x-deepinfer-class", "Agent"},
        {"x-deepinfer-class", ""}}) {
    CAPTURE(value);
    const auto party = party_of(with({{name, value}}), trusting);
    REQUIRE_FALSE(party);
    CHECK(party.error().status == 400);
    CHECK(party.error().param == name);
    CHECK(party.error().message.find(name) != std::string::npos);
  }
  // One of two lines would be the client's own.
  const auto twice =
      party_of(with({{"x-deepinfer-tenant", "a"}, {"x-deepinfer-tenant", "b"}}), trusting);
  CHECK_FALSE(twice);
}

TEST_CASE("an operator names the scopes that requests have, by name, digest or key") {
  const auto of = [](const http_headers& h) { return party_of(with(h), trusting)->scope; };
  const auto named = [](const std::string& name) {
    const auto scope = scope_named(scope_kind::tenant, name);
    REQUIRE(scope);
    return *scope;
  };
  CHECK(named("anonymous") == of({}));
  CHECK(named("acme-1.x_Y") == of({{"x-deepinfer-tenant", "acme-1.x_Y"}}));
  const auto tenants = tenants_of_key("sk-1");
  REQUIRE(tenants.size() == 2);
  CHECK(named(tenants[0]) == of({{"authorization", "Bearer sk-1"}}));
  CHECK(named(tenants[1]) == of({{"x-api-key", "sk-1"}}));
  CHECK(named(tenants[0]) != named(tenants[1]));
  const auto shared = scope_named(scope_kind::organization, "org");
  REQUIRE(shared);
  CHECK(*shared == party_of(with({{"x-deepinfer-organization", "org"}}), sharing)->scope);
}

TEST_CASE("names that no request can have are refused, not hashed") {
  const std::string digest = tenants_of_key("k")[0];
  for (const std::string& name :
       {std::string{}, std::string{"a b"}, std::string{"key:"}, std::string{"key:00"}, digest + "0",
        "x" + digest, digest.substr(0, digest.size() - 1) + "G", std::string(129, 'a')}) {
    CAPTURE(name);
    const auto scope = scope_named(scope_kind::tenant, name);
    REQUIRE_FALSE(scope);
    CHECK(scope.error().code == error_code::invalid_argument);
  }
  CHECK_FALSE(scope_named(scope_kind::organization, "anonymous"));
  CHECK_FALSE(scope_named(scope_kind::organization, digest));
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
