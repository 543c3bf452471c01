#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What became of an operator's order. No actor in it: commands read it as well.
namespace deepinfer {

/// What became of an order at one actor.
struct order_outcome {
  std::string kind;   ///< of its service: "kvstore", "ring_host", "kv_writer", "kv_fetch"
  std::string node;   ///< as the member table names it
  std::string store;  ///< id of a store's folder, for people
  uint64_t blocks = 0, bytes = 0, rings = 0;
  bool was_frozen = false;  ///< a store's clock
  std::string problem;      ///< why it is not done; empty: done
};

struct order_report {
  std::vector<order_outcome> outcomes;
};

}  // namespace deepinfer
