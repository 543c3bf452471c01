// What strangers and broken peers may do to a node: nothing.
#include "tests/integration/net/probe.hpp"
#include "tests/integration/net/rogue.hpp"
#include "tests/support/rng.hpp"

#include <sys/resource.h>

using namespace deepinfer;
using namespace deepinfer::test;
using wire::frame_header;
using wire::frame_kind;

namespace {

/// A node with a well-behaved peer, whose link must survive everything.
struct town {
  live_node node{test_config(1)}, friendly{test_config(2)};
  town() { friendly.connect(node); }
  void check_alive() {
    const size_t before = friendly.heard.frame_count;
    REQUIRE(node.send(friendly.id(), 1, pattern(4096, 1)));
    REQUIRE(friendly.wait_frames(before + 1));
    live_node late{test_config(30)};
    late.connect(node);
    const std::lock_guard lock{node.heard.mutex};
    CHECK(node.heard.down[friendly.id()] == 0);
  }
};

/// The first bytes of libfabric's tcp provider: version, type (connection request), length of
/// the private data in network order, and at the end a word that tells the byte order.
std::string provider_header(size_t claimed) {
  std::string out(32, '\0');
  out[0] = 3;
  out[24] = 1;
  out[2] = static_cast<char>(claimed >> 8);
  out[3] = static_cast<char>(claimed);
  return out;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_SUITE("runtime/net/fabric") {
  TEST_CASE("strangers on the port that say nothing, half or nonsense harm nobody") {
    town here;
    const std::string address = here.node.link->address();
    std::vector<raw_client> open;
    test::rng random{1};
    for (int i = 0; i < 10; ++i) open.emplace_back(address);
    for (int i = 0; i < 50; ++i) raw_client{address};  // connect and close
    for (size_t length = 0; length < 64; ++length) {
      raw_client client{address};
      client.send(provider_header(200).substr(0, length));
      if (length % 4 == 0) open.push_back(std::move(client));
    }
    for (int i = 0; i < 10; ++i) {  // the header, but not the data it promises
      open.emplace_back(address);
      open.back().send(provider_header(200) + std::string(static_cast<size_t>(i), 'x'));
    }
    for (int i = 0; i < 200; ++i) {
      std::string garbage(1 + random.below(600), '\0');
      for (char& c : garbage) c = static_cast<char>(random.next());
      raw_client client{address};
      client.send(i % 2 == 0 ? garbage : provider_header(garbage.size() % 256) + garbage);
    }
    open.emplace_back(address);
    open.back().send("GET / HTTP/1.1\r\nHost: node\r\n\r\n");
    here.check_alive();
    CHECK(here.node.heard.up.size() == 2);
    // nothing may be left spinning
    const double before = cpu_seconds();
    CHECK_FALSE(here.node.heard.wait([] { return false; }, 1s));
    MESSAGE("cpu used in a second with strangers waiting: ", cpu_seconds() - before, " s");
    CHECK(cpu_seconds() - before < 0.1);  // one that spins on a busy machine used 0.37
  }

  TEST_CASE("a stranger without the secret, or with a recording of a hello, gets no link") {
    town here;
    const std::string address = here.node.link->address();
    CHECK_FALSE(rogue(address, 40, "wrong").connect());
    rogue damaged{address, 41};
    std::string bytes = damaged.hello_bytes();
    bytes[60] = static_cast<char>(bytes[60] ^ 1);
    CHECK_FALSE(damaged.connect(bytes));
    CHECK_FALSE(rogue(address, 42).connect(""));
    CHECK_FALSE(rogue(address, 43).connect(std::string(256, 'x')));

    rogue first{address, 44};
    const std::string recorded = first.hello_bytes();
    REQUIRE(first.connect(recorded));
    first.prove();
    REQUIRE(here.node.wait_up({0xABCD, 44}));
    REQUIRE(here.node.heard.wait([&] {
      here.node.link->drop({0xABCD, 44}, {error_code::cancelled, "test"});
      return here.node.heard.down[{0xABCD, 44}] == 1;
    }));
    rogue second{address, 45, "does not know"};  // replays what the first one said
    REQUIRE(second.connect(recorded));
    second.prove(first.proof());
    CHECK(second.closed_by_peer());
    here.check_alive();
    CHECK(here.node.heard.up[{0xABCD, 44}] == 1);
  }

  TEST_CASE("a peer that does not prove itself in time is dropped") {
    net::fabric_config config = test_config(1);
    config.dial_timeout = 500ms;
    live_node node{config};
    rogue silent{node.link->address(), 46};
    REQUIRE(silent.connect());
    CHECK(silent.closed_by_peer());
    CHECK(node.heard.up.empty());
    CHECK(node.link->stats().links_refused == 1);
  }

  TEST_CASE("a frame before the proof, and a wrong proof, end the connection") {
    town here;
    rogue early{here.node.link->address(), 47};
    REQUIRE(early.connect());
    early.send(frame_header{}, {});
    CHECK(early.closed_by_peer());
    rogue wrong{here.node.link->address(), 48};
    REQUIRE(wrong.connect());
    net::digest256 proof = wrong.proof();
    proof[31] ^= std::byte{1};
    wrong.prove(proof);
    CHECK(wrong.closed_by_peer());
    rogue longer{here.node.link->address(), 49};
    REQUIRE(longer.connect());
    longer.send_bytes(std::vector<std::byte>(4096));  // more than the first buffer holds
    CHECK(longer.closed_by_peer());
    here.check_alive();
  }

  TEST_CASE("any damaged frame ends its link, and only that") {
    town here;
    using bytes = std::vector<std::byte>;
    const auto field = [](size_t offset, uint64_t value) {
      return [offset, value](bytes& whole) { std::memcpy(whole.data() + offset, &value, 8); };
    };
    const auto sealed_again = [](auto change) {
      return [change](bytes& whole) {
        frame_header header;
        std::memcpy(&header, whole.data(), sizeof header);
        change(header);
        header.checksum = wire::frame_checksum(header, std::span{whole}.subspan(sizeof header));
        std::memcpy(whole.data(), &header, sizeof header);
      };
    };
    const std::vector<std::pair<const char*, std::function<void(bytes&)>>> damages{
        {"flipped bit", [](bytes& whole) { whole.back() ^= std::byte{1}; }},
        {"cut", [](bytes& whole) { whole.resize(whole.size() - 8); }},
        {"shorter than a header", [](bytes& whole) { whole.resize(40); }},
        {"no bytes of ours",
         [](bytes& whole) { std::fill(whole.begin(), whole.end(), std::byte{9}); }},
        {"claims 4 GiB", field(offsetof(frame_header, body_bytes), uint64_t{4} << 30)},
        {"longer than a buffer",
         [](bytes& whole) { whole.resize(limits::eager_frame_bytes + 200); }},
        {"unknown kind",
         sealed_again([](frame_header& h) { h.kind = static_cast<frame_kind>(77); })},
        {"another version", sealed_again([](frame_header& h) { h.version = 9; })},
        {"another life", sealed_again([](frame_header& h) { h.epoch += 1; })},
        {"a lost frame", sealed_again([](frame_header& h) { h.sequence += 1; })},
        {"a frame twice", sealed_again([](frame_header& h) { h.sequence -= 1; })},
        {"a second proof", sealed_again([](frame_header& h) { h.kind = frame_kind::auth; })},
        {"thanks for nothing",
         sealed_again([](frame_header& h) { h.kind = frame_kind::rendezvous_done; })},
        {"malformed rendezvous",
         sealed_again([](frame_header& h) { h.kind = frame_kind::rendezvous; })},
    };
    uint64_t number = 100;
    for (const auto& [name, damage] : damages) {
      CAPTURE(name);
      const node_id id{0xABCD, ++number};
      rogue peer{here.node.link->address(), number};
      REQUIRE(peer.connect());
      peer.prove();
      REQUIRE(here.node.wait_up(id));
      peer.send(frame_header{}, pattern(64, 1));
      REQUIRE(here.node.heard.wait([&] { return here.node.heard.frames[id].size() == 1; }));
      peer.send(frame_header{}, pattern(64, 2), damage);
      REQUIRE(here.node.wait_down(id));
      CHECK(here.node.heard.frames[id].size() == 1);
      CHECK((here.node.heard.last_down.code == error_code::corrupt ||
             here.node.heard.last_down.code == error_code::stale_epoch));
      CHECK(peer.closed_by_peer());
    }
    CHECK(here.node.link->stats().frames_corrupt >= 8);
    here.check_alive();
  }

  TEST_CASE("a rendezvous for an impossible frame, or over a broken lane, ends its link") {
    net::fabric_config config = test_config(1);
    config.rendezvous_timeout = 500ms;
    live_node node{config};
    struct {
      frame_header header;
      uint64_t base = 0, key = 0, ticket = 1;
    } body;
    uint64_t number = 200;
    const auto attempt = [&](uint64_t claimed, frame_kind kind) {
      const node_id id{0xABCD, ++number};
      rogue peer{node.link->address(), number};
      REQUIRE(peer.connect());
      peer.prove();
      REQUIRE(node.wait_up(id));
      body.header.epoch = number;
      body.header.kind = kind;
      body.header.body_bytes = claimed;
      frame_header outer;
      outer.kind = frame_kind::rendezvous;
      peer.send(outer, std::as_bytes(std::span{&body, 1}));
      REQUIRE(node.wait_down(id));
      CHECK(peer.closed_by_peer());
      CHECK(node.heard.frames[id].empty());
      return node.heard.last_down.code;
    };
    CHECK(attempt(uint64_t{4} << 30, frame_kind::message) == error_code::corrupt);
    CHECK(attempt(UINT64_MAX, frame_kind::message) == error_code::corrupt);
    CHECK(attempt(8, frame_kind::message) == error_code::corrupt);
    CHECK(attempt(1 << 20, frame_kind::rendezvous) == error_code::corrupt);
    CHECK(attempt(1 << 20, frame_kind::goodbye) == error_code::corrupt);
    // a fair claim, but the rogue has no bulk lane to fetch it from
    CHECK(attempt(1 << 20, frame_kind::message) == error_code::deadline_exceeded);
  }

  TEST_CASE("a node that takes an other one's name is not linked twice") {
    town here;
    rogue twin{here.node.link->address(), 2};  // the id of the friendly node
    REQUIRE(twin.connect());
    twin.prove();
    CHECK(twin.closed_by_peer());
    here.check_alive();
  }
}
