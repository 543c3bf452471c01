#include "tests/integration/net/probe.hpp"
#include "tests/integration/net/process.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace deepinfer;
using namespace deepinfer::test;

namespace {

// before the first transport of this executable
const bool prepared = [] {
  net::restore_signal_defaults();
  net::choose_provider("tcp");
  return true;
}();

size_t open_descriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {}));
}

size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream{"/proc/self/statm"} >> pages >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

const std::vector<size_t> sizes{0,     8,     48,    56,     64,      4096,          65528,
                                65536, 65544, 70000, 262144, 1 << 20, (1 << 20) + 8, 8 << 20};

}  // namespace

TEST_SUITE("runtime/net/fabric") {
  TEST_CASE("frames of all sizes arrive whole and in order, in both directions") {
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    std::vector<std::vector<std::byte>> bodies;
    for (const size_t size : sizes) bodies.push_back(pattern(size, size));
    uint64_t number = 0;
    for (int round = 0; round < 3; ++round) {
      for (const auto& body : bodies) {
        REQUIRE(a.send(b.id(), number, body));
        REQUIRE(b.send(a.id(), number, body));
        ++number;
      }
    }
    for (live_node* node : {&a, &b}) {
      const node_id other = node == &a ? b.id() : a.id();
      REQUIRE(node->wait_frames(number));
      const auto& got = node->heard.frames[other];
      REQUIRE(got.size() == number);
      for (uint64_t i = 0; i < number; ++i) {
        CAPTURE(i);
        CHECK(got[i].header.message_id == i);
        CHECK(got[i].body == bodies[i % bodies.size()]);
      }
    }
    CHECK(a.heard.down.empty());
    CHECK(a.link->stats().frames_corrupt == 0);
  }

  TEST_CASE("another process echoes frames of all sizes") {
    peer_process peer{{"50"}};
    live_node a{test_config(1)};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 50};
    REQUIRE(a.wait_up(id));
    for (const size_t size : sizes) REQUIRE(a.send(id, size + 1, pattern(size, 3)));
    REQUIRE(a.wait_frames(sizes.size() + 1));
    for (size_t i = 0; i < sizes.size(); ++i) {
      CHECK(a.heard.frames[id][i + 1].header.message_id == sizes[i] + 1);
      CHECK(a.heard.frames[id][i + 1].body == pattern(sizes[i], 3));
    }
    CHECK(peer.finish() == 0);
    REQUIRE(a.wait_down(id));
    CHECK(a.heard.last_down.code == error_code::cancelled);  // it said goodbye
  }

  TEST_CASE("frames of several threads keep the order of each thread") {
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    constexpr uint64_t threads = 4, each = 3000;
    std::vector<std::thread> senders;
    for (uint64_t t = 0; t < threads; ++t)
      senders.emplace_back([&, t] {
        for (uint64_t i = 0; i < each; ++i) {
          const auto body = pattern(8 * (i % 40), t);
          while (!a.send(b.id(), t * each + i, body)) std::this_thread::yield();
        }
      });
    for (auto& sender : senders) sender.join();
    REQUIRE(b.wait_frames(threads * each));
    std::vector<uint64_t> next(threads);
    for (const auto& frame : b.heard.frames[a.id()]) {
      const uint64_t t = frame.header.message_id / each;
      REQUIRE(frame.header.message_id % each == next[t]++);
      REQUIRE(frame.body.size() == 8 * (frame.header.message_id % each % 40));
    }
  }

  TEST_CASE("a frame over the limit is refused at once") {
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    const std::vector<std::byte> body(limits::max_frame_bytes + 8);
    CHECK(a.send(b.id(), 1, body).error().code == error_code::too_large);
    CHECK(a.send({1, 2}, 1).error().code == error_code::unreachable);
    CHECK(a.send(a.id(), 1).error().code == error_code::unreachable);
  }

  TEST_CASE("the send queue of a peer that does not read is bounded") {
    peer_process peer{{"51"}};
    net::fabric_config config = test_config(1);
    config.send_queue_bytes = 1 << 20;
    config.dead_after = 60s;
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 51};
    REQUIRE(a.wait_up(id));
    peer.freeze();
    const auto body = pattern(4096, 1);
    size_t accepted = 0;
    result<void> last;
    while ((last = a.send(id, accepted, body)) && accepted < 100'000) ++accepted;
    REQUIRE_FALSE(last);
    CHECK(last.error().code == error_code::no_capacity);
    CHECK(accepted * 4096 < 16u << 20);  // the bound, and what the kernel's buffers took
    peer.signal(SIGCONT);
    REQUIRE(a.wait_frames(accepted + 1));
    CHECK(a.send(id, 0, body));
  }

  TEST_CASE("the number of frames queued is bounded, too") {
    peer_process peer{{"52"}};
    net::fabric_config config = test_config(1);
    config.send_queue_frames = 10;
    config.window_bytes = 4096;
    config.dead_after = 60s;
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 52};
    REQUIRE(a.wait_up(id));
    peer.freeze();
    const auto body = pattern(65536, 1);
    size_t accepted = 0;
    while (accepted < 1000 && a.send(id, accepted, body)) ++accepted;
    CHECK(accepted < 1000);
  }

  TEST_CASE("a thousand dials and drops leave no descriptor and no memory behind") {
    live_node a{test_config(1)}, b{test_config(2)};
    size_t descriptors = 0, memory = 0;
    for (int i = 1; i <= 1000; ++i) {
      a.link->dial(b.link->address());
      REQUIRE(a.wait_up(b.id(), i));
      REQUIRE(b.wait_up(a.id(), i));
      (i % 2 == 0 ? a : b).link->drop(i % 2 == 0 ? b.id() : a.id(), {error_code::cancelled, "x"});
      REQUIRE(a.wait_down(b.id(), i));
      REQUIRE(b.wait_down(a.id(), i));
      if (i == 200) {  // pools have grown by then
        descriptors = open_descriptors();
        memory = resident_bytes();
      }
    }
    CHECK(open_descriptors() <= descriptors + 8);  // the last links may be closing
#ifndef __SANITIZE_ADDRESS__                       // which keeps freed memory for a while
    CHECK(resident_bytes() < memory + (8u << 20));
#endif
    MESSAGE("resident growth over 800 cycles: ",
            (static_cast<double>(resident_bytes()) - static_cast<double>(memory)) / 1024, " KiB");
  }

  TEST_CASE("stop says goodbye and calls nothing afterwards") {
    live_node b{test_config(2)};
    auto a = std::make_unique<live_node>(test_config(1));
    a->connect(b);
    const node_id id = a->id();
    a->link->stop();
    CHECK(a->heard.down[b.id()] == 1);
    CHECK(a->heard.last_down.code == error_code::cancelled);
    CHECK(a->send(b.id(), 1).error().code == error_code::unreachable);
    a->link->stop();
    a.reset();
    REQUIRE(b.wait_down(id));
    CHECK(b.heard.last_down.code == error_code::cancelled);
  }
}
