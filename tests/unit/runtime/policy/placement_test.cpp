#include "runtime/policy/placement.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

using deepinfer::policy::owners;
using deepinfer::policy::placement_digest;
using deepinfer::policy::store_site;
using deepinfer::storage::block_key;
using deepinfer::test::rng;

std::vector<store_site> some_sites(rng& random, size_t count) {
  std::vector<store_site> sites;
  for (size_t i = 0; i < count; ++i) sites.push_back({random.next(), random.next(), 1});
  return sites;
}

std::vector<block_key> some_keys(rng& random, size_t count) {
  std::vector<block_key> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back({random.next(), random.next()});
  return keys;
}

std::vector<double> shares(const std::vector<block_key>& keys,
                           const std::vector<store_site>& sites) {
  std::vector<double> share(sites.size());
  for (const block_key& key : keys)
    share[owners(key, sites, 1)[0]] += 1.0 / static_cast<double>(keys.size());
  return share;
}

}  // namespace

TEST_SUITE("runtime/policy") {
  TEST_CASE("equal stores get equal shares of the groups") {
    rng random(1);
    const auto sites = some_sites(random, 8);
    // 40,000 draws at p = 1/8: one standard deviation is 1.3 % of the share.
    for (const double share : shares(some_keys(random, 40'000), sites))
      CHECK(std::abs(share * 8 - 1) < 0.05);
  }

  TEST_CASE("shares are in proportion to weights") {
    rng random(2);
    auto sites = some_sites(random, 4);
    const uint64_t tera = uint64_t{1} << 40;
    for (size_t i = 0; i < 4; ++i) sites[i].weight = (i + 1) * tera;
    const auto share = shares(some_keys(random, 40'000), sites);
    for (size_t i = 0; i < 4; ++i) CHECK(std::abs(share[i] * 10 / double(i + 1) - 1) < 0.06);
  }

  TEST_CASE("a store that joins takes its share and moves nothing else") {
    rng random(3);
    auto sites = some_sites(random, 5);
    const auto keys = some_keys(random, 20'000);
    std::vector<uint32_t> before;
    for (const block_key& key : keys) before.push_back(owners(key, sites, 1)[0]);
    sites.push_back({random.next(), random.next(), 1});
    size_t moved = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint32_t now = owners(keys[i], sites, 1)[0];
      if (now == before[i]) continue;
      ++moved;
      REQUIRE(now == 5);
    }
    CHECK(std::abs(double(moved) * 6 / double(keys.size()) - 1) < 0.06);
  }

  TEST_CASE("a store that leaves hands its groups to their next owners") {
    rng random(4);
    const auto sites = some_sites(random, 6);
    auto fewer = sites;
    fewer.pop_back();
    for (const block_key& key : some_keys(random, 2000)) {
      auto before = owners(key, sites, 6);
      std::erase(before, 5u);
      REQUIRE(owners(key, fewer, 5) == before);
    }
  }

  TEST_CASE("owners do not depend on the order in which stores are known") {
    rng random(5);
    auto sites = some_sites(random, 7);
    for (store_site& site : sites) site.weight = random.next() % 5;  // also some of weight 0
    for (const block_key& key : some_keys(random, 500)) {
      const auto straight = owners(key, sites, 7);
      auto turned = sites;
      std::rotate(turned.begin(), turned.begin() + 3, turned.end());
      auto back = owners(key, turned, 7);
      for (uint32_t& index : back) index = (index + 3) % 7;
      REQUIRE(back == straight);
    }
  }

  TEST_CASE("the digest is that of the sites, their weights and the replicas, in any order") {
    rng random{8};
    auto sites = some_sites(random, 5);
    const uint64_t digest = placement_digest(sites, 2);
    CHECK(digest != 0);
    std::reverse(sites.begin(), sites.end());
    CHECK(placement_digest(sites, 2) == digest);
    CHECK(placement_digest(sites, 1) != digest);
    CHECK(placement_digest(std::span{sites}.first(4), 2) != digest);
    for (size_t i = 0; i < sites.size(); ++i) {
      for (uint64_t store_site::*part :
           {&store_site::id_hi, &store_site::id_lo, &store_site::weight}) {
        auto others = sites;
        ++(others[i].*part);
        CHECK(placement_digest(others, 2) != digest);
      }
    }
    std::swap(sites[0].weight, sites[1].id_lo);
    CHECK(placement_digest(sites, 2) != digest);
  }

  TEST_CASE("fewer owners are the first of more, and there are never more than stores") {
    rng random(6);
    const auto sites = some_sites(random, 5);
    for (const block_key& key : some_keys(random, 200)) {
      const auto all = owners(key, sites, 9);
      REQUIRE(all.size() == 5);
      for (uint32_t n = 0; n <= 5; ++n)
        REQUIRE(owners(key, sites, n) == std::vector<uint32_t>(all.begin(), all.begin() + n));
    }
    CHECK(owners({1, 2}, {}, 3).empty());
  }

  TEST_CASE("a store without weight owns only what nobody else can") {
    rng random(7);
    auto sites = some_sites(random, 3);
    sites[1].weight = 0;
    for (const block_key& key : some_keys(random, 500)) {
      const auto all = owners(key, sites, 3);
      REQUIRE(all[2] == 1);
    }
  }

  TEST_CASE("placement is a fixed rule: these groups lie where they always lay") {
    // Computed by another program, with real logarithms; a change moves every cluster's groups.
    const std::vector<store_site> sites = {{1, 2, 10}, {3, 4, 20}, {5, 6, 30}, {7, 8, 40}};
    std::vector<std::vector<uint32_t>> placed;
    for (uint64_t i = 0; i < 6; ++i) placed.push_back(owners({i, ~i}, sites, 4));
    const std::vector<std::vector<uint32_t>> expected = {{3, 1, 0, 2}, {3, 1, 0, 2}, {1, 2, 3, 0},
                                                         {3, 2, 0, 1}, {2, 3, 0, 1}, {1, 0, 3, 2}};
    CHECK(placed == expected);
  }
}
