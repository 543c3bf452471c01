#include "actors/edge/client_party.hpp"

#include "runtime/base/digest.hpp"
#include "storage/block/sha256.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace deepinfer {
namespace {

constexpr std::string_view anonymous = "anonymous";
constexpr std::string_view key_mark = "key:";
constexpr size_t max_name_bytes = 128;

recipe::api_error wrong(std::string_view header, std::string_view rule) {
  return recipe::bad_request(std::string{header},
                             "The header " + std::string{header} + ' ' + std::string{rule});
}

/// Without ':' and unlike what stands for clients that have no name, so that none can be taken for
/// another.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= max_name_bytes && text != anonymous &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '_' || c == '-';
         });
}

/// Of two lines one would be the proxy's and one the client's own.
recipe::api_result<std::optional<std::string>> single(const http_request& request,
                                                      std::string_view name) {
  std::optional<std::string> value;
  for (const http_header& h : request.headers) {
    if (h.name != name) continue;
    if (value) return wrong(name, "may come once only.");
    value = h.value;
  }
  return value;
}

recipe::api_result<std::optional<std::string>> name_in(const http_request& request,
                                                       std::string_view header) {
  auto value = single(request, header);
  if (value && *value && !is_name(**value))
    return wrong(header,
                 "must be a name of 1 to 128 of the characters A-Z a-z 0-9 . _ - and not "
                 "\"anonymous\".");
  return value;
}

std::string tenant_by_credentials(const http_request& request) {
  const std::string credentials = credentials_of(request);
  return credentials.empty() ? std::string{anonymous} : std::string{key_mark} + credentials;
}

/// What `tenant_by_credentials` gives.
bool is_tenant_of_key(std::string_view text) {
  constexpr size_t digest_digits = 64;
  if (!text.starts_with(key_mark) || text.size() != key_mark.size() + digest_digits) return false;
  text.remove_prefix(key_mark.size());
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

storage::cache_scope scope_of(storage::scope_kind kind, std::string_view name) {
  return {kind, std::string{name}};
}

storage::traffic_class class_of_tenant(const std::string& tenant, const party_rules& rules) {
  const auto& agents = rules.agent_tenants;
  return std::find(agents.begin(), agents.end(), tenant) == agents.end()
             ? storage::traffic_class::chat
             : storage::traffic_class::agent;
}

}  // namespace

std::string credentials_of(const http_request& request) {
  std::string credentials;
  for (const http_header& h : request.headers)
    if (!h.value.empty() && (h.name == "authorization" || h.name == "x-api-key"))
      credentials.append(h.name).append(":").append(h.value).append("\n");
  if (credentials.empty()) return {};
  return to_hex(storage::sha256::hash(std::as_bytes(std::span{credentials})));
}

std::vector<std::string> tenants_of_key(std::string_view key) {
  const auto sent_as = [](const char* header, std::string value) {
    http_request request;
    request.headers.push_back({header, std::move(value)});
    return tenant_by_credentials(request);
  };
  return {sent_as("authorization", "Bearer " + std::string{key}),
          sent_as("x-api-key", std::string{key})};
}

result<storage::cache_scope> scope_named(storage::scope_kind kind, std::string_view name) {
  const bool tenant = kind == storage::scope_kind::tenant;
  if (is_name(name) || (tenant && (name == anonymous || is_tenant_of_key(name))))
    return scope_of(kind, name);
  if (!tenant)
    return failure{error_code::invalid_argument,
                   "an organization is a name of 1 to 128 of the characters A-Z a-z 0-9 . _ -"};
  return failure{error_code::invalid_argument,
                 "a tenant is a name of 1 to 128 of the characters A-Z a-z 0-9 . _ - as in the "
                 "trusted header, key: and 64 hex digits, or anonymous"};
}

recipe::api_result<cache_party> party_of(const http_request& request, const party_rules& rules) {
  std::string tenant = tenant_by_credentials(request);
  cache_party party{scope_of(storage::scope_kind::tenant, tenant), class_of_tenant(tenant, rules)};
  if (rules.headers == header_trust::none) return party;

  const auto named = name_in(request, tenant_header);
  if (!named) return named.error();
  if (*named) {
    tenant = **named;
    party = {scope_of(storage::scope_kind::tenant, tenant), class_of_tenant(tenant, rules)};
  }
  const auto organization = name_in(request, organization_header);
  if (!organization) return organization.error();
  if (*organization && rules.share == cache_sharing::organization)
    party.scope = scope_of(storage::scope_kind::organization, **organization);
  const auto use = single(request, class_header);
  if (!use) return use.error();
  if (!*use) return party;
  if (**use != "agent" && **use != "chat") return wrong(class_header, "must be agent or chat.");
  party.traffic = **use == "agent" ? storage::traffic_class::agent : storage::traffic_class::chat;
  return party;
}

}  // namespace deepinfer
