#include "actors/cache/fetch_locator.hpp"

#include "proto/codec/msg.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace deepinfer;

namespace {

struct node_line {
  uint64_t id = 0;
  std::string machine;
  uint64_t epoch = 0;
  uint64_t fetcher = 0;  ///< number of its kv_fetch; 0: none
  wire::NodeState state = wire::NodeState::ALIVE;
};

std::optional<uint64_t> chosen(uint64_t self, const std::vector<node_line>& nodes) {
  wire::draft<wire::Members> table;
  table->initSelf().setLo(self);
  auto records = table->initRecords(static_cast<uint32_t>(nodes.size()));
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    records[i].initId().setLo(nodes[i].id);
    records[i].setMachine(nodes[i].machine);
    records[i].setEpoch(nodes[i].epoch);
    records[i].setState(nodes[i].state);
    auto services = records[i].initServices(2);
    services[0].setKind("decode");
    services[0].initActor().setActor(9);
    if (nodes[i].fetcher == 0) continue;
    services[1].setKind(fetch_service_kind);
    services[1].initActor().setActor(nodes[i].fetcher);
  }
  const auto got = choose_fetcher(table.freeze().get());
  return got ? std::optional{got->actor} : std::nullopt;
}

wire::msg<wire::KvFetched> fetched(const storage::memory_place& place, uint64_t offset) {
  wire::draft<wire::KvFetched> out;
  out->setArenaProcess(place.process);
  out->setArenaDescriptor(place.descriptor);
  out->setArenaBytes(place.bytes);
  out->setArenaEpoch(place.epoch);
  auto blocks = out->initBlocks(1);
  blocks[0].setOffset(offset);
  blocks[0].setLength(100);
  blocks[0].setChecksum(11);
  out->initWhy().setCode(static_cast<uint16_t>(error_code::deadline_exceeded));
  return out.freeze();
}

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("a node is served by its own kv_fetch, or by the youngest of its machine") {
    CHECK(chosen(1, {{1, "m", 5, 0}, {2, "m", 6, 20}, {3, "other", 9, 30}}) == 20);
    CHECK(chosen(1, {{1, "m", 5, 10}, {2, "m", 6, 20}}) == 10);
    CHECK(chosen(1, {{1, "m", 5, 0}, {2, "m", 6, 20}, {3, "m", 8, 30}, {4, "m", 7, 40}}) == 30);
  }

  TEST_CASE("no fetcher is chosen on another machine, of an unknown machine, or a dead one") {
    CHECK_FALSE(chosen(1, {{1, "m", 5, 0}, {2, "n", 6, 20}}));
    CHECK_FALSE(chosen(1, {{1, "", 5, 0}, {2, "", 6, 20}}));
    CHECK_FALSE(chosen(1, {{1, "m", 5, 0}, {2, "m", 6, 20, wire::NodeState::DEAD}}));
    CHECK_FALSE(chosen(1, {{1, "m", 5, 0}, {2, "m", 6, 20, wire::NodeState::LEFT}}));
    CHECK_FALSE(chosen(1, {{2, "m", 6, 20}}));
    CHECK_FALSE(chosen(1, {}));
  }

  TEST_CASE("fetched blocks are read in place; one outside the memory spoils the answer") {
    const auto memory = storage::shared_memory::make(64 * 1024, 3);
    REQUIRE(memory);
    const auto place = (*memory)->place();
    std::memset((*memory)->bytes().data() + 8192, 7, 100);
    storage::arena_views views;
    const auto good = open_fetched(views, fetched(place, 8192).get());
    REQUIRE(good);
    REQUIRE(good->blocks.size() == 1);
    CHECK(good->blocks[0].bytes.size() == 100);
    CHECK(good->blocks[0].bytes[99] == std::byte{7});
    CHECK(good->blocks[0].checksum == 11);
    CHECK(good->why.code == error_code::deadline_exceeded);
    const auto wild = open_fetched(views, fetched(place, place.bytes - 99).get());
    REQUIRE_FALSE(wild);
    CHECK(wild.error().code == error_code::corrupt);
    storage::memory_place other = place;
    other.epoch = 4;
    CHECK_FALSE(open_fetched(views, fetched(other, 8192).get()));
    const auto none = open_fetched(views, wire::msg<wire::KvFetched>{}.get());
    REQUIRE(none);
    CHECK(none->blocks.empty());
    CHECK(none->why.code == error_code::ok);
  }
}
