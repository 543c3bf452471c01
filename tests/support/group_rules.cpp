// What every store promises to whoever moves its groups to other stores.
#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

#include <map>
#include <set>

namespace deepinfer::test {

using namespace storage;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t group_size = 8;

store_config grouped_store() {
  store_config config = small_store();
  config.group_blocks = group_size;
  return config;
}

void sound(const block_store& store) {
  const auto broken = dynamic_cast<const segment_store&>(store).broken_rule();
  CHECK_MESSAGE(!broken, broken.value_or(""));
}

/// The same beginning, other tokens behind it.
block_chain branch_of(const block_chain& chain, uint32_t shared, uint64_t seed, uint32_t blocks) {
  std::vector<int32_t> tokens(chain.tokens.begin(), chain.tokens.begin() + shared * chain_tokens);
  rng random{seed};
  while (tokens.size() < size_t{blocks} * chain_tokens)
    tokens.push_back(static_cast<int32_t>(random.below(1000)));
  return chain_from("a", std::move(tokens));
}

std::vector<block_key> all_heads(const block_store& store, size_t entries) {
  std::vector<block_key> heads;
  uint64_t cursor = 0;
  do {
    const head_page page = store.heads(cursor, entries);
    heads.insert(heads.end(), page.heads.begin(), page.heads.end());
    cursor = page.next_cursor;
  } while (cursor != 0);
  std::sort(heads.begin(), heads.end());
  return heads;
}

/// A whole group, a page at a time.
std::vector<group_block> whole_group(block_store& store, const block_key& head, size_t limit) {
  std::vector<group_block> blocks;
  group_query query{.head = head, .limit = limit};
  for (;;) {
    const auto page = store.group(query);
    REQUIRE(page);
    blocks.insert(blocks.end(), page->begin(), page->end());
    if (page->empty()) return blocks;
    query.after = page->back().record.key;
  }
}

std::vector<block_key> from_leaves(block_store& store, const block_key& head) {
  const auto page = store.group({head, tree_order::children_first, {}, 1000});
  REQUIRE(page);
  std::vector<block_key> keys;
  for (const group_block& block : *page) keys.push_back(block.record.key);
  return keys;
}

void heads_are_told_page_by_page(store_home& home) {
  auto store = home.opened(grouped_store());
  CHECK(store->heads(0, 100).heads.empty());
  CHECK(store->heads(0, 100).next_cursor == 0);
  const auto chain = make_chain("a", 1, 20), other = make_chain("b", 2, 9);
  chain_writer{*store}.put(chain, 0, 20, at(0s));
  chain_writer{*store}.put(other, 0, 9, at(0s));
  std::vector<block_key> heads{chain.keys[0], chain.keys[8], chain.keys[16], other.keys[0],
                               other.keys[8]};
  std::sort(heads.begin(), heads.end());
  for (const size_t entries : {1, 3, 7, 29, 1000}) CHECK(all_heads(*store, entries) == heads);
  CHECK(store->heads(0, 7).heads.size() == 1);  // it looked no further
  CHECK(store->heads(1'000'000, 7).next_cursor == 0);
  REQUIRE(store->purge(other.scope, at(1s)));
  CHECK(all_heads(*store, 5).size() == 3);
}

void a_group_is_told_with_all_its_branches(store_home& home) {
  auto store = home.opened(grouped_store());
  const auto chain = make_chain("a", 1, 20);
  std::vector<block_chain> branches{chain, branch_of(chain, 3, 2, 8), branch_of(chain, 3, 3, 6),
                                    branch_of(chain, 6, 4, 12)};
  std::map<block_key, block_content> stored;
  for (const auto& branch : branches) {
    chain_writer{*store, {1, 1}, traffic_class::agent}.put(branch, 0, branch.size(), at(0s));
    for (uint32_t i = 0; i < std::min(branch.size(), group_size); ++i)
      stored[branch.keys[i]] = branch.content(i);
  }
  for (const size_t limit : {1, 2, 5, 1000}) {
    CAPTURE(limit);
    const auto blocks = whole_group(*store, chain.keys[0], limit);
    REQUIRE(blocks.size() == stored.size());
    std::set<block_key> before{chain.root};
    for (const auto& [record, content] : blocks) {
      CHECK(before.contains(record.parent));  // parents first, each once
      CHECK(before.insert(record.key).second);
      CHECK(content == stored.at(record.key));
      CHECK(key_of(record.parent, content) == record.key);
      CHECK(record.checksum == block_checksum(record.key, bytes_of(record.key, chain.length)));
      CHECK(record.length == chain.length);
      CHECK(record.scope == chain.scope);
      CHECK(record.classes == mask_of(traffic_class::agent));
      CHECK(record.expiry >= at(0s).wall + small_store().ttl_agent);
    }
    CHECK(blocks.front().record.key == chain.keys[0]);
  }
  // children before parents
  std::set<block_key> gone;
  std::map<block_key, block_key> parents;
  for (const auto& block : whole_group(*store, chain.keys[0], 1000))
    parents[block.record.key] = block.record.parent;
  const auto leaves = from_leaves(*store, chain.keys[0]);
  CHECK(leaves.size() == stored.size());
  for (const block_key& key : leaves) {
    for (const auto& [child, parent] : parents) CHECK((parent != key || gone.contains(child)));
    gone.insert(key);
  }
  // what is no head, or in another group, is not told
  CHECK(whole_group(*store, chain.keys[1], 10).empty());
  CHECK(whole_group(*store, make_chain("a", 9, 1).keys[0], 10).empty());
  CHECK(store->group({chain.keys[0], tree_order::parents_first, chain.keys[9], 10})->empty());
  CHECK(store->group({.head = chain.keys[0], .limit = small_store().max_batch + 1}).error().code ==
        error_code::too_large);
}

void what_others_own_is_given_away_from_the_leaves(store_home& home) {
  const auto chain = make_chain("a", 1, 12);
  const auto branch = branch_of(chain, 3, 2, 6);
  {
    auto store = home.opened(grouped_store());
    chain_writer{*store}.put(chain, 0, 12, at(0s));
    chain_writer{*store}.put(branch, 0, 6, at(0s));
    const auto before = store->changes_after({store->epoch(), 0}, 100).next;
    // not a parent, not what is not stored, and no leased one
    const std::vector<block_key> wrong{chain.keys[6], make_chain("b", 3, 1).keys[0]};
    CHECK(*store->give_away(wrong, at(1s)) == 0);
    const prefix_query query{
        std::span{branch.keys}.first(6), std::span{branch.tokens}.first(6 * chain_tokens), {}};
    const auto lease = store->match(query, lease_wish::grant, at(1s))->lease;
    REQUIRE(lease.id != 0);
    CHECK(*store->give_away(from_leaves(*store, chain.keys[0]), at(1s)) == 5);  // 3 to 7
    CHECK(stored_blocks(*store, chain, at(1s)) == 3);
    CHECK(read_back(*store, branch, 6, at(1s), lease) == 6);
    REQUIRE(store->release(lease, {}, at(2s)));
    CHECK(*store->give_away(from_leaves(*store, chain.keys[0]), at(2s)) == 6);
    CHECK(store->stats().given_away == 11);
    CHECK(store->stats().blocks == 4);  // the second group
    const auto told = store->changes_after(before, 100);
    REQUIRE(told.changes.size() == 11);
    for (const auto& change : told.changes) CHECK(change.kind == change_kind::removed);
    CHECK(told.changes.front().key == chain.keys[7]);
    CHECK(store->give_away(std::vector<block_key>(small_store().max_batch + 1), at(2s))
              .error()
              .code == error_code::too_large);
    sound(*store);
  }
  auto store = home.opened(grouped_store());
  CHECK(stored_blocks(*store, chain, at(3s)) == 0);
  CHECK(all_heads(*store, 100) == std::vector{chain.keys[8]});
  CHECK(chain_writer{*store}.put(chain, 0, 8, at(3s)) == 8);  // and may come again
  CHECK(read_back(*store, chain, 12, at(3s)) == 12);
  sound(*store);
}

commit_outcome put_with_end(block_store& store, const block_chain& chain, cluster_time end) {
  const auto content = chain.content(0);
  const reserve_item item{chain.keys[0], chain.root, 0, chain.length, content, end};
  const auto reserved =
      store.reserve({chain.scope, {5, 1}, traffic_class::chat, at(0s)}, {&item, 1});
  REQUIRE(reserved);
  const auto bytes = bytes_of(chain.keys[0], chain.length);
  const ticket_id ticket = reserved->front().ticket;
  if (reserved->front().outcome == reserve_outcome::granted) {
    const write_item write{ticket, bytes};
    REQUIRE((*store.write({&write, 1}, at(0s)))[0] == write_outcome::written);
  }
  const commit_item commit{ticket, block_checksum(chain.keys[0], bytes)};
  return (*store.commit({&commit, 1}, at(0s)))[0];
}

void a_copy_lives_as_long_as_its_source(store_home& home) {
  auto store = home.opened(grouped_store());
  const auto chain = make_chain("a", 1, 1);
  const auto ends = [&] {
    return store->match(chain.query(), lease_wish::none, at(0s))->expiry - at(0s).wall;
  };
  CHECK(put_with_end(*store, chain, at(50h).wall) == commit_outcome::stored);
  CHECK(ends() == 50h);
  CHECK(put_with_end(*store, chain, at(20h).wall) == commit_outcome::refreshed);
  CHECK(ends() == 50h);  // never shorter
  CHECK(put_with_end(*store, chain, at(70h).wall) == commit_outcome::refreshed);
  CHECK(ends() == 70h);
  CHECK(put_with_end(*store, chain, at(10'000h).wall) == commit_outcome::refreshed);
  CHECK(ends() <= small_store().ttl_chat + small_store().ttl_chat / refresh_steps);
  CHECK(*store->expire(at(171h), 10) == 1);
  sound(*store);
}

}  // namespace

std::vector<store_rule> with_group_rules(std::vector<store_rule> others) {
#define RULE(f) \
  { #f, f }
  for (const store_rule& rule :
       {store_rule RULE(heads_are_told_page_by_page), RULE(a_group_is_told_with_all_its_branches),
        RULE(what_others_own_is_given_away_from_the_leaves),
        RULE(a_copy_lives_as_long_as_its_source)})
    others.push_back(rule);
#undef RULE
  return others;
}

}  // namespace deepinfer::test
