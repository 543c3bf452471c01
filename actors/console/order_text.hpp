#pragma once

#include "actors/messages/order_report.hpp"
#include "proto/types/result.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What became of an order, for people: the JSON of `order_json` in, lines out. Pure.
namespace deepinfer::view {

struct order_view {
  bool complete = false;
  uint64_t stores = 0;  ///< asked or not
  order_report report;
};

/// `corrupt` for what is no such answer.
[[nodiscard]] result<order_view> parse_order(std::string_view json);

/// First what was taken away of `whose`, then a line for each store, then whoever could not be
/// asked and what to do. Without control characters.
[[nodiscard]] std::vector<std::string> draw_purge(const order_view& order, std::string_view whose);
[[nodiscard]] std::vector<std::string> draw_acknowledge(const order_view& order);

}  // namespace deepinfer::view
