#include "actors/cache/ring_host.hpp"

#include "actors/messages/errors.hpp"
#include "runtime/base/digest.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <doctest/doctest.h>

#include <map>
#include <string>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using std::chrono::milliseconds;
using std::chrono::seconds;
using storage::block_key;

/// A kv_check that believes what it is told, in order.
struct follower_notes {
  std::map<block_key, uint64_t> rings;
  std::vector<uint64_t> numbers;
};

kv_check_actor::behavior_type follower(kv_check_actor::pointer,
                                       const std::shared_ptr<follower_notes>& notes) {
  return {
      [notes](const wire::msg<wire::RingChanges>& m) {
        notes->numbers.push_back(m.get().getNumber());
        if (m.get().getNumber() == 0) notes->rings.clear();
        for (const auto entry : m.get().getAdded())
          notes->rings[{entry.getKey().getHi(), entry.getKey().getLo()}] = entry.getBytes();
        const auto removed = m.get().getRemoved();
        for (size_t at = 0; at < removed.size(); at += storage::key_bytes)
          notes->rings.erase(
              storage::key_from_bytes(reinterpret_cast<const std::byte*>(removed.begin()) + at));
      },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

std::vector<model::state_part> some_rings(uint8_t fill, size_t bytes) {
  return {{model::part_kind::ring, 0, std::vector<std::byte>(bytes, std::byte{fill})},
          {model::part_kind::state, 0, std::vector<std::byte>(100, std::byte(fill + 1))}};
}

struct ring_world {
  explicit ring_world(ring_host_config config = {}) {
    host = home.world.system.spawn(ring_host,
                                   ring_host_setup{config, &home.hub, home.transport.get()});
    world.run();
  }
  ~ring_world() {
    caf::anon_send_exit(host, caf::exit_reason::user_shutdown);
    world.run();
  }

  void keep(uint64_t key, uint8_t fill = 1, size_t bytes = 1000, block_key replaces = {}) {
    caf::anon_send(
        host,
        keep_rings{{key, key},
                   replaces,
                   9,
                   key % 2,
                   std::make_shared<std::vector<model::state_part>>(some_rings(fill, bytes))});
    world.advance(milliseconds{20});
  }

  result<wire::msg<wire::RingReady>> pull(uint64_t key, uint64_t layout = 9) {
    const auto handle =
        other.hub.resolve<ring_host_actor>(*home.hub.export_actor(ring_host_actor{host}));
    REQUIRE(handle);
    wire::draft<wire::RingPull> out;
    out->initKey().setHi(key);
    out->getKey().setLo(key);
    out->setLayout(layout);
    return world.ask<wire::msg<wire::RingReady>>(other, *handle, out.freeze());
  }

  /// The parts' bytes, read from the other node and compared with their digests.
  std::vector<std::vector<std::byte>> read(const wire::msg<wire::RingReady>& ready) {
    std::vector<std::vector<std::byte>> parts;
    for (const auto part : ready.get().getParts()) {
      const auto ref = part.getBytes();
      std::vector<std::byte> bytes(ref.getLength());
      bool good = false;
      other.transport->read(home.id(), {ref.getRegion(), ref.getOffset(), ref.getLength()}, bytes,
                            seconds{5},
                            [&good](const result<void>& r) { good = static_cast<bool>(r); });
      world.run();
      REQUIRE(good);
      CHECK(digest_of(bytes) == digest128{ref.getDigestHi(), ref.getDigestLo()});
      parts.push_back(std::move(bytes));
    }
    return parts;
  }

  void release(const wire::msg<wire::RingReady>& ready) {
    const auto lease = ready.get().getLease();
    const auto owner = other.hub.resolve<lease_owner_actor>(read_ref(lease.getOwner()));
    REQUIRE(owner);
    wire::draft<wire::LeaseRelease> out;
    out->setId(lease.getId());
    caf::anon_send(*owner, out.freeze());
    world.run();
  }

  std::shared_ptr<follower_notes> follow() {
    auto notes = std::make_shared<follower_notes>();
    followers.push_back(other.world.system.spawn(follower, notes));
    subscribe(followers.back());
    return notes;
  }
  void subscribe(const kv_check_actor& who) {
    wire::draft<wire::RingSubscribe> out;
    write_ref(out->initSubscriber(), *other.hub.export_actor(who));
    caf::anon_send(host, out.freeze());
    world.run();
  }

  std::map<std::string, int64_t> gauges() {
    const auto info =
        world.ask<wire::msg<wire::ActorInfo>>(home, host, wire::draft<wire::Inspect>{}.freeze());
    REQUIRE(info);
    std::map<std::string, int64_t> all;
    for (const auto counter : info->get().getCounters())
      all[counter.getName().cStr()] = counter.getValue();
    return all;
  }

  remote_world world;
  remote_node& home = world.start("engine");
  remote_node& other = world.start("other");
  ring_host_impl_actor host;
  std::vector<kv_check_actor> followers;
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("an engine of another node reads rings as they were given, for its layout alone") {
    ring_world w;
    w.keep(1, 50);
    const auto ready = w.pull(1);
    REQUIRE(ready);
    const auto parts = w.read(*ready);
    const auto expected = some_rings(50, 1000);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0] == expected[0].bytes);
    CHECK(parts[1] == expected[1].bytes);
    CHECK(ready->get().getParts()[0].getKind() == wire::PartKind::RING);
    CHECK(ready->get().getParts()[1].getKind() == wire::PartKind::STATE);
    CHECK(w.gauges()["holds"] == 1);
    w.release(*ready);
    CHECK(w.gauges()["holds"] == 0);
    const auto wrong = w.pull(1, 10);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == error_code::not_found);
    CHECK_FALSE(w.pull(2));
    CHECK(w.gauges()["pulls"] == 3);
    CHECK(w.gauges()["hits"] == 1);
  }

  TEST_CASE("over its memory the longest unused rings go, never those being read") {
    ring_host_config config;
    config.bytes = 1 << 20;
    ring_world w{config};
    for (uint64_t key = 1; key <= 3; ++key) w.keep(key, static_cast<uint8_t>(key), 300'000);
    const auto held = w.pull(1);
    REQUIRE(held);
    w.keep(4, 4, 300'000);  // 2 goes
    CHECK_FALSE(w.pull(2));
    w.keep(5, 5, 300'000);
    w.keep(6, 6, 300'000);
    CHECK(w.read(*held)[0] == some_rings(1, 300'000)[0].bytes);
    CHECK(w.gauges()["evictions"] == 3);
    CHECK(w.gauges()["bytes"] <= 1 << 20);
    w.keep(7, 7, (1 << 20) + 1);  // too long for all of it
    CHECK(w.gauges()["dropped"] == 1);
    CHECK(w.pull(1));
  }

  TEST_CASE("rings that all are being read leave no room for new ones") {
    ring_host_config config;
    config.bytes = 1 << 20;
    config.lease_ttl = seconds{5};
    ring_world w{config};
    for (uint64_t key = 1; key <= 3; ++key) {
      w.keep(key, 1, 300'000);
      REQUIRE(w.pull(key));
    }
    w.keep(4, 4, 300'000);
    CHECK(w.gauges()["dropped"] == 1);
    w.world.advance(seconds{7});  // their readers died
    w.keep(4, 4, 300'000);
    CHECK(w.pull(4));
  }

  TEST_CASE("newer rings of a sequence take the place of its older ones, unused ones idle out") {
    ring_host_config config;
    config.idle = seconds{900};
    ring_world w{config};
    w.keep(1);
    w.keep(2, 2, 1000, {1, 1});
    CHECK_FALSE(w.pull(1));
    CHECK(w.pull(2));
    w.world.advance(seconds{890});
    CHECK(w.gauges()["rings"] == 1);
    w.world.advance(seconds{20});
    CHECK(w.gauges()["rings"] == 0);
    CHECK(w.gauges()["bytes"] == 0);
  }

  TEST_CASE("a purge takes all rings of a scope, and says how many") {
    ring_world w;
    const auto notes = w.follow();
    for (uint64_t key = 1; key <= 5; ++key) w.keep(key);
    CHECK(notes->rings.size() == 5);
    wire::draft<wire::KvPurge> out;
    out->setScope(1);
    const auto purged = w.world.ask<wire::msg<wire::KvPurged>>(w.home, w.host, out.freeze());
    REQUIRE(purged);
    CHECK(purged->get().getRings() == 3);
    CHECK_FALSE(w.pull(3));
    CHECK(w.pull(2));
    w.world.advance(milliseconds{20});
    CHECK(notes->rings.size() == 2);
  }

  TEST_CASE("followers hear the whole list first, then changes under numbers without gaps") {
    ring_world w;
    w.keep(1);
    const auto early = w.follow();
    CHECK(early->numbers == std::vector<uint64_t>{0});
    CHECK(early->rings.size() == 1);
    w.keep(2);
    w.keep(3, 3, 1000, {1, 1});
    const auto late = w.follow();
    CHECK(early->rings == late->rings);
    CHECK(early->rings.size() == 2);
    CHECK(early->numbers == std::vector<uint64_t>{0, 1, 2});
    w.keep(4);
    CHECK(late->numbers == std::vector<uint64_t>{0, 1});
    w.subscribe(w.followers[0]);  // it missed a number, so it says
    CHECK(early->numbers.back() == 0);
    CHECK(early->rings == late->rings);
    CHECK(w.gauges()["followers"] == 2);
    caf::anon_send_exit(w.followers[1], caf::exit_reason::kill);
    w.world.run();
    CHECK(w.gauges()["followers"] == 1);
  }
}
