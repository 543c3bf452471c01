#pragma once

#include "actors/edge/prompt_encoding.hpp"
#include "actors/node/node_actors.hpp"
#include "actors/node/recipe_config.hpp"
#include "actors/remote/remote_config.hpp"
#include "proto/types/result.hpp"
#include "runtime/base/config.hpp"
#include "runtime/base/log.hpp"
#include "runtime/http/http_config.hpp"
#include "runtime/net/fabric/fabric_config.hpp"
#include "runtime/net/multicast_registry.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[node]`.
struct node_config {
  std::vector<std::string> roles{"all"};
  std::string cluster = "default";
  std::vector<std::string> join;
  std::string secret;
  std::string model;
  std::string served_name;
  std::string level = "L0";
  uint32_t context_limit = 0;
  uint32_t threads = 2;
  std::chrono::milliseconds drain{5000};

  template <class V>
  void describe(V& v) {
    v.field("roles", roles,
            "What this node does: gateway, prefill, decode, controller, kvstore, or all.");
    v.field("cluster", cluster, "Nodes of different names never meet.");
    v.field("join", join, "Fabric addresses of living nodes; one is enough.");
    v.field("secret", secret,
            "Shared by all nodes; needed once the fabric listens beyond loopback.");
    v.field("model", model, "Folder of the checkpoint; empty: the bundled one.");
    v.field("served_name", served_name, "Name of the model in requests; empty: the folder's name.");
    v.field("level", level, one_of({"L0", "L1", "L2"}),
            "Arithmetic: exact, with the cache quantisers, or also with the activation quantisers "
            "and roundings of the release.");
    v.field("context_limit", context_limit, between(0, 1 << 20),
            "Longest prompt and output together; 0: what the model allows.");
    v.field("threads", threads, between(1, 256), "Threads that run actors.");
    v.field("drain", drain, between(0, 3600000),
            "How long open requests may go on after an order to stop.");
  }
};

/// Section `[kernels]`.
struct kernels_config {
  uint32_t threads = 0;

  template <class V>
  void describe(V& v) {
    v.field("threads", threads, between(0, 256),
            "Threads that compute, for each engine; 0: the machine's, shared by its engines.");
  }
};

/// Section `[multicast]`.
struct multicast_settings {
  bool enabled = false;
  net::multicast_config lan;

  template <class V>
  void describe(V& v) {
    v.field("enabled", enabled, "Find nodes of the same LAN by multicast.");
    v.field("group", lan.group, "IPv4 group.");
    v.field("port", lan.port, between(1, 65535), "UDP port.");
    v.field("interface", lan.interface, "Network interface; empty: chosen by the system.");
  }
};

/// All settings of `deepinfer node`.
struct process_config {
  node_config node;
  log_config log;
  net::fabric_config fabric;
  remote_config remote;
  multicast_settings multicast;
  http_config http;
  http_config console_http;
  recipe_config recipe;
  encoder_config encoder;
  kernels_config kernels;
  node_settings actors;

  process_config();
  process_config(const process_config&) = delete;  // the schema points into it
  process_config& operator=(const process_config&) = delete;

  [[nodiscard]] config_schema& schema() { return schema_; }
  [[nodiscard]] const config_schema& schema() const { return schema_; }

private:
  config_schema schema_;
};

/// "host:port" into its parts; `invalid_argument` otherwise. IPv6 as "[::1]:7400".
struct host_port {
  std::string host;
  uint16_t port = 0;
};
[[nodiscard]] result<host_port> parse_host_port(const std::string& text);

/// The process's environment, for the schema.
[[nodiscard]] std::map<std::string, std::string> environment_variables();

}  // namespace deepinfer
