#include "runtime/model/v41_model.hpp"
#include "runtime/model/v41_sequence.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;
using test::load_mini;
using test::random_tokens;

namespace {

constexpr uint32_t vocabulary = 160;

bool feed(step_model& model, sequence& target, std::span<const int32_t> tokens) {
  step_item item = test::sampling(target, tokens, {});
  model.step({&item, 1});
  return !item.failed;
}

// The whole state as bytes: two sequences with equal parts are the same sequence.
bool same_state(const step_model& model, const sequence& a, const sequence& b) {
  const auto x = model.export_state(a), y = model.export_state(b);
  return std::ranges::equal(x, y, [](const state_part& p, const state_part& q) {
    return p.kind == q.kind && p.index == q.index && p.bytes == q.bytes;
  });
}

// Sampled with temperature, so that any difference in the logits has a chance to show.
std::vector<int32_t> continued(step_model& model, sequence& target, uint32_t count) {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < count; ++i) {
    step_item item = test::sampling(target, {}, {.temperature = 1, .seed = 5});
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.push_back(item.sampled);
  }
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("logits have the same bits however the prompt is cut") {
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : {numeric_level::L0, numeric_level::L1}) {
        const auto model = load_mini(shape, {.level = level});
        const auto tokens = random_tokens(1, 150, vocabulary);
        const auto whole = model->forward(tokens, {.per_layer = true});
        REQUIRE(whole);
        for (const uint32_t chunk : {1u, 2u, 7u, 64u, 149u}) {
          CAPTURE(chunk);
          const auto cut = model->forward(tokens, {.per_layer = true, .chunk = chunk});
          REQUIRE(cut);
          CHECK(cut->logits == whole->logits);
          CHECK(cut->entries == whole->entries);
          for (uint32_t layer = 0; layer < whole->layers.size(); ++layer) {
            CHECK(cut->layers[layer].stream == whole->layers[layer].stream);
            CHECK(cut->layers[layer].chosen == whole->layers[layer].chosen);
          }
        }
      }
  }

  TEST_CASE("a sequence has the same state and tokens alone and in any batch") {
    for (const char* shape : {"mini", "mini12"}) {
      // few rows a pass, so that the step cuts items in the middle
      const auto model = load_mini(shape, {.pass_rows = 20});
      const auto alone_model = load_mini(shape);
      constexpr uint32_t count = 5;
      std::vector<std::unique_ptr<sequence>> batched;
      std::vector<std::vector<int32_t>> prompts;
      std::vector<step_item> items;
      for (uint32_t i = 0; i < count; ++i) {
        prompts.push_back(random_tokens(10 + i, 3 + 23 * i, vocabulary));
        batched.push_back(model->make_sequence());
      }
      // prompts arrive in different steps; later ones decode beside earlier ones' prefill
      for (uint32_t round = 0; round < count + 8; ++round) {
        items.clear();
        for (uint32_t i = 0; i < std::min(count, round + 1); ++i)
          items.push_back(test::sampling(
              *batched[i],
              i == round ? std::span<const int32_t>(prompts[i]) : std::span<const int32_t>{},
              {.temperature = 1, .seed = 5}));
        model->step(items);
        for (const step_item& item : items) REQUIRE_FALSE(item.failed);
      }
      for (uint32_t i = 0; i < count; ++i) {
        CAPTURE(i);
        const auto fresh = alone_model->make_sequence();
        step_item item = test::sampling(*fresh, prompts[i], {.temperature = 1, .seed = 5});
        alone_model->step({&item, 1});
        continued(*alone_model, *fresh, count + 8 - i - 1);
        CHECK(fresh->last_sampled() == batched[i]->last_sampled());
        CHECK(same_state(*model, *fresh, *batched[i]));
      }
    }
  }

  TEST_CASE("an exported sequence continues bit-equal at every length") {
    for (const char* shape : {"mini", "mini12"}) {
      const auto model = load_mini(shape);
      const auto other = load_mini(shape);
      const auto tokens = random_tokens(3, 300, vocabulary);
      const auto stayed = model->make_sequence();
      uint32_t at = 0;
      for (const uint32_t length : {0u, 1u, 2u, 3u, 15u, 16u, 17u, 22u, 23u, 127u, 128u, 129u, 130u,
                                    255u, 256u, 257u, 299u}) {
        CAPTURE(length);
        if (length > at) REQUIRE(feed(*model, *stayed, std::span(tokens).subspan(at, length - at)));
        at = length;
        auto moved =
            other->import_state(model->export_state(*stayed), std::span(tokens).first(length));
        REQUIRE(moved);
        CHECK((*moved)->computed_tokens() == length);
        CHECK(same_state(*model, *stayed, **moved));
        // go on elsewhere for a while, and compare with going on from the start
        const auto rest = std::span(tokens).subspan(length, std::min(300 - length, 20u));
        REQUIRE(feed(*other, **moved, rest));
        const auto fresh = model->make_sequence();
        REQUIRE(feed(*model, *fresh, std::span(tokens).first(length + rest.size())));
        CHECK(same_state(*model, *fresh, **moved));
        CHECK(continued(*model, *fresh, 3) == continued(*other, **moved, 3));
      }
    }
  }

  TEST_CASE("parts are one block per 128 tokens, a tail, a ring and a state") {
    const auto model = load_mini("mini12");  // ratios 3, 2, 1: 42 or 43 entries, 64, 128 a block
    const auto target = model->make_sequence();
    REQUIRE(feed(*model, *target, random_tokens(4, 260, vocabulary)));
    const auto parts = model->export_state(*target);
    REQUIRE(parts.size() == 5);
    const size_t row = (32 + 4) + (16 + 1);  // packed entry and index key
    CHECK(parts[0].kind == part_kind::block);
    CHECK(parts[0].bytes.size() == (42 + 64 + 128) * row);
    CHECK(parts[1].index == 1);
    CHECK(parts[1].bytes.size() == (43 + 64 + 128) * row);
    CHECK(parts[2].kind == part_kind::block_tail);
    CHECK(parts[2].bytes.size() == (1 + 2 + 4) * row);
    CHECK(parts[3].kind == part_kind::ring);
    CHECK(parts[3].bytes.size() == 12 * (4 + 16 * (64 + 2)));
    CHECK(parts[4].kind == part_kind::state);
    CHECK(parts[4].bytes.size() == 16 + 3 * 8 + 2 * 2 * 64 * sizeof(float));
  }

  TEST_CASE("an import that does not add up is refused") {
    const auto model = load_mini("mini");
    const auto tokens = random_tokens(5, 200, vocabulary);
    const auto target = model->make_sequence();
    REQUIRE(feed(*model, *target, tokens));
    const auto parts = model->export_state(*target);
    const auto refused = [&](const std::vector<state_part>& changed) {
      return !model->import_state(changed, tokens).has_value();
    };
    CHECK_FALSE(refused(parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      CAPTURE(i);
      auto changed = parts;
      changed[i].bytes.pop_back();
      CHECK(refused(changed));
      changed[i].bytes.resize(parts[i].bytes.size() + 4);
      CHECK(refused(changed));
      changed = parts;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(refused(changed));
      changed = parts;
      changed.push_back(parts[i]);
      CHECK(refused(changed));
      changed = parts;
      changed[i].index = 7;
      CHECK(refused(changed));
    }
    // right sizes, wrong tokens: the look-back ids give it away
    auto others = tokens;
    others.back() = (others.back() + 1) % static_cast<int32_t>(vocabulary);
    const auto wrong = model->import_state(parts, others);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == error_code::corrupt);
    CHECK_FALSE(model->import_state(parts, std::span(tokens).first(199)));
    // another numeric level is another layout
    CHECK_FALSE(load_mini("mini", {.level = numeric_level::L0})->import_state(parts, tokens));
  }

  TEST_CASE("random damage to exported bytes never crashes an import") {
    const auto model = load_mini("mini");
    const auto tokens = random_tokens(6, 150, vocabulary);
    const auto target = model->make_sequence();
    REQUIRE(feed(*model, *target, tokens));
    const auto parts = model->export_state(*target);
    test::rng random{7};
    for (int trial = 0; trial < 300; ++trial) {
      auto changed = parts;
      auto& bytes = changed[random.below(static_cast<uint32_t>(changed.size()))].bytes;
      if (random.below(2) == 0) bytes.resize(random.below(static_cast<uint32_t>(bytes.size() + 9)));
      for (int i = 0; i < 3 && !bytes.empty(); ++i)
        bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^=
            static_cast<std::byte>(1 + random.below(255));
      const auto moved = model->import_state(changed, tokens);
      if (moved) feed(*model, **moved, random_tokens(8, 3, vocabulary));  // wrong numbers, no crash
    }
  }

  TEST_CASE("items that cannot be computed fail alone and leave their sequence as it was") {
    const auto model = load_mini("mini", {.context_limit = 40});
    CHECK(model->info().context_limit == 40);
    CHECK(load_mini("mini", {.context_limit = 1u << 30})->info().context_limit == 4096);
    const auto good = model->make_sequence(), full = model->make_sequence();
    const auto fresh = model->make_sequence();
    const auto prompt = random_tokens(9, 39, vocabulary);
    REQUIRE(feed(*model, *full, prompt));
    const std::vector<int32_t> two{1, 2}, outside{3, 160}, negative{-1};
    std::vector<step_item> items{test::sampling(*good, prompt, {}), test::sampling(*full, two, {}),
                                 test::sampling(*fresh, {}, {})};
    model->step(items);
    CHECK_FALSE(items[0].failed);
    CHECK(items[0].sampled == full->last_sampled());
    CHECK(items[1].failed);  // 41 tokens
    CHECK(items[2].failed);  // nothing sampled yet
    CHECK(full->computed_tokens() == 39);
    for (const auto& tokens : {outside, negative}) CHECK_FALSE(feed(*model, *fresh, tokens));
    step_item bad = test::sampling(*fresh, two, {.temperature = -1});
    model->step({&bad, 1});
    CHECK(bad.failed);
    CHECK(fresh->computed_tokens() == 0);
    REQUIRE(feed(*model, *full, {}));  // the 40th
    CHECK_FALSE(feed(*model, *full, {}));
  }

  TEST_CASE("a state that holds NaN fails its item and no other") {
    const auto model = load_mini("mini");
    const auto tokens = random_tokens(11, 20, vocabulary);
    const auto target = model->make_sequence(), other = model->make_sequence();
    REQUIRE(feed(*model, *target, tokens));
    REQUIRE(feed(*model, *other, tokens));
    auto parts = model->export_state(*target);
    const size_t ring = 4 + 16 * (64 + 2);  // first position, then a window of codes and scales
    for (state_part& part : parts)
      if (part.kind == part_kind::ring)
        for (size_t i = 0; i < part.bytes.size(); ++i)
          if (i % ring >= 4) part.bytes[i] = std::byte{0xFF};
    auto broken = model->import_state(parts, tokens);
    REQUIRE(broken);
    const auto few = std::span(tokens).first(5);  // whose windows reach into the ring
    std::vector<step_item> items{test::sampling(**broken, few), test::sampling(*other, few)};
    model->step(items);
    CHECK(items[0].failed);
    CHECK(items[0].sampled == -1);
    CHECK_FALSE(items[1].failed);
  }

  TEST_CASE("what a sequence holds is what the model's facts say") {
    const auto model = load_mini("mini");
    const auto target = model->make_sequence();
    const uint64_t empty = target->state_bytes();
    CHECK(empty <= model->info().state_bytes_fixed);
    REQUIRE(feed(*model, *target, random_tokens(12, 512, vocabulary)));
    CHECK(target->state_bytes() <=
          model->info().state_bytes_fixed + 512 * model->info().state_bytes_per_token);
  }
}
