#pragma once

#include "actors/messages/cache.hpp"
#include "runtime/http/message.hpp"
#include "runtime/recipe/api_error.hpp"

#include <string>
#include <vector>

/// Who a client is, where that decides what it may share with others.
namespace deepinfer {

/// What a proxy in front of the gateway says of a client; believed only when the operator says so.
inline constexpr std::string_view tenant_header = "x-deepinfer-tenant";
inline constexpr std::string_view organization_header = "x-deepinfer-organization";
inline constexpr std::string_view class_header = "x-deepinfer-class";

enum class header_trust : uint8_t { none, believed };
enum class cache_sharing : uint8_t { tenant, organization };

struct party_rules {
  header_trust headers = header_trust::none;
  cache_sharing share = cache_sharing::tenant;
  std::vector<std::string> agent_tenants;  ///< theirs is agent traffic when no header says
};

/// 64 hex digits that stand for all of a request's credentials; empty without any. Every line
/// counts: a proxy may add an `authorization` that is the same for all. Whoever wants a collision
/// would have to know the other's credentials.
[[nodiscard]] std::string credentials_of(const http_request& request);

/// The tenants of clients that send this API key and nothing else: as `authorization: Bearer KEY`,
/// and as `x-api-key: KEY`.
[[nodiscard]] std::vector<std::string> tenants_of_key(std::string_view key);

/// The scope that `party_of` gives to a tenant or an organization of this name; `invalid_argument`
/// for names that it never gives.
[[nodiscard]] result<storage::cache_scope> scope_named(storage::scope_kind kind,
                                                       std::string_view name);

/// The tenant: the trusted header's, else "key:" and the digest of the credentials, else
/// "anonymous". Requests of one scope share cached blocks and learn by time what others of it
/// sent; those of two never do. An error (400) for trusted headers that make no sense.
[[nodiscard]] recipe::api_result<cache_party> party_of(const http_request& request,
                                                       const party_rules& rules);

}  // namespace deepinfer
