#include "actors/console/order_text.hpp"

#include "actors/console/terminal_text.hpp"
#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::view {
namespace {

using recipe::json_value;
using lines = std::vector<std::string>;

uint64_t count_of(const json_value& value) {
  const auto* number = value.as<int64_t>();
  return number != nullptr && *number > 0 ? static_cast<uint64_t>(*number) : 0;
}

std::string text_of(const json_value& value) {
  const auto* text = value.as<std::string>();
  return text != nullptr ? printable(*text) : std::string{};
}

bool is_true(const json_value& value) {
  const auto* flag = value.as<bool>();
  return flag != nullptr && *flag;
}

order_outcome read_outcome(const recipe::json_object& object) {
  order_outcome out;
  for (const auto& [key, value] : object) {
    if (key == "kind") out.kind = text_of(value);
    if (key == "node") out.node = text_of(value);
    if (key == "store") out.store = text_of(value);
    if (key == "blocks") out.blocks = count_of(value);
    if (key == "bytes") out.bytes = count_of(value);
    if (key == "rings") out.rings = count_of(value);
    if (key == "was_frozen") out.was_frozen = is_true(value);
    if (key == "problem") out.problem = text_of(value);
  }
  return out;
}

std::string number_of(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

std::string name_of(const order_outcome& o) {
  return o.kind + ' ' + o.node + (o.store.empty() ? "" : " (" + o.store + ")");
}

/// Who has a problem, and what to do about it.
void append_problems(const order_view& order, lines& out) {
  if (order.stores == 0)
    out.emplace_back("NOT DONE: no node of the cluster is known to have a store");
  for (const order_outcome& o : order.report.outcomes)
    if (!o.problem.empty()) out.push_back("NOT DONE: " + name_of(o) + ": " + o.problem);
  if (!order.complete) out.emplace_back("Give the order again when they can be asked.");
}

}  // namespace

result<order_view> parse_order(std::string_view json) {
  const auto parsed = recipe::parse_json(json, {size_t{16} << 20, 8, 200'000});
  const auto* object = parsed ? parsed->as<recipe::json_object>() : nullptr;
  const failure none{error_code::corrupt, "the answer is not that of a deepinfer console"};
  if (object == nullptr) return none;
  order_view out;
  bool has_outcomes = false;
  for (const auto& [key, value] : *object) {
    if (key == "complete") out.complete = is_true(value);
    if (key == "stores") out.stores = count_of(value);
    const auto* list = value.as<recipe::json_array>();
    if (key != "outcomes" || list == nullptr) continue;
    has_outcomes = true;
    for (const json_value& one : *list)
      if (const auto* outcome = one.as<recipe::json_object>())
        out.report.outcomes.push_back(read_outcome(*outcome));
  }
  if (!has_outcomes) return none;
  return out;
}

namespace {
/// Not by a key, as most are: perhaps the key itself was meant.
bool names_a_tenant(std::string_view whose) {
  return whose.starts_with("tenant ") && !whose.starts_with("tenant key:") &&
         whose != "tenant anonymous";
}
}  // namespace

lines draw_purge(const order_view& order, std::string_view whose) {
  uint64_t blocks = 0, bytes = 0, rings = 0, writes = 0;
  lines stores;
  for (const order_outcome& o : order.report.outcomes) {
    rings += o.rings;
    if (o.kind == "kv_writer") writes += o.blocks;
    if (o.kind != "kvstore") continue;
    blocks += o.blocks;
    bytes += o.bytes;
    if (o.problem.empty())
      stores.push_back("  " + name_of(o) + ": " + number_of(o.blocks, "block", "blocks") + ", " +
                       short_count(static_cast<double>(o.bytes)) + "B");
  }
  std::string first = printable(whose) + ": ";
  if (blocks + rings + writes == 0)
    first +=
        "nothing of it was stored" +
        std::string{names_a_tenant(whose)
                        ? "; a client is told by its API key unless gateway.trust_tenant_header "
                          "is set: --key-from-stdin"
                        : ""};
  else
    first += number_of(blocks, "block", "blocks") + " (" + short_count(static_cast<double>(bytes)) +
             "B) and " + number_of(rings, "ring", "rings") + " removed, " +
             number_of(writes, "block", "blocks") + " not written";
  lines out{std::move(first)};
  out.insert(out.end(), stores.begin(), stores.end());
  append_problems(order, out);
  return out;
}

lines draw_acknowledge(const order_view& order) {
  lines out;
  uint64_t asked = 0;
  for (const order_outcome& o : order.report.outcomes) {
    if (!o.problem.empty()) continue;
    asked += o.kind == "kvstore" ? 1 : 0;
    if (o.was_frozen) out.push_back(name_of(o) + ": its clock was acknowledged, blocks end again");
  }
  if (out.empty() && asked > 0)
    out.push_back("none of " + number_of(asked, "store", "stores") + " waited for it");
  append_problems(order, out);
  return out;
}

}  // namespace deepinfer::view
