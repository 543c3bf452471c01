#pragma once

#include "actors/node/endpoints.hpp"
#include "runtime/http/client.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

/// Whom a command talks to, and how it asks.
namespace deepinfer {

/// `--url` and `--cluster` as given; both empty means the only cluster of this machine.
struct cluster_target {
  std::string url;
  std::string cluster;
};

/// Console listeners of the target, those of the longest living nodes first.
[[nodiscard]] result<std::vector<http_url>> console_addresses(const cluster_target& target);

/// Gateways of the target. Without a target and without a cluster on this machine: the default
/// port of one.
[[nodiscard]] result<std::vector<http_url>> gateway_addresses(const cluster_target& target);

/// The body of a GET below `base`, from a server that answers 200. Waits seconds at most.
[[nodiscard]] result<std::string> fetch(const http_url& base, std::string_view path);

/// The same from the first of `bases` that can be reached.
[[nodiscard]] result<std::string> fetch_any(const std::vector<http_url>& bases,
                                            std::string_view path);

/// The body of a POST of JSON that is answered with 200, from the first of `bases` that can be
/// reached.
[[nodiscard]] result<std::string> post_any(const std::vector<http_url>& bases,
                                           std::string_view path,
                                           const std::string& body,
                                           std::chrono::milliseconds answer_within);

/// "host:port".
[[nodiscard]] std::string to_string(const http_url& url);

/// `path` below the path of `base`.
[[nodiscard]] std::string path_below(const http_url& base, std::string_view path);

/// What the answer of one of our servers says is wrong: the `error.message` of a JSON body, or the
/// status. Remote text.
[[nodiscard]] std::string problem_of(uint16_t status, std::string_view body);

/// Says `failure` on standard error, as `command`, and gives the exit code for it.
int report(std::string_view command, const failure& why);

}  // namespace deepinfer
