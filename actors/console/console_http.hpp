#pragma once

#include "actors/messages/cache_orders.hpp"
#include "actors/messages/console.hpp"
#include "runtime/base/metrics.hpp"
#include "runtime/http/server.hpp"

#include <caf/actor_system.hpp>

#include <chrono>
#include <memory>

namespace deepinfer {

struct console_http_setup {
  caf::actor_system* system = nullptr;  ///< outlives the server
  console_actor console;
  kv_orders_actor orders;  ///< null: none are taken
  std::shared_ptr<const metrics> numbers;
  std::chrono::milliseconds within{5000};
};

/// Routes of the console's listener: the page `/`, `/api/topology`, `/api/events`, `/metrics`,
/// `/live`. Those read only; orders are `handle_order`'s.
[[nodiscard]] http_handler make_console_handler(const console_http_setup& setup);

}  // namespace deepinfer
