#include "actors/node/store_quotas.hpp"

#include "actors/edge/client_party.hpp"
#include "runtime/base/config_text.hpp"
#include "storage/block/chain_hasher.hpp"

#include <string_view>

namespace deepinfer {

result<std::vector<std::pair<storage::scope_id, uint64_t>>> read_store_quotas(
    const std::vector<std::string>& texts) {
  constexpr std::string_view organization = "organization:";
  constexpr std::string_view everybody = "public:";  // not a tenant of that name
  std::vector<std::pair<storage::scope_id, uint64_t>> quotas;
  for (const std::string& text : texts) {
    const auto wrong = [&text](const std::string& why) {
      return failure{error_code::invalid_argument,
                     "kvstore.quotas: '" + text + "' is not TENANT=BYTES: " + why};
    };
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos) return wrong("it has no =");
    std::string_view name = std::string_view{text}.substr(0, equals);
    const auto bytes = config_text::parse_size(std::string_view{text}.substr(equals + 1));
    if (!bytes || *bytes < 0) return wrong("a size is like 10GiB or 4096");
    const bool shared = name.starts_with(organization);
    if (shared) name.remove_prefix(organization.size());
    const auto scope = name == everybody ? result<storage::cache_scope>{storage::public_scope()}
                                         : scope_named(shared ? storage::scope_kind::organization
                                                              : storage::scope_kind::tenant,
                                                       name);
    if (!scope) return wrong(scope.error().detail);
    quotas.emplace_back(storage::id_of(*scope), static_cast<uint64_t>(*bytes));
  }
  return quotas;
}

}  // namespace deepinfer
