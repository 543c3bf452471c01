#include "actors/node/cluster_address.hpp"

#include "actors/console/terminal_text.hpp"
#include "actors/node/commands.hpp"
#include "runtime/recipe/json_value.hpp"

#include <chrono>
#include <cstdio>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view default_gateway = "http://127.0.0.1:8000";

// A console asks all nodes before it answers (console.peers_within, 2 s): wait longer than that.
constexpr auto connect_within = 2s;
constexpr auto answer_within = 8s;

result<std::vector<http_url>> one_url(const std::string& text) {
  auto url = parse_url(text);
  if (!url) return url.error();
  return std::vector{*std::move(url)};
}

/// The listeners that the nodes wrote down; `which` picks the kind.
result<std::vector<http_url>> listeners(const cluster_target& target,
                                        std::string node_endpoints::*which,
                                        const char* kind) {
  const auto nodes = find_endpoints(runtime_directory(), target.cluster);
  if (!nodes) return nodes.error();
  std::vector<http_url> urls;
  for (const node_endpoints& node : *nodes) {
    const std::string& address = node.*which;
    if (address.empty()) continue;
    if (auto url = parse_url(address)) urls.push_back(*std::move(url));
  }
  if (urls.empty())
    return failure{
        error_code::not_found,
        std::string{"no node of the cluster on this machine has a "} + kind + "; give --url"};
  return urls;
}

const recipe::json_value* member(const recipe::json_value* value, std::string_view key) {
  const auto* object = value != nullptr ? value->as<recipe::json_object>() : nullptr;
  if (object == nullptr) return nullptr;
  for (const recipe::json_member& one : *object)
    if (one.key == key) return &one.value;
  return nullptr;
}

}  // namespace

result<std::vector<http_url>> console_addresses(const cluster_target& target) {
  if (!target.url.empty()) return one_url(target.url);
  return listeners(target, &node_endpoints::console, "console");
}

result<std::vector<http_url>> gateway_addresses(const cluster_target& target) {
  if (!target.url.empty()) return one_url(target.url);
  auto found = listeners(target, &node_endpoints::http, "gateway");
  if (found || !target.cluster.empty() || found.error().code != error_code::not_found) return found;
  // perhaps one that another user, or a container, runs here
  return one_url(std::string{default_gateway});
}

result<std::string> fetch(const http_url& base, std::string_view path) {
  http_client client{base.host, base.port, {connect_within, answer_within, answer_within}};
  auto answer = client.call({"GET", path_below(base, path), {{"accept", "*/*"}}, ""});
  if (!answer) return answer.error();
  if (answer->status != 200)
    return failure{error_code::internal,
                   to_string(base) + " answered: " + problem_of(answer->status, answer->body)};
  return std::move(answer->body);
}

result<std::string> fetch_any(const std::vector<http_url>& bases, std::string_view path) {
  result<std::string> last{failure{error_code::unreachable, "no address to ask"}};
  for (const http_url& base : bases) {
    last = fetch(base, path);
    const bool may_help = !last && (last.error().code == error_code::unreachable ||
                                    last.error().code == error_code::deadline_exceeded);
    if (!may_help) return last;
  }
  return last;
}

result<std::string> post_any(const std::vector<http_url>& bases,
                             std::string_view path,
                             const std::string& body,
                             std::chrono::milliseconds answer_within) {
  result<std::string> last{failure{error_code::unreachable, "no address to ask"}};
  for (const http_url& base : bases) {
    http_client client{base.host, base.port, {connect_within, answer_within, answer_within}};
    auto answer = client.call({"POST",
                               path_below(base, path),
                               {{"accept", "*/*"}, {"content-type", "application/json"}},
                               body});
    if (answer && answer->status == 200) return std::move(answer->body);
    if (answer)
      return failure{answer->status == 400 ? error_code::invalid_argument : error_code::internal,
                     to_string(base) + " answered: " + problem_of(answer->status, answer->body)};
    last = answer.error();
    if (last.error().code != error_code::unreachable) return last;
  }
  return last;
}

std::string to_string(const http_url& url) {
  const bool is_v6 = url.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

std::string path_below(const http_url& base, std::string_view path) {
  std::string out = base.path;
  while (out.ends_with('/')) out.pop_back();
  return out.append(path);
}

std::string problem_of(uint16_t status, std::string_view body) {
  const std::string head = "HTTP " + std::to_string(status);
  constexpr size_t longest = 64 << 10;
  const auto parsed = recipe::parse_json(body, {longest, 16, 1000});
  const auto* message = member(parsed ? member(&*parsed, "error") : nullptr, "message");
  const auto* text = message != nullptr ? message->as<std::string>() : nullptr;
  if (text != nullptr && !text->empty()) return head + ": " + *text;
  return head;
}

int report(std::string_view command, const failure& why) {
  const std::string text = view::printable(why.detail.empty() ? to_string(why) : why.detail);
  std::fprintf(stderr, "deepinfer %.*s: %s\n", static_cast<int>(command.size()), command.data(),
               text.c_str());
  switch (why.code) {
    case error_code::invalid_argument:
    case error_code::unsupported:
      return exit_usage;
    case error_code::unreachable:
    case error_code::deadline_exceeded:
    case error_code::not_found:
      return exit_unreachable;
    default:
      return exit_failed;
  }
}

}  // namespace deepinfer
