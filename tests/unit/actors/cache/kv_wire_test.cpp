#include "actors/cache/kv_wire.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

namespace deepinfer {
namespace {

storage::change_batch some_changes(uint64_t seed, size_t count) {
  test::rng random{seed};
  storage::change_batch batch;
  batch.next = {3, 100 + count};
  for (size_t i = 0; i < count; ++i) {
    storage::block_change change;
    change.sequence = 101 + i;
    change.kind = static_cast<storage::change_kind>(random.below(3));
    change.key = {random.next(), random.next()};
    change.depth = random.below(1 << 20);
    change.content_digest = random.next();
    change.expiry = storage::cluster_time{static_cast<int64_t>(random.next() >> 20)};
    batch.changes.push_back(change);
  }
  return batch;
}

void check_same(const storage::block_change& a, const storage::block_change& b) {
  CHECK(a.sequence == b.sequence);
  CHECK(a.kind == b.kind);
  CHECK(a.key == b.key);
  CHECK(a.depth == b.depth);
  CHECK(a.content_digest == b.content_digest);
  CHECK(a.expiry == b.expiry);
}

}  // namespace

TEST_SUITE_BEGIN("actors/cache/kv_wire");

TEST_CASE("changes come out of a message as they went in") {
  for (const size_t count : {0, 1, 2, 1000}) {
    const auto batch = some_changes(count, count);
    const auto read = read_changes(to_wire(batch).get());
    REQUIRE(read);
    CHECK_FALSE(read->gap);
    CHECK(read->next == batch.next);
    REQUIRE(read->changes.size() == count);
    for (size_t i = 0; i < count; ++i) check_same(read->changes[i], batch.changes[i]);
  }
  storage::change_batch gap;
  gap.gap = true;
  CHECK(read_changes(to_wire(gap).get())->gap);
}

TEST_CASE("a page comes out as it went in, without numbers, at 36 bytes a block") {
  storage::snapshot_page page{{4, 77}, 12, some_changes(1, 4096).changes};
  for (auto& block : page.blocks) {
    block.kind = storage::change_kind::stored;
    block.sequence = 0;
  }
  const auto message = to_wire(page);
  CHECK(message.bytes().size() < 4096 * 36 + 200);
  const auto read = read_page(message.get());
  REQUIRE(read);
  CHECK(read->position == page.position);
  CHECK(read->next_cursor == 12);
  REQUIRE(read->blocks.size() == 4096);
  for (size_t i = 0; i < 4096; ++i) check_same(read->blocks[i], page.blocks[i]);
}

TEST_CASE("columns of different lengths are refused, whichever is wrong") {
  for (uint32_t wrong = 0; wrong < 6; ++wrong) {
    const auto length = [wrong](uint32_t column, uint32_t bytes) {
      return column == wrong ? bytes - 1 : bytes;
    };
    wire::draft<wire::KvChanges> out;
    auto columns = out->initChanges();
    columns.setCount(length(0, 3));
    columns.initKeys(length(1, 3 * 16));
    columns.initDepths(length(2, 3 * 4));
    columns.initContentDigests(length(3, 3 * 8));
    columns.initExpiriesMs(length(4, 3 * 8));
    columns.initKinds(length(5, 3));
    const auto read = read_changes(out.freeze().get());
    REQUIRE_FALSE(read);
    CHECK(read.error().code == error_code::corrupt);
  }
  wire::draft<wire::KvSnapshotPage> huge;
  huge->initBlocks().setCount(UINT32_MAX);
  CHECK_FALSE(read_page(huge.freeze().get()));
}

TEST_SUITE_END();

}  // namespace deepinfer
