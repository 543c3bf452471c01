#include "actors/serve/kv_swap.hpp"

#include "runtime/model/toy_model.hpp"
#include "storage/arena/shared_memory.hpp"
#include "storage/block/block_checksum.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using schedule::slot_id;

constexpr uint32_t block_bytes = 256;

struct engine_notes {
  std::vector<swap_checked> checked;
  std::vector<swap_begun> begun;
};

swap_sink_actor::behavior_type noting_engine(swap_sink_actor::pointer,
                                             const std::shared_ptr<engine_notes>& notes) {
  return {
      [notes](const swap_checked& m) { notes->checked.push_back(m); },
      [notes](const swap_begun& m) { notes->begun.push_back(m); },
  };
}

/// A kv_swap with room for `room` blocks, its engine, and blocks of one prompt in shared memory.
struct swap_site {
  explicit swap_site(uint32_t room = 100) {
    kv_swap_config config{&node.hub, uint64_t{room} * block_bytes, 1};
    sut = node.world.system.spawn(kv_swap, config, node.world.system.spawn(noting_engine, notes));
    model = *model::make_toy_model({.import = model::toy_import::absorb});
    prompt.resize(128 * blocks + 50);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(2 + i * i % 60);
    auto state = model->make_sequence();
    model::step_item item;
    item.target = state.get();
    item.tokens = prompt;
    model->step({&item, 1});
    const auto parts = model->export_blocks(*state, 0, blocks);
    uint64_t at = storage::memory_header_bytes;
    for (uint32_t i = 0; i < blocks; ++i, at += block_bytes) {
      keys->push_back({i + 1, i + 1});
      std::copy(parts[i].bytes.begin(), parts[i].bytes.end(), memory->bytes().begin() + at);
      sums.push_back(storage::block_checksum(keys->back(), parts[i].bytes));
    }
  }

  [[nodiscard]] std::span<std::byte> bytes(uint32_t i) {
    return memory->bytes().subspan(storage::memory_header_bytes + i * block_bytes, block_bytes);
  }
  std::shared_ptr<fetched_prefix> fetched(uint32_t count = blocks) {
    auto out = std::make_shared<fetched_prefix>();
    out->memory = *storage::memory_view::open(memory->place());
    for (uint32_t i = 0; i < count; ++i)
      out->blocks.push_back({out->memory->bytes().subspan(
                                 storage::memory_header_bytes + i * block_bytes, block_bytes),
                             sums[i]});
    return out;
  }
  void check(uint64_t slot, const std::shared_ptr<const fetched_prefix>& from) {
    caf::anon_send(sut, swap_check{slot_id{slot}, 0, from, keys, block_bytes});
  }
  void drop(uint64_t slot) { caf::anon_send(sut, swap_drop{slot_id{slot}, 0}); }
  [[nodiscard]] model::restored_sequence restore(uint32_t count) const {
    return *model->begin_restore({prompt, count * 128, model::restore_mode::exact, {}, {}});
  }
  void load(uint64_t slot, const std::shared_ptr<model::swap_in>& into) {
    caf::anon_send(sut, swap_load{slot_id{slot}, 0, 5, into});
  }
  /// The token behind the prompt; -1: blocks are missing.
  int32_t token_of(model::sequence& state) {
    model::step_item item;
    item.target = &state;
    item.tokens = std::span{prompt}.subspan(state.computed_tokens());
    item.sample = true;
    model->step({&item, 1});
    return item.state_missing ? -1 : item.sampled;
  }
  int64_t figure(const std::string& name) {
    const auto info = world.ask<wire::msg<wire::ActorInfo>>(node, sut, wire::msg<wire::Inspect>{});
    REQUIRE(info);
    for (const auto counter : info->get().getCounters())
      if (name == counter.getName().cStr()) return counter.getValue();
    return 0;
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) static_cast<void>(world.run_one());
  }

  static constexpr uint32_t blocks = 6;
  remote_world world;
  remote_node& node = world.start("a");
  std::unique_ptr<storage::shared_memory> memory =
      *storage::shared_memory::make(uint64_t{1} << 16, 1);
  std::shared_ptr<std::vector<storage::block_key>> keys =
      std::make_shared<std::vector<storage::block_key>>();
  std::vector<uint64_t> sums;
  std::shared_ptr<engine_notes> notes = std::make_shared<engine_notes>();
  std::shared_ptr<model::step_model> model;
  std::vector<int32_t> prompt;
  kv_swap_actor sut;
};

}  // namespace

TEST_SUITE("actors/serve") {
  TEST_CASE("copies end in front of the first block that is not what was stored") {
    for (uint32_t bad = 0; bad <= swap_site::blocks; ++bad) {
      CAPTURE(bad);
      swap_site site;
      if (bad < swap_site::blocks) site.bytes(bad)[100] ^= std::byte{4};
      site.check(1, site.fetched());
      site.world.run();
      REQUIRE(site.notes->checked.size() == 1);
      CHECK(site.notes->checked[0].blocks == bad);
      CHECK(site.notes->checked[0].all_good == (bad == swap_site::blocks));
      CHECK(site.figure("copy_bytes") == int64_t{bad} * block_bytes);
    }
  }

  TEST_CASE("what was verified is what is loaded, whatever becomes of the shared memory") {
    swap_site site;
    auto from = site.fetched();
    const std::weak_ptr<const storage::memory_view> mapped = from->memory;
    site.check(1, std::exchange(from, nullptr));
    site.world.run();
    CHECK(mapped.expired());  // nobody needs it any more
    for (uint32_t i = 0; i < swap_site::blocks; ++i)
      std::fill(site.bytes(i).begin(), site.bytes(i).end(), std::byte{9});
    auto restored = site.restore(swap_site::blocks);
    site.load(1, restored.loading);
    site.world.run();
    REQUIRE(site.notes->begun.size() == 1);
    CHECK(site.notes->begun[0].start == 5);
    CHECK(site.token_of(*restored.state) == model::toy_next_token({}, site.prompt));
    CHECK(site.figure("copy_bytes") == 0);
    CHECK(site.figure("hits") == 0);
  }

  TEST_CASE("memory that changes while it is copied ends the copies there") {
    std::set<uint32_t> ends;
    for (int steps = 1; steps < 10; ++steps) {
      CAPTURE(steps);
      swap_site site;
      site.check(1, site.fetched());
      site.run(steps);
      for (uint32_t i = 0; i < swap_site::blocks; ++i)
        std::fill(site.bytes(i).begin(), site.bytes(i).end(), std::byte{9});
      site.world.run();
      REQUIRE(site.notes->checked.size() == 1);
      const uint32_t good = site.notes->checked[0].blocks;
      ends.insert(good);
      CHECK(site.notes->checked[0].all_good == (good == swap_site::blocks));
      if (good == 0) continue;
      auto restored = site.restore(good);
      site.load(1, restored.loading);
      site.world.run();
      CHECK(site.token_of(*restored.state) == model::toy_next_token({}, site.prompt));
    }
    CHECK(ends == std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6});  // one block at a time
  }

  TEST_CASE("a hit that is dropped while it is copied gives everything back, and is not told of") {
    for (int steps = 0; steps < 9; ++steps) {
      CAPTURE(steps);
      swap_site site;
      site.check(1, site.fetched());
      site.check(2, site.fetched());
      site.run(steps);
      site.drop(1);
      site.world.run();
      const auto told = [&](uint64_t slot) {
        return std::count_if(site.notes->checked.begin(), site.notes->checked.end(),
                             [slot](const auto& m) { return m.slot == slot_id{slot}; });
      };
      CHECK(told(1) <= 1);
      if (steps < 7) CHECK(told(1) == 0);
      CHECK(told(2) == 1);
      CHECK(site.figure("copy_bytes") == swap_site::blocks * block_bytes);
      site.drop(2);
      site.world.run();
      CHECK(site.figure("copy_bytes") == 0);
      CHECK(site.figure("hits_waiting") == 0);
    }
  }

  TEST_CASE("hits wait for room in their order; one that could never fit is cut") {
    swap_site site{8};
    site.check(1, site.fetched());
    site.check(2, site.fetched(4));
    site.check(3, site.fetched(2));  // it would fit, and waits behind the second
    site.world.run();
    CHECK(site.notes->checked.size() == 1);
    CHECK(site.figure("hits_waiting") == 2);
    site.drop(1);
    site.world.run();
    CHECK(site.notes->checked.size() == 3);
    CHECK(site.figure("copy_bytes") == 6 * block_bytes);
    swap_site tiny{2};
    tiny.check(1, tiny.fetched());
    tiny.world.run();
    REQUIRE(tiny.notes->checked.size() == 1);
    CHECK(tiny.notes->checked[0].blocks == 2);
    CHECK(tiny.notes->checked[0].all_good);
    CHECK(tiny.figure("hits_cut") == 1);
  }

  TEST_CASE("who is dropped while it waits holds up nobody") {
    swap_site site{6};
    site.check(1, site.fetched());
    site.world.run();
    site.check(2, site.fetched());
    site.check(3, site.fetched(2));
    site.world.run();
    site.drop(2);
    auto restored = site.restore(6);
    site.load(1, restored.loading);
    site.world.run();
    REQUIRE(site.notes->checked.size() == 2);
    CHECK(site.notes->checked[1].slot == slot_id{3});
  }

  TEST_CASE("a sequence that ended is loaded into nothing, one without copies is given up") {
    swap_site site;
    site.check(1, site.fetched());
    site.world.run();
    auto gone = site.restore(6);
    gone.state.reset();
    site.load(1, gone.loading);
    auto other = site.restore(6);
    site.load(2, other.loading);
    site.world.run();
    CHECK(site.notes->begun.size() == 2);  // nobody waits for a load that never comes
    CHECK(site.token_of(*other.state) == -1);
    CHECK(site.figure("hits_given_up") == 1);
    CHECK(site.figure("copy_bytes") == 0);
  }
}
