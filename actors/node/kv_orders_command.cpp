#include "actors/node/kv_orders_command.hpp"

#include "actors/console/order_text.hpp"
#include "actors/console/terminal_text.hpp"
#include "actors/edge/client_party.hpp"
#include "actors/node/cluster_address.hpp"
#include "actors/node/standard_input.hpp"
#include "runtime/recipe/json_value.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

constexpr size_t max_key_bytes = 16 << 10;
/// The cluster's own deadline comes first, and its answer says more.
constexpr std::chrono::seconds answer_slack{8};

struct order_flags {
  cluster_target target;
  std::optional<std::string> tenant, organization;
  bool key_from_stdin = false;
  bool everybody = false;
  bool json = false;
  uint32_t within_s = 60;
};

/// Somebody whose blocks go: the field of the order, and the name; none: public.
using owner = std::pair<std::string, std::string>;

result<std::vector<owner>> owners_of(const order_flags& flags) {
  if (flags.everybody) return std::vector<owner>{{"public", ""}};
  if (flags.tenant) {
    const auto scope = scope_named(storage::scope_kind::tenant, *flags.tenant);
    if (!scope) return scope.error();
    return std::vector<owner>{{"tenant", *flags.tenant}};
  }
  if (flags.organization) {
    const auto scope = scope_named(storage::scope_kind::organization, *flags.organization);
    if (!scope) return scope.error();
    return std::vector<owner>{{"organization", *flags.organization}};
  }
  auto key = read_standard_input(max_key_bytes);
  if (!key) return key.error();
  while (key->ends_with('\n') || key->ends_with('\r')) key->pop_back();
  if (key->empty() || key->find('\n') != std::string::npos)
    return failure{error_code::invalid_argument, "standard input holds one API key, in one line"};
  std::vector<owner> owners;
  for (std::string& tenant : tenants_of_key(*key)) owners.emplace_back("tenant", std::move(tenant));
  return owners;
}

std::string body_of(recipe::json_object fields, const order_flags& flags) {
  fields.push_back({"within_ms", recipe::json_value{int64_t{flags.within_s} * 1000}});
  std::string body;
  recipe::append_compact_json(body, recipe::json_value{std::move(fields)});
  return body;
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
}

void print_json(const std::string& json) {
  const std::string text = ::isatty(STDOUT_FILENO) == 1 ? view::printable_json(json) : json;
  std::printf("%s\n", text.c_str());
}

result<std::string> give(const std::vector<http_url>& bases,
                         const char* order,
                         recipe::json_object fields,
                         const order_flags& flags) {
  return post_any(bases, std::string{"/api/kv/"} + order, body_of(std::move(fields), flags),
                  std::chrono::seconds{flags.within_s} + answer_slack);
}

int run_purge(const order_flags& flags) {
  const auto owners = owners_of(flags);
  if (!owners) return report("kv purge", owners.error());
  const auto bases = console_addresses(flags.target);
  if (!bases) return report("kv purge", bases.error());
  std::vector<std::string> lines;
  std::string answers;
  bool complete = true;
  for (const auto& [field, name] : *owners) {
    const auto value = name.empty() ? recipe::json_value{true} : recipe::json_value{name};
    const auto body = give(*bases, "purge", {{field, value}}, flags);
    const auto order = body ? view::parse_order(*body) : result<view::order_view>{body.error()};
    if (!order) return report("kv purge", order.error());
    complete = complete && order->complete;
    answers += (answers.empty() ? "" : ", ") + *body;
    for (std::string& line : view::draw_purge(*order, name.empty() ? field : field + ' ' + name))
      lines.push_back(std::move(line));
  }
  if (flags.json)
    print_json(std::string{R"({"complete": )"} + (complete ? "true" : "false") + ", \"orders\": [" +
               answers + "]}");
  else
    print(lines);
  return complete ? exit_done : exit_failed;
}

int run_acknowledge(const order_flags& flags) {
  const auto bases = console_addresses(flags.target);
  if (!bases) return report("kv acknowledge-clock", bases.error());
  const auto body = give(*bases, "acknowledge-clock", {}, flags);
  const auto order = body ? view::parse_order(*body) : result<view::order_view>{body.error()};
  if (!order) return report("kv acknowledge-clock", order.error());
  if (flags.json)
    print_json(*body);
  else
    print(view::draw_acknowledge(*order));
  return order->complete ? exit_done : exit_failed;
}

void add_common(CLI::App& command, const std::shared_ptr<order_flags>& flags) {
  auto* cluster = command.add_option("--cluster", flags->target.cluster,
                                     "a cluster of this machine (default: the only one)");
  command.add_option("--url", flags->target.url, "console address of any node, http://host:port")
      ->excludes(cluster);
  command.add_option("--within", flags->within_s, "seconds the whole order may take (default 60)")
      ->check(CLI::Range(1u, 3600u))
      ->type_name("SECONDS");
  command.add_flag("--json", flags->json, "print JSON");
}

constexpr const char* purge_text =
    "When it ends with 0, none of what was stored is used any more; files that held it are "
    "rewritten\n"
    "within minutes. It may be repeated, and must be when it names a store that could not be "
    "asked.\n"
    "A store whose node has been down for ten minutes is not known any more: purge again when "
    "such\n"
    "a node comes back. Requests of the tenant that still run, or ended within the last second, "
    "may\n"
    "store again: take its access away first.\n"
    "Exit codes: 0 done, 1 not done everywhere, 2 wrong usage, 3 no cluster found.";

constexpr const char* clock_text =
    "Look at the clocks of the machines first: blocks whose end the new time has passed are "
    "removed\n"
    "at once. Stores that were acknowledged are listed.";

}  // namespace

void add_kv_orders(CLI::App& kv, int& exit_code) {
  auto* purge = kv.add_subcommand(
      "purge",
      "Removes all cached blocks and window rings of a tenant from all stores of a cluster.");
  purge->footer(purge_text);
  auto flags = std::make_shared<order_flags>();
  auto* who = purge->add_option_group("whose");
  who->add_option("--tenant", flags->tenant,
                  "a name as in the trusted header, key:DIGEST of an API key, or anonymous for all "
                  "requests without a key")
      ->type_name("ID");
  who->add_option("--organization", flags->organization,
                  "what its tenants share (kvcache.share = organization)")
      ->type_name("NAME");
  who->add_flag("--public", flags->everybody,
                "what all tenants share of listed prompts (kvcache.public_prompts)");
  who->add_flag("--key-from-stdin", flags->key_from_stdin,
                "the tenant with the API key on standard input, sent as authorization: Bearer or "
                "as x-api-key");
  who->require_option(1);
  add_common(*purge, flags);
  purge->callback([flags, &exit_code] { exit_code = run_purge(*flags); });

  auto* clock = kv.add_subcommand(
      "acknowledge-clock", "Lets blocks end again in stores that found their clock had jumped.");
  clock->footer(clock_text);
  auto clock_flags = std::make_shared<order_flags>();
  add_common(*clock, clock_flags);
  clock->callback([clock_flags, &exit_code] { exit_code = run_acknowledge(*clock_flags); });
}

}  // namespace deepinfer
