#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

/// What the transport costs against libfabric itself. Two processes on loopback; raw and
/// transport take turns, so that a busy machine disturbs both alike.
namespace deepinfer::net {

struct fabric_bench_options {
  /// Starts the other process: a program and its arguments, whose main() calls `serve_bench`.
  std::vector<std::string> peer_command;
  std::string provider = "tcp";
  size_t rounds = 5;
  size_t pings = 3000;                   ///< per round
  size_t small_blocks = 1000;            ///< reads of 112 KiB per round, 16 at a time
  size_t large_blocks = 24;              ///< reads of 8 MiB per round, 2 at a time
  std::chrono::milliseconds idle{3000};  ///< over which the CPU time of idle nodes is taken
};

/// One figure, in the shape of the lines that `deepinfer bench` prints.
struct fabric_figure {
  std::string name;
  double value = 0;  ///< median of the rounds' medians
  std::string unit;
  std::string ratio_to;  ///< empty: no yardstick
  double ratio = 0;      ///< median over the rounds of transport / raw in the same round
  size_t runs = 0;
  double spread = 0;  ///< median absolute deviation of the rounds
};

/// Runs for about `rounds` seconds. Sets SIGPIPE to ignored.
[[nodiscard]] result<std::vector<fabric_figure>> measure_fabric(
    const fabric_bench_options& options);

/// The other process: says on standard output where it listens, serves until its standard input
/// closes.
[[nodiscard]] result<void> serve_bench(const std::string& provider);

}  // namespace deepinfer::net
