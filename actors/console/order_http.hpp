#pragma once

#include "actors/messages/cache_orders.hpp"
#include "runtime/http/server.hpp"

#include <caf/actor_system.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace deepinfer {

inline constexpr std::string_view order_routes = "/api/kv/";

struct order_http_setup {
  caf::actor_system* system = nullptr;  ///< outlives the server
  kv_orders_actor orders;               ///< null: a process that takes none
};

/// `POST /api/kv/purge` with {"tenant": NAME} or {"organization": NAME}, and `POST
/// /api/kv/acknowledge-clock` with {}; both also take "within_ms". Not for web pages: what a
/// browser sends is refused, whatever page it is from.
void handle_order(const order_http_setup& setup,
                  const http_request& request,
                  const std::shared_ptr<http_responder>& to);

/// What a body asks for. `invalid_argument` says what is wrong with it.
[[nodiscard]] result<purge_scope> read_purge(std::string_view body);
[[nodiscard]] result<acknowledge_clocks> read_acknowledge(std::string_view body);

/// {"complete", "blocks", "bytes", "rings", "writes", "frozen", "outcomes": [{"kind", "node",
/// "store", "blocks", "bytes", "rings", "was_frozen", "problem"}]}. The totals are what the stores
/// and hosts of rings took away; "writes" are blocks that waited for a store, "frozen" stores whose
/// clock was acknowledged. Complete: there is a store, and nobody has a problem.
[[nodiscard]] std::string order_json(const order_report& report);

}  // namespace deepinfer
