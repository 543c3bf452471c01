// What every store promises to whoever purges a scope.
#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

namespace deepinfer::test {

using namespace storage;
using namespace std::chrono_literals;

namespace {

void sound(const block_store& store) {
  const auto broken = dynamic_cast<const segment_store&>(store).broken_rule();
  CHECK_MESSAGE(!broken, broken.value_or(""));
}

void purging_a_scope_leaves_nothing_of_it(store_home& home) {
  const auto gone = make_chain("a", 1, 40), kept = make_chain("b", 1, 40);
  {
    auto store = home.opened(small_store());
    for (uint32_t i = 0; i < 40; ++i)  // blocks of both in every segment
      for (const auto* chain : {&gone, &kept}) chain_writer{*store}.put(*chain, i, i + 1, at(0s));
    const auto open = make_chain("a", 2, 1);
    const auto ticket = (*chain_writer{*store}.reserve(open, 0, 1, at(0s)))[0].ticket;
    const auto lease = store->match(gone.query(), lease_wish::grant, at(0s))->lease;
    const auto purged = store->purge(gone.scope, at(1s));
    REQUIRE(purged);
    CHECK(purged->blocks == 40);
    CHECK(purged->bytes == 40 * uint64_t{gone.length});
    CHECK(store->purge(gone.scope, at(1s))->bytes == 0);  // though leased ones are still there
    CHECK(stored_blocks(*store, gone, at(1s)) == 0);
    CHECK(read_back(*store, gone, 40, at(1s), lease) == 0);
    CHECK(stored_blocks(*store, kept, at(1s)) == 40);
    const auto bytes = bytes_of(open.keys[0], open.length);
    const write_item write{ticket, bytes};
    CHECK((*store->write({&write, 1}, at(1s)))[0] == write_outcome::stale);
    CHECK(store->stats().doomed == 40);
    REQUIRE(store->release(lease, {}, at(1s)));
    CHECK(store->stats().doomed == 0);
  }
  // the files that hold purged bytes are due, in the next life too
  auto store = home.opened(small_store());
  while (*store->compact(1 << 20, at(2s)) > 0) {
  }
  CHECK(store->stats().compacted_bytes == 40 * 1000);
  CHECK(stored_blocks(*store, kept, at(2s)) == 40);
  CHECK(read_back(*store, kept, 40, at(2s)) == 40);
  CHECK(store->stats().file_bytes <= (40 + 3) * 4096);
  sound(*store);
}

void a_purge_in_parts_lets_others_go_on_and_takes_all(store_home& home) {
  auto config = small_store();
  config.purge_blocks = 7;
  auto store = home.opened(config);
  const auto gone = make_chain("a", 1, 40), leased = make_chain("a", 2, 10);
  const auto kept = make_chain("b", 1, 40), late = make_chain("a", 3, 3);
  for (const auto* chain : {&gone, &leased, &kept})
    REQUIRE(chain_writer{*store}.put(*chain, 0, chain->size(), at(0s)) == chain->size());
  const auto lease = store->match(leased.query(), lease_wish::grant, at(0s))->lease;
  const auto early = (*chain_writer{*store}.reserve(late, 0, 1, at(0s)))[0].ticket;
  uint64_t cursor = 0, blocks = 0, bytes = 0, parts = 0;
  do {
    const auto part = store->purge_some(gone.scope, cursor, at(1s));
    REQUIRE(part);
    CHECK(part->removed.blocks <= 7);
    blocks += part->removed.blocks;
    bytes += part->removed.bytes;
    cursor = part->next_cursor;
    ++parts;
    // a reader between two parts: its own is there, and what is left of the other is right
    CHECK(read_back(*store, kept, 40, at(1s)) == 40);
    const uint32_t left = stored_blocks(*store, gone, at(1s));
    CHECK(read_back(*store, gone, left, at(1s)) == left);
    CHECK(left + blocks >= 40);
    sound(*store);
    // a writer: others are served, nothing of this scope is taken in before the end
    CHECK(chain_writer{*store}.put(make_chain("b", 10 + parts, 1), 0, 1, at(1s)) == 1);
    if (cursor == 0) continue;
    const auto asked = chain_writer{*store}.reserve(late, 0, 1, at(1s));
    REQUIRE(asked);
    CHECK(asked->front().outcome == reserve_outcome::busy);
  } while (cursor != 0);
  CHECK(parts >= 50 / 7);
  CHECK(blocks == 50);
  CHECK(bytes == 50 * uint64_t{gone.length});
  CHECK(store->stats().purged == 50);
  CHECK(store->stats().doomed == 10);
  REQUIRE(store->release(lease, {}, at(1s)));
  CHECK(store->stats().doomed == 0);
  const auto data = bytes_of(late.keys[0], late.length);
  const write_item write{early, data};
  CHECK((*store->write({&write, 1}, at(1s)))[0] == write_outcome::stale);
  CHECK(chain_writer{*store}.put(late, 0, 3, at(1s)) == 3);
}

void a_part_goes_on_over_more_leased_branches_than_it_has_blocks(store_home& home) {
  auto config = small_store();
  config.purge_blocks = 2;
  auto store = home.opened(config);
  const auto trunk = make_chain("c", 1, 1);
  std::vector<lease_ref> held;
  for (uint64_t i = 0; i < 20; ++i) {
    auto tokens = trunk.tokens;
    const auto own = make_chain("c", 100 + i, 1).tokens;
    tokens.insert(tokens.end(), own.begin(), own.end());
    const auto branch = chain_from("c", std::move(tokens));
    REQUIRE(chain_writer{*store}.put(branch, i == 0 ? 0 : 1, 2, at(1s)) > 0);
    if (i % 2 == 0) held.push_back(store->match(branch.query(), lease_wish::grant, at(1s))->lease);
  }
  CHECK(store->purge(trunk.scope, at(1s))->blocks == 21);
  CHECK(store->stats().doomed == held.size() + 1);
  for (const lease_ref& one : held) REQUIRE(store->release(one, {}, at(1s)));
  CHECK(store->stats().doomed == 0);
  sound(*store);
}

void a_purge_that_ends_with_its_life_is_done_by_the_next(store_home& home) {
  auto config = small_store();
  config.purge_blocks = 7;
  const auto gone = make_chain("a", 1, 40), kept = make_chain("b", 1, 40);
  {
    auto store = home.opened(config);
    for (uint32_t i = 0; i < 40; ++i)
      for (const auto* chain : {&gone, &kept}) chain_writer{*store}.put(*chain, i, i + 1, at(0s));
    const auto first = store->purge_some(gone.scope, 0, at(1s));
    REQUIRE(first);
    REQUIRE(store->purge_some(gone.scope, first->next_cursor, at(1s))->next_cursor != 0);
    REQUIRE(stored_blocks(*store, gone, at(1s)) > 0);
  }
  {
    auto store = home.opened(config);
    CHECK(stored_blocks(*store, gone, at(2s)) == 0);
    CHECK(read_back(*store, kept, 40, at(2s)) == 40);
    CHECK(store->stats().blocks == 40);
    CHECK(store->stats().lost_at_open == 0);
    // its bytes leave the files as after any purge
    while (*store->compact(1 << 20, at(2s)) > 0) {
    }
    CHECK(store->stats().file_bytes <= (40 + 3) * 4096);
    REQUIRE(chain_writer{*store}.put(gone, 0, 5, at(2s)) == 5);
    sound(*store);
  }
  // it is done once: what came later stays
  CHECK(stored_blocks(*home.opened(config), gone, at(2s)) == 5);
}

}  // namespace

std::vector<store_rule> with_purge_rules(std::vector<store_rule> others) {
#define RULE(f) \
  { #f, f }
  for (const store_rule& rule : {store_rule RULE(purging_a_scope_leaves_nothing_of_it),
                                 RULE(a_purge_in_parts_lets_others_go_on_and_takes_all),
                                 RULE(a_part_goes_on_over_more_leased_branches_than_it_has_blocks),
                                 RULE(a_purge_that_ends_with_its_life_is_done_by_the_next)})
    others.push_back(rule);
#undef RULE
  return others;
}

}  // namespace deepinfer::test
