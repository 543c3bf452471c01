#include "tests/integration/net/probe.hpp"
#include "tests/integration/net/process.hpp"

using namespace deepinfer;
using namespace deepinfer::test;

namespace {

/// What `net_peer` has registered.
std::byte peer_byte(size_t i) {
  return static_cast<std::byte>(i * 7 + (i >> 12));
}

/// The key that `net_peer` tells in its first frame.
uint64_t region_of(live_node& node, const node_id& peer) {
  REQUIRE(node.wait_frames(1));
  const std::lock_guard lock{node.heard.mutex};
  return node.heard.frames[peer].front().header.aux;
}

}  // namespace

TEST_SUITE("runtime/net/fabric") {
  TEST_CASE("reads of all sizes bring the peer's bytes, and range and key are checked") {
    const size_t size = (size_t{9} << 20) + 8;
    auto memory = pattern(size, 5);  // registered: outlives the nodes
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    const auto region = b.link->register_memory(memory);
    REQUIRE(region);
    for (const size_t length : {size_t{0}, size_t{1}, size_t{100}, size_t{114688}, size_t{1} << 20,
                                (size_t{1} << 20) + 1, size_t{8} << 20}) {
      CAPTURE(length);
      std::vector<std::byte> into(length);
      REQUIRE(a.read(b.id(), {region->key, 8, length}, into) == error_code::ok);
      CHECK(std::equal(into.begin(), into.end(), memory.begin() + 8));
    }
    std::vector<std::byte> into(64);
    const auto bad = error_code::invalid_argument;
    CHECK(a.read(b.id(), {region->key, size - 64, 64}, into) == error_code::ok);
    CHECK(a.read(b.id(), {region->key, size - 63, 64}, into) == bad);
    CHECK(a.read(b.id(), {region->key, UINT64_MAX - 8, 64}, into) == bad);
    CHECK(a.read(b.id(), {region->key + 1, 0, 64}, into) == bad);
    CHECK(a.read(b.id(), {region->key, 0, 63}, into) == bad);
    CHECK(a.read({4, 4}, {region->key, 0, 64}, into) == error_code::unreachable);
    CHECK(b.read(b.id(), {region->key, 8, 64}, into) == error_code::ok);
    CHECK(std::equal(into.begin(), into.end(), memory.begin() + 8));
    CHECK(b.read(b.id(), {region->key, size, 64}, into) == bad);
    CHECK(b.link->register_memory({}).error().code == bad);
    CHECK(a.heard.down.empty());  // none of this harms the link
    CHECK(a.link->stats().read_bytes > 10u << 20);
  }

  TEST_CASE("after unregister a peer that knew the region is refused, and others can still read") {
    auto memory = std::make_unique<std::vector<std::byte>>(pattern(4 << 20, 5));
    auto other = pattern(4096, 6);
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    const auto region = b.link->register_memory(*memory);
    const auto stays = b.link->register_memory(other);
    REQUIRE(region);
    REQUIRE(stays);
    std::vector<std::byte> into(4096);
    for (int round = 0; round < 5; ++round) {
      REQUIRE(a.read(b.id(), {region->key, 0, 4096}, into) == error_code::ok);
    }
    // reads are under way while the memory goes
    std::atomic<int> ended{0};
    std::vector<std::vector<std::byte>> buffers(32, std::vector<std::byte>(1 << 20));
    for (auto& buffer : buffers)
      a.link->read(b.id(), {region->key, 0, 1 << 20}, buffer, 10s, [&](const result<void>& how) {
        if (!how) CHECK(how.error().code == error_code::invalid_argument);
        a.heard.change([&] { ++ended; });
      });
    b.link->unregister(*region);
    memory.reset();
    REQUIRE(a.heard.wait([&] { return ended == 32; }));
    CHECK(a.read(b.id(), {region->key, 0, 4096}, into) == error_code::invalid_argument);
    CHECK(a.read(b.id(), {stays->key, 0, 4096}, into) == error_code::ok);
    CHECK(into == other);
    CHECK(a.heard.down.empty());
  }

  TEST_CASE("many reads at a time from another process all end with the right bytes") {
    peer_process peer{{"70"}};
    live_node a{test_config(1)};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 70};
    REQUIRE(a.wait_up(id));
    const uint64_t key = region_of(a, id);
    constexpr size_t count = 200, length = 114688;
    std::vector<std::vector<std::byte>> into(count, std::vector<std::byte>(length));
    std::atomic<size_t> done{0};
    for (size_t i = 0; i < count; ++i)
      a.link->read(id, {key, i * 4096, length}, into[i], 20s, [&](const result<void>& how) {
        CHECK(how);
        a.heard.change([&] { ++done; });
      });
    REQUIRE(a.heard.wait([&] { return done == count; }));
    for (size_t i = 0; i < count; ++i)
      for (size_t k = 0; k < length; k += 997) REQUIRE(into[i][k] == peer_byte(i * 4096 + k));
  }

  TEST_CASE("reads of a killed peer end once, as unreachable, and the lane works on") {
    live_node a{test_config(1)};
    for (uint64_t round = 0; round < 5; ++round) {
      CAPTURE(round);
      peer_process peer{{std::to_string(80 + round)}};
      a.link->dial(peer.address);
      const node_id id{0xABCD, 80 + round};
      REQUIRE(a.wait_up(id));
      REQUIRE(a.heard.wait([&] { return !a.heard.frames[id].empty(); }));
      const uint64_t key = a.heard.frames[id].front().header.aux;
      constexpr int count = 16;
      std::vector<std::vector<std::byte>> into(count, std::vector<std::byte>(8 << 20));
      std::atomic<int> ended{0}, wrong{0};
      for (auto& buffer : into)
        a.link->read(id, {key, 0, buffer.size()}, buffer, 30s, [&](const result<void>& how) {
          if (!how && how.error().code != error_code::unreachable) ++wrong;
          a.heard.change([&] { ++ended; });
        });
      REQUIRE(a.heard.wait([&] { return ended >= 1 + static_cast<int>(round); }));
      peer.signal(SIGKILL);
      REQUIRE(a.wait_down(id));
      REQUIRE(a.heard.wait([&] { return ended == count; }));
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("a read of a frozen peer ends at its deadline and writes nothing afterwards") {
    peer_process peer{{"90"}};
    net::fabric_config config = test_config(1);
    config.dead_after = 60s;
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 90};
    REQUIRE(a.wait_up(id));
    const uint64_t key = region_of(a, id);
    std::vector<std::byte> into(8 << 20);
    REQUIRE(a.read(id, {key, 0, into.size()}, into) == error_code::ok);
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      // freeze in the middle of the transfers
      std::atomic<int> ended{0};
      std::vector<std::vector<std::byte>> busy(8, std::vector<std::byte>(8 << 20));
      for (auto& buffer : busy)
        a.link->read(id, {key, 0, buffer.size()}, buffer, 1500ms, [&](const result<void>& how) {
          CHECK((how || how.error().code == error_code::deadline_exceeded));
          a.heard.change([&] { ++ended; });
        });
      peer.freeze();
      REQUIRE(a.heard.wait([&] { return ended == 8; }));
      std::fill(into.begin(), into.end(), std::byte{0});
      REQUIRE(a.read(id, {key, 0, into.size()}, into, 300ms) == error_code::deadline_exceeded);
      const auto copy = into;
      peer.signal(SIGCONT);
      std::vector<std::byte> second(1 << 20);
      REQUIRE(a.read(id, {key, 0, second.size()}, second) == error_code::ok);
      CHECK(second[4097] == peer_byte(4097));
      CHECK(into == copy);
    }
    CHECK(a.heard.down.empty());
  }

  TEST_CASE("a peer that freezes in a long read is dropped by silence, and the lane works on") {
    auto memory = pattern(1 << 20, 9);  // registered: outlives the nodes
    live_node a{test_config(1)}, c{test_config(3)};
    const auto region = c.link->register_memory(memory);
    a.connect(c);
    for (uint64_t round = 0; round < 2; ++round) {
      CAPTURE(round);
      peer_process peer{{std::to_string(95 + round)}};
      a.link->dial(peer.address);
      const node_id id{0xABCD, 95 + round};
      REQUIRE(a.wait_up(id));
      REQUIRE(a.heard.wait([&] { return !a.heard.frames[id].empty(); }));
      const uint64_t key = a.heard.frames[id].front().header.aux;
      std::atomic<int> ended{0}, failed{0};
      std::vector<std::vector<std::byte>> into(8, std::vector<std::byte>(8 << 20));
      for (auto& buffer : into)
        a.link->read(id, {key, 0, buffer.size()}, buffer, 30s, [&](const result<void>& how) {
          if (!how && how.error().code == error_code::unreachable) ++failed;
          a.heard.change([&] { ++ended; });
        });
      REQUIRE(a.heard.wait([&] { return ended >= 1; }));
      peer.freeze();
      REQUIRE(a.wait_down(id));
      REQUIRE(a.heard.wait([&] { return ended == 8; }));
      std::vector<std::byte> other(1 << 20);
      for (int i = 0; i < 20; ++i)
        REQUIRE(a.read(c.id(), {region->key, 0, other.size()}, other) == error_code::ok);
      CHECK(other == memory);
    }
  }

  TEST_CASE("reads beyond the queue's bound are refused") {
    peer_process peer{{"98"}};
    net::fabric_config config = test_config(1);
    config.dead_after = 60s;
    config.max_queued_reads = 10;
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 98};
    REQUIRE(a.wait_up(id));
    const uint64_t key = region_of(a, id);
    std::vector<std::byte> into(4096);
    REQUIRE(a.read(id, {key, 0, into.size()}, into) == error_code::ok);
    peer.freeze();
    std::atomic<int> refused{0}, ended{0};
    std::vector<std::vector<std::byte>> buffers(30, std::vector<std::byte>(1 << 20));
    for (auto& buffer : buffers)
      a.link->read(id, {key, 0, buffer.size()}, buffer, 1s, [&](const result<void>& how) {
        if (!how && how.error().code == error_code::no_capacity) ++refused;
        a.heard.change([&] { ++ended; });
      });
    REQUIRE(a.heard.wait([&] { return ended == 30; }));
    CHECK(refused >= 19);  // one may have come from the socket's buffer
  }

  TEST_CASE("stop ends open reads before it returns") {
    peer_process peer{{"99"}};
    net::fabric_config config = test_config(1);
    config.dead_after = 60s;
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 99};
    REQUIRE(a.wait_up(id));
    const uint64_t key = region_of(a, id);
    peer.freeze();
    std::vector<std::byte> into(8 << 20);
    std::atomic<int> ended{0}, cancelled{0};
    for (int i = 0; i < 2; ++i)
      a.link->read(id, {key, 0, into.size()}, into, 30s, [&](const result<void>& how) {
        ++ended;
        if (!how && how.error().code == error_code::cancelled) ++cancelled;
      });
    a.link->stop();
    CHECK(ended == 2);
    CHECK(cancelled == 2);
    a.link->read(id, {key, 0, into.size()}, into, 30s, [&](const result<void>& how) {
      CHECK(how.error().code == error_code::cancelled);
      ++ended;
    });
    CHECK(ended == 3);
  }

  TEST_CASE("the number of memory regions is bounded") {
    net::fabric_config config = test_config(1);
    config.max_regions = 2;
    std::vector<std::byte> memory(4096);
    live_node a{config};
    const auto one = a.link->register_memory(memory);
    REQUIRE(one);
    REQUIRE(a.link->register_memory(memory));
    CHECK(a.link->register_memory(memory).error().code == error_code::no_capacity);
    a.link->unregister(*one);
    CHECK(a.link->register_memory(memory));
  }
}
