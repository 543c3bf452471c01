#include "actors/cache/index_set.hpp"

#include "storage/block/chain_hasher.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;
using storage::block_key;

constexpr match_shape small{.block_tokens = 4, .default_group_blocks = 8, .max_stores = 8};

store_facts store(uint64_t number, uint64_t epoch = 1, uint32_t group_blocks = 3) {
  return {{number, 7 * number}, epoch, group_blocks, 100, {{epoch, number}, number, 1}};
}

std::vector<block_key> keys_of(const block_key& root, std::span<const int32_t> tokens) {
  std::vector<block_key> keys;
  storage::chain_hasher hasher{root, small.block_tokens};
  REQUIRE(hasher.append(tokens, {}, keys));
  return keys;
}

std::vector<int32_t> some_tokens(test::rng& random, size_t count) {
  std::vector<int32_t> tokens(count);
  for (auto& t : tokens) t = static_cast<int32_t>(random.below(1'000));
  return tokens;
}

/// One store's truth and its stream of changes, as `block_store` gives it.
class told_store {
public:
  told_store(index_set& set, uint64_t number) : index_(set.index(store(number).id)) {
    index_->begin_snapshot();
    index_->add_page({{1, 0}, 0, {}});
    index_->end_snapshot();
  }

  void put(std::span<const int32_t> tokens, const std::vector<block_key>& keys, uint32_t block) {
    const auto part = tokens.subspan(size_t{block} * small.block_tokens, small.block_tokens);
    const auto content = storage::content_of(part, block, {});
    tell({.kind = storage::change_kind::stored,
          .key = keys[block],
          .depth = block,
          .content_digest = storage::content_digest(content)});
    has.insert(keys[block]);
  }
  void remove(const block_key& key) {
    tell({.kind = storage::change_kind::removed, .key = key});
    has.erase(key);
  }

  std::set<block_key> has;

private:
  void tell(storage::block_change change) {
    change.sequence = ++sequence_;
    REQUIRE(index_->apply({false, {1, sequence_}, {change}}));
  }

  std::shared_ptr<storage::prefix_index> index_;
  uint64_t sequence_ = 0;
};

/// The sum of what is in the front of each group, at the one store that has most of it.
uint32_t naive_hit(const std::map<uint64_t, told_store>& stores,
                   const std::set<uint64_t>& offered,
                   const std::vector<block_key>& keys,
                   uint32_t group_blocks) {
  uint32_t hit = 0;
  for (uint32_t first = 0; first < keys.size(); first += group_blocks) {
    const uint32_t whole =
        std::min<uint32_t>(group_blocks, static_cast<uint32_t>(keys.size()) - first);
    uint32_t best = 0;
    for (const uint64_t number : offered) {
      uint32_t front = 0;
      while (front < whole && stores.at(number).has.contains(keys[first + front])) ++front;
      best = std::max(best, front);
    }
    hit += best;
    if (best < whole) break;
  }
  return hit;
}

void check_groups(const prefix_hit& hit,
                  const std::map<uint64_t, told_store>& stores,
                  const std::set<uint64_t>& offered,
                  uint32_t group_blocks) {
  CHECK(hit.groups.size() == (hit.hit_blocks + group_blocks - 1) / group_blocks);
  for (uint32_t g = 0; g < hit.groups.size(); ++g) {
    REQUIRE(!hit.groups[g].empty());
    const uint32_t end = std::min(hit.hit_blocks, (g + 1) * group_blocks);
    for (const actor_ref& ref : hit.groups[g]) {
      CHECK(offered.contains(ref.actor));
      CHECK(stores.at(ref.actor).has.contains(hit.keys[end - 1]));
    }
  }
}

struct block_of {
  uint32_t prompt = 0;
  uint32_t block = 0;
};

/// Leaf first, as stores remove: also what other prompts have behind this block in its group.
void remove_with_children(told_store& from,
                          const std::vector<std::vector<block_key>>& prompts,
                          const block_of& which) {
  const block_key& last = prompts[which.prompt][which.block];
  const uint32_t end = which.block / 3 * 3 + 3;
  for (const auto& keys : prompts)
    for (uint32_t b = std::min<uint32_t>(end, static_cast<uint32_t>(keys.size()));
         b > which.block && keys[which.block] == last; --b)
      if (from.has.contains(keys[b - 1]) && keys[b - 1] != last) from.remove(keys[b - 1]);
  if (from.has.contains(last)) from.remove(last);
}

TEST_SUITE_BEGIN("actors/cache");

TEST_CASE("10^4 random changes and matches: the set finds what looking at every store finds") {
  test::rng random{1};
  index_set set{small};
  std::map<uint64_t, told_store> stores;
  std::set<uint64_t> offered;
  for (uint64_t n = 1; n <= 5; ++n) {
    REQUIRE(set.offer(store(n)) == index_set::offered::taken);
    stores.emplace(n, told_store{set, n});
    offered.insert(n);
  }
  const block_key root{3, 4};
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::vector<block_key>> all_keys;
  const auto first = some_tokens(random, 70);
  for (int i = 0; i < 12; ++i) {  // some share their beginning
    auto tokens = first;
    tokens.resize(random.below(71));
    const auto more = some_tokens(random, 4 + random.below(80));
    tokens.insert(tokens.end(), more.begin(), more.end());
    prompts.push_back(tokens);
    all_keys.push_back(keys_of(root, tokens));
  }
  uint64_t hits = 0, whole = 0;
  for (int step = 0; step < 10'000; ++step) {
    CAPTURE(step);
    const uint32_t which = random.below(static_cast<uint32_t>(prompts.size()));
    const auto& tokens = prompts[which];
    const auto& keys = all_keys[which];
    const uint64_t number = 1 + random.below(5);
    told_store& one = stores.at(number);
    const uint32_t at = keys.empty() ? 0 : random.below(static_cast<uint32_t>(keys.size()));
    const uint32_t head = at / 3 * 3;
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:  // parents first, as stores take them; also with the wrong owner
        for (uint32_t b = head; b <= at && b < keys.size(); ++b)
          if (!one.has.contains(keys[b])) one.put(tokens, keys, b);
        break;
      case 3:
        if (!keys.empty()) remove_with_children(one, all_keys, {which, at});
        break;
      case 4:
        if (random.below(10) != 0) break;
        if (offered.contains(number)) {
          CHECK(set.withdraw(store(number).actor, 0ns) == store(number).id);
          offered.erase(number);
        } else {
          REQUIRE(set.offer(store(number)) == index_set::offered::taken);
          offered.insert(number);
        }
        break;
      default: {
        const prefix_hit hit = set.match(root, tokens);
        if (!offered.empty()) CHECK(set.group_blocks() == 3);
        CHECK(hit.prompt_blocks == keys.size());
        CHECK(hit.hit_blocks == naive_hit(stores, offered, keys, 3));
        check_groups(hit, stores, offered, 3);
        hits += hit.hit_blocks > 0;
        whole += hit.hit_blocks == keys.size();
      }
    }
  }
  CHECK(hits > 1'000);
  CHECK(whole > 100);
}

TEST_CASE("the store that owns a group by its hash is told first") {
  test::rng random{5};
  index_set set{small};
  std::map<uint64_t, told_store> stores;
  const auto tokens = some_tokens(random, 4 * 30);
  const auto keys = keys_of({1, 1}, tokens);
  std::vector<policy::store_site> sites;
  for (uint64_t n = 1; n <= 3; ++n) {
    REQUIRE(set.offer(store(n)) == index_set::offered::taken);
    sites.push_back({store(n).id.hi, store(n).id.lo, 100});
    told_store& one = stores.emplace(n, told_store{set, n}).first->second;
    for (uint32_t b = 0; b < keys.size(); ++b) one.put(tokens, keys, b);
  }
  const prefix_hit hit = set.match({1, 1}, tokens);
  REQUIRE(hit.hit_blocks == keys.size());
  for (uint32_t g = 0; g < hit.groups.size(); ++g) {
    const auto order = policy::owners(keys[g * 3], sites, 3);
    REQUIRE(hit.groups[g].size() == 3);
    for (uint32_t i = 0; i < 3; ++i) CHECK(hit.groups[g][i].actor == order[i] + 1);
  }
}

TEST_CASE("what is behind everybody's blocks is hit only with them, under its scope's own keys") {
  test::rng random{9};
  index_set set{small};
  REQUIRE(set.offer(store(1)) == index_set::offered::taken);
  told_store one{set, 1};
  const auto tokens = some_tokens(random, 4 * 11);
  const storage::shared_prefix shared{{5, 5}, 4};
  const auto public_tokens = std::span{tokens}.first(4 * 4);
  const auto own_tokens = std::span{tokens}.subspan(4 * 4);
  const auto public_keys = keys_of(shared.root, public_tokens);
  const auto behind = [&](const block_key& root) {
    return keys_of(storage::root_behind(root, public_keys.back()), own_tokens);
  };
  const auto mine = behind({1, 1}), foreign = behind({2, 2});
  const std::vector<int32_t> own{own_tokens.begin(), own_tokens.end()};
  for (uint32_t b = 0; b < mine.size(); ++b) one.put(own, mine, b);
  CHECK(set.match({1, 1}, tokens, shared).hit_blocks == 0);  // what is in front is not there

  const std::vector<int32_t> listed{public_tokens.begin(), public_tokens.end()};
  for (uint32_t b = 0; b < 3; ++b) one.put(listed, public_keys, b);
  CHECK(set.match({1, 1}, tokens, shared).hit_blocks == 3);
  one.put(listed, public_keys, 3);
  const prefix_hit hit = set.match({1, 1}, tokens, shared);
  CHECK(hit.prompt_blocks == 11);
  CHECK(hit.hit_blocks == 11);
  // 4 shared in groups of 3: 3 and 1; 7 own: 3, 3 and 1
  CHECK(hit.groups.size() == 5);
  std::vector<block_key> all = public_keys;
  all.insert(all.end(), mine.begin(), mine.end());
  CHECK(hit.keys == all);
  // another scope has the shared ones, and not one more, until its own are there
  CHECK(set.match({2, 2}, tokens, shared).hit_blocks == 4);
  one.put(own, foreign, 0);
  CHECK(set.match({2, 2}, tokens, shared).hit_blocks == 5);
  // a prompt that ends within or at the end of what is shared
  for (uint32_t blocks = 1; blocks <= 4; ++blocks)
    CHECK(set.match({2, 2}, std::span{tokens}.first(size_t{4} * blocks), {shared.root, blocks})
              .hit_blocks == blocks);
}

TEST_CASE("what a store knew is hit at once when it comes back, and forgotten after a while") {
  test::rng random{2};
  index_set set{small};
  REQUIRE(set.offer(store(1)) == index_set::offered::taken);
  told_store one{set, 1};
  const auto tokens = some_tokens(random, 12);
  const auto keys = keys_of({1, 1}, tokens);
  for (uint32_t b = 0; b < 3; ++b) one.put(tokens, keys, b);
  set.withdraw(store(1).actor, 10s);
  CHECK(set.match({1, 1}, tokens).hit_blocks == 0);
  CHECK(set.forget(10s).empty());

  REQUIRE(set.offer(store(1, 2)) == index_set::offered::taken);  // another life, another actor
  const prefix_hit hit = set.match({1, 1}, tokens);
  CHECK(hit.hit_blocks == 3);
  CHECK(hit.groups.at(0).at(0) == store(1, 2).actor);
  CHECK_FALSE(set.withdraw(store(1, 1).actor, 20s));  // the old one's end means nothing

  CHECK(set.withdraw(store(1, 2).actor, 20s) == store(1).id);
  CHECK(set.forget(21s) == std::vector{store(1).id});
  CHECK(set.known() == 0);
  CHECK(set.index(store(1).id) == nullptr);
}

TEST_CASE("a folder's older life does not take the place of a newer one") {
  index_set set{small};
  REQUIRE(set.offer(store(1, 5)) == index_set::offered::taken);
  CHECK(set.offer(store(1, 4)) == index_set::offered::older_life);
  set.withdraw(store(1, 5).actor, 0ns);
  CHECK(set.offer(store(1, 4)) == index_set::offered::taken);
}

TEST_CASE("one store over the limit, one without an id and one without groups are not taken") {
  index_set set{small};
  for (uint64_t n = 1; n <= small.max_stores; ++n)
    REQUIRE(set.offer(store(n)) == index_set::offered::taken);
  CHECK(set.offer(store(small.max_stores + 1)) == index_set::offered::too_many);
  CHECK(set.offer(store(1, 9)) == index_set::offered::taken);  // a known one is no further one
  store_facts nameless = store(1);
  nameless.id = {};
  CHECK(set.offer(nameless) == index_set::offered::useless);
  CHECK(set.offer(store(2, 1, 0)) == index_set::offered::useless);
}

TEST_CASE("stores that cut chains otherwise than most are not asked") {
  index_set set{small};
  CHECK(set.group_blocks() == 8);
  REQUIRE(set.offer(store(1, 1, 5)) == index_set::offered::taken);
  CHECK(set.group_blocks() == 5);
  REQUIRE(set.offer(store(2)) == index_set::offered::taken);
  REQUIRE(set.offer(store(3)) == index_set::offered::taken);
  CHECK(set.group_blocks() == 3);
  CHECK(set.stores() == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
