#include "runtime/schedule/restore_choice.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;
using namespace deepinfer::schedule;
using namespace std::chrono_literals;

namespace {

// Rings cover all but the last 20 tokens of a prompt; replays go back 72 or 16 tokens.
restore_plan plan(uint32_t prompt, uint32_t blocks, restore_mode mode) {
  const uint32_t behind = mode == restore_mode::ring ? 20 : 1;
  const uint32_t hit = std::min(blocks, (prompt - std::min(prompt, behind)) / 128) * 128;
  const uint32_t back = mode == restore_mode::ring ? 0 : mode == restore_mode::bounded ? 16 : 72;
  return {hit, hit - std::min(hit, back)};
}

restore_choice choose(const restore_offer& offer, const restore_rates& rates) {
  return choose_restore(offer, rates, plan);
}

}  // namespace

TEST_SUITE("runtime/schedule") {
  TEST_CASE("a hit without rings is replayed in the mode that was set") {
    for (const auto mode : {restore_mode::exact, restore_mode::bounded}) {
      const auto c = choose({1000, 7, 2, 100, mode, {}}, {});
      CHECK(c.mode == mode);
      CHECK(c.plan.hit == 896);
      CHECK(c.reason == restore_reason::no_rings);
      CHECK_FALSE(c.ring);
    }
  }

  TEST_CASE("rings are taken while nothing was measured, those of the longest hit") {
    const std::vector<ring_offer> rings{{3, 50}, {7, 50}};
    const auto c = choose({1000, 7, 2, 100, restore_mode::exact, rings}, {});
    CHECK(c.mode == restore_mode::ring);
    CHECK(c.ring == std::optional<size_t>{1});
    CHECK(c.plan.start == 896);
    CHECK(c.reason == restore_reason::rings_kept);
  }

  TEST_CASE("rings that take longer than the replay of the same hit are left where they are") {
    const std::vector<ring_offer> rings{{7, 1'000'000}};
    const restore_offer offer{1000, 7, 2, 100, restore_mode::exact, rings};
    // 72 tokens at 1000 per second are 72 ms.
    const auto slow = choose(offer, {1000, 1e9, 1'000'000 / 0.080});
    CHECK(slow.mode == restore_mode::exact);
    CHECK(slow.reason == restore_reason::rings_slow);
    const auto fast = choose(offer, {1000, 1e9, 1'000'000 / 0.060});
    CHECK(fast.mode == restore_mode::ring);
  }

  TEST_CASE("a hit that takes longer to fetch than to compute is not used (KV-27)") {
    const restore_offer offer{1000, 7, 2, 1000, restore_mode::bounded, {}};
    // 880 tokens are saved, 0.88 s; 7000 bytes have to come.
    CHECK(choose(offer, {1000, 7000 / 0.9, 0}).reason == restore_reason::computing_is_faster);
    CHECK(choose(offer, {1000, 7000 / 0.9, 0}).plan.hit == 0);
    CHECK(choose(offer, {1000, 7000 / 0.8, 0}).plan.hit == 896);
    // What is here costs nothing.
    CHECK(choose({1000, 7, 2, 0, restore_mode::bounded, {}}, {1000, 1, 0}).plan.hit == 896);
  }

  TEST_CASE("what is fetched for others comes first: bytes and queue against tokens (KV-27)") {
    restore_offer offer{1000, 7, 2, 1000, restore_mode::bounded, {}};
    // 7000 bytes at 10000 a second are 0.7 s, 880 tokens 0.88 s: 1800 bytes in front are too much.
    offer.queued_bytes = 1700;
    CHECK(choose(offer, {1000, 10'000, 0}).plan.hit == 896);
    offer.queued_bytes = 1900;
    CHECK(choose(offer, {1000, 10'000, 0}).reason == restore_reason::computing_is_faster);
    CHECK(choose(offer, {1000, 0, 0}).plan.hit == 896);  // nobody knows how long they take
    CHECK(choose(offer, {0, 10'000, 0}).plan.hit == 896);
  }

  TEST_CASE("short hits and hits that save nothing are computed (KV-35)") {
    CHECK(choose({1000, 1, 2, 100, restore_mode::bounded, {}}, {}).reason ==
          restore_reason::too_short);
    CHECK(choose({1000, 2, 2, 100, restore_mode::bounded, {}}, {}).plan.hit == 256);
    CHECK(choose({1000, 0, 2, 100, restore_mode::bounded, {}}, {}).reason ==
          restore_reason::none_stored);
    // The prompt ends too early behind them: they are stored all the same.
    CHECK(choose({128, 7, 2, 100, restore_mode::bounded, {}}, {}).reason ==
          restore_reason::too_short);
    const auto from_0 = [](uint32_t, uint32_t blocks, restore_mode) {
      return restore_plan{blocks * 128, 0};
    };
    CHECK(choose_restore({1000, 5, 2, 100, restore_mode::exact, {}}, {}, from_0).plan.hit == 0);
  }

  TEST_CASE("rings that do not fit the hit or the prompt are not offered") {
    const std::vector<ring_offer> beyond{{8, 50}};
    CHECK(choose({2000, 7, 2, 100, restore_mode::exact, beyond}, {}).mode == restore_mode::exact);
    // 7 blocks end 4 tokens before the prompt does: its last 20 are computed.
    const std::vector<ring_offer> late{{7, 50}};
    CHECK(choose({900, 7, 2, 100, restore_mode::exact, late}, {}).mode == restore_mode::exact);
  }

  TEST_CASE(
      "whatever is offered: the plan is one of the model's, and costs no more than computing") {
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      std::vector<ring_offer> rings(random.below(4));
      for (auto& ring : rings) ring = {random.below(12), random.below(100000)};
      const restore_offer offer{1 + random.below(1500),
                                random.below(12),
                                1 + random.below(3),
                                random.below(5000),
                                random.below(2) ? restore_mode::exact : restore_mode::bounded,
                                rings};
      const restore_rates rates{double(random.below(3) * 700), double(random.below(3) * 9000),
                                double(random.below(3) * 9000)};
      const auto c = choose(offer, rates);
      if (c.plan.hit == 0) {
        REQUIRE(c.plan.start == 0);
        REQUIRE_FALSE(c.ring);
        continue;
      }
      REQUIRE(c.plan.hit < offer.prompt_tokens);
      REQUIRE(c.plan.start > 0);
      REQUIRE(c.plan.hit >= offer.min_hit_blocks * 128);
      REQUIRE(c.plan.hit <= offer.hit_blocks * 128);
      REQUIRE(c.ring.has_value() == (c.mode == restore_mode::ring));
      const auto again =
          plan(offer.prompt_tokens, c.ring ? rings[*c.ring].blocks : offer.hit_blocks, c.mode);
      REQUIRE(again.hit == c.plan.hit);
      REQUIRE(again.start == c.plan.start);
      if (rates.computed_tokens > 0 && rates.fetched_bytes > 0)
        REQUIRE(double(offer.block_bytes) * (c.plan.hit / 128) / rates.fetched_bytes <
                c.plan.start / rates.computed_tokens);
    }
  }

  TEST_CASE("a rate follows what is measured and is forgotten when it is old") {
    recent_rate rate{10s};
    CHECK(rate.at(0s) == 0);
    rate.measured(100, 1s, 1s);
    CHECK(rate.at(1s) == doctest::Approx(100));
    rate.measured(200, 1s, 2s);
    CHECK(rate.at(2s) == doctest::Approx(125));
    rate.measured(5, 0s, 3s);
    CHECK(rate.at(12s) == doctest::Approx(125));
    CHECK(rate.at(13s) == 0);
    rate.measured(40, 2s, 14s);
    CHECK(rate.at(14s) == doctest::Approx(20));
  }
}
