#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// Words after the program's name that start the two other sides.
inline constexpr const char* fabric_actor_peer = "fabric-actors";
inline constexpr const char* fabric_transport_peer = "fabric-transport";

struct fabric_plan {
  std::vector<std::string> peer_command;  ///< the name of a peer is added
  size_t rounds = 9;
  size_t trips = 3000;        ///< of 64 bytes, per round and kind
  size_t long_trips = 300;    ///< of 16 KiB
  size_t longest_trips = 30;  ///< of 1 MiB
  /// Many and short: bandwidth takes both cores, so whatever else runs must hit both sides alike.
  size_t transport_rounds = 25;
  size_t transport_pings = 1000;
  size_t small_blocks = 400;  ///< one-sided reads of 112 KiB per round
  size_t large_blocks = 12;   ///< of 8 MiB
  std::chrono::milliseconds idle{3000};
};

/// Actors, transport and libfabric itself between two processes of this machine.
[[nodiscard]] result<std::vector<figure>> measure_fabric_figures(const fabric_plan& plan);

/// The other process: says where it listens, serves until its standard input ends.
[[nodiscard]] int serve_fabric_actors();

}  // namespace deepinfer::bench
