#pragma once

#include "actors/bench/figure.hpp"
#include "actors/bench/serve_site.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer::bench {

struct serve_plan {
  std::string program;  ///< this binary, which is started as site and as node
  std::string model;    ///< folder of a checkpoint; empty: no figures of chat and of a node's start
  size_t rounds = 5;
  size_t connections = 64;
  uint32_t short_tokens = 8;
  std::chrono::milliseconds throughput{800};  ///< per round and site
  std::chrono::microseconds step{20'000};
  uint32_t paced_tokens = 40;  ///< of each stream, one a step
  size_t open_streams = 1000;
  size_t starts = 5;
};

/// Requests a second, what the gateway adds to a token's age, time to the first token, memory of
/// an open stream, and from exec to ready.
[[nodiscard]] result<std::vector<figure>> measure_serve_figures(const serve_plan& plan);

/// The command line of a site, and back.
[[nodiscard]] std::string site_text(const site_plan& plan);
[[nodiscard]] result<site_plan> parse_site(const std::string& text);

}  // namespace deepinfer::bench
