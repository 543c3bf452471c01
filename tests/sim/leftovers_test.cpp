#include "tests/support/sim_cluster.hpp"

#include <doctest/doctest.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <sstream>

/// What a cluster leaves in the process that simulated it, or a node in its own: nothing. That no
/// actor is left and no memory registered is checked at the end of every node and every cluster;
/// here is the rest, read from the operating system and the allocator.
using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool own_allocator = false;  // the sanitizer's: it keeps what was freed
#else
constexpr bool own_allocator = true;
#endif

/// Per cluster; the allocator counts what it keeps for the next use as used, and that varies.
constexpr int64_t heap_noise = 16 << 10;

struct process_figures {
  size_t descriptors = 0;
  size_t arenas = 0;    ///< mappings of shared memory
  int64_t mapped = 0;   ///< bytes, without the heap
  int64_t on_heap = 0;  ///< bytes in use
};

process_figures figures_now() {
  process_figures now;
  const struct mallinfo2 heap = ::mallinfo2();
  now.on_heap = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  now.mapped = -static_cast<int64_t>(heap.hblkhd);
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    now.descriptors += entry.is_symlink();
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    now.arenas += line.find("memfd:deepinfer-kv") != std::string::npos;
    if (line.ends_with("[heap]") || line.ends_with("[stack]")) continue;
    uint64_t from = 0, to = 0;
    char dash = 0;
    std::istringstream{line} >> std::hex >> from >> dash >> to;
    now.mapped += static_cast<int64_t>(to - from);
  }
  return now;
}

/// Everything a node may hold is held by some node when the cluster ends: a request runs, blocks
/// are on their way, of each kind one was killed and one has left.
void live_through(uint64_t seed, bool fetch_apart) {
  sim_options options;
  options.fetch_apart = fetch_apart;
  options.settings.kvfetch.arena_bytes = 1 << 20;
  sim_cluster cluster{seed, options};
  sim_node& gateway = cluster.start("g:1", {node_role::gateway, node_role::controller});
  const std::map<std::string, std::set<node_role>> others{{"p:1", {node_role::prefill}},
                                                          {"d:1", {node_role::decode}},
                                                          {"s:1", {node_role::kvstore}},
                                                          {"s:2", {node_role::kvstore}}};
  for (const auto& [address, roles] : others) cluster.start(address, roles);
  if (fetch_apart) cluster.start("f:1", {node_role::fetch});
  cluster.advance(5s);

  test::rng random{seed};
  sim_request request{.max_tokens = 100, .ignore_eos = true};
  for (int i = 0; i < 700; ++i)
    request.prompt.push_back(static_cast<int32_t>(2 + random.below(60)));
  const auto first = cluster.send(gateway, request);
  cluster.advance(8s);
  CHECK(first->state() == sim_client::outcome::complete);
  const auto again = cluster.send(gateway, request);
  cluster.advance(8s);
  CHECK(again->state() == sim_client::outcome::complete);
  sim_node& prefill = *cluster.find("p:1");
  CHECK(cluster.counters(prefill, prefill.actors.engines.at(0))["hits_used"] == 1);
  CHECK(cluster.network.regions() > 0);
  CHECK(figures_now().arenas > 0);

  for (const auto& [address, roles] : others) {
    const auto cut = cluster.send(gateway, request);
    cluster.advance(std::chrono::microseconds{random.below(20'000)});
    random.below(2) == 0 ? cluster.kill(address) : cluster.leave(address);
    cluster.advance(2s);
    cluster.start(address, roles);
    cluster.advance(5s);
  }
  if (fetch_apart) cluster.kill("f:1");
  cluster.send(gateway, request);
  cluster.advance(std::chrono::microseconds{random.below(20'000)});
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a cluster that ended leaves no memory, mapping or open file behind") {
    for (const bool fetch_apart : {false, true}) {
      CAPTURE(fetch_apart);
      live_through(1, fetch_apart);  // what is made once per process is there from now on
      const process_figures before = figures_now();
      CHECK(before.arenas == 0);
      constexpr int64_t lives = 4;
      for (uint64_t seed = 2; seed < 2 + lives; ++seed) live_through(seed, fetch_apart);
      const process_figures after = figures_now();
      CHECK(after.arenas == 0);
      CHECK(after.descriptors == before.descriptors);
      if (!own_allocator) continue;
      CHECK(after.mapped == before.mapped);
      CHECK((after.on_heap - before.on_heap) / lives < heap_noise);
    }
  }
}
