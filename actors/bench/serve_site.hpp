#pragma once

#include <chrono>
#include <cstdint>
#include <string>

/// The servers that `bench serve` asks, each a process of its own.
namespace deepinfer::bench {

enum class site_kind : uint8_t {
  bare,   ///< the HTTP server alone, answering the same bytes without an actor
  known,  ///< a whole node, tokens known, an engine that computes nothing
  chat,   ///< the same with the real chat codec of a model
};

struct site_plan {
  site_kind kind = site_kind::bare;
  std::chrono::microseconds step{0};  ///< of the decode engine; 0: as fast as it can
  std::string model;                  ///< folder with the tokenizer, for `chat`
};

/// Prints the address of its listener and serves until its standard input ends.
[[nodiscard]] int serve_site(const site_plan& plan);

}  // namespace deepinfer::bench
