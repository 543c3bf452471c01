#include "runtime/net/fabric/fabric_bench.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace deepinfer;

TEST_SUITE("runtime/net/fabric") {
  TEST_CASE("the measurement gives each figure, and a yardstick for each of the transport's") {
    net::fabric_bench_options options;
    options.peer_command = {
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "net_peer").string(),
        "--bench-peer"};
    options.rounds = 2;
    options.pings = 20;
    options.small_blocks = 20;
    options.large_blocks = 3;
    options.idle = std::chrono::milliseconds{20};
    const auto figures = net::measure_fabric(options);
    REQUIRE(figures);
    REQUIRE(figures->size() == 7);
    for (const auto& figure : *figures) {
      CAPTURE(figure.name);
      CHECK(figure.value >= 0);
      CHECK(!figure.unit.empty());
      CHECK((figure.ratio > 0) == !figure.ratio_to.empty());
    }
  }

  TEST_CASE("without its other process a measurement fails with the reason") {
    net::fabric_bench_options options;
    CHECK(net::measure_fabric(options).error().code == error_code::invalid_argument);
    options.peer_command = {"/nonexistent/program"};
    CHECK(net::measure_fabric(options).error().code == error_code::not_found);
    options.peer_command = {"/bin/true"};
    CHECK(net::measure_fabric(options).error().code == error_code::unreachable);
  }
}
