#include "runtime/model/toy_sequence.hpp"
#include "tests/support/step_items.hpp"
#include "tests/support/swap_loader.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

std::vector<int32_t> random_tokens(test::rng& random, uint32_t count) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(64));
  return tokens;
}

struct toy_cache {
  std::unique_ptr<sequence> behind;  ///< the whole prompt
  test::block_bytes_list blocks;
  std::vector<std::vector<state_part>> rings;  ///< [i]: behind i blocks

  toy_cache(step_model& model, std::span<const int32_t> prompt) : behind(model.make_sequence()) {
    for (uint32_t i = 0; i < prompt.size(); ++i) {
      if (i % toy_block_tokens == 0) rings.push_back(model.export_rings(*behind));
      step_item item = test::sampling(*behind, prompt.subspan(i, 1));
      model.step({&item, 1});
    }
    for (state_part& part :
         model.export_blocks(*behind, 0, static_cast<uint32_t>(prompt.size()) / toy_block_tokens))
      blocks.push_back(std::move(part.bytes));
  }
};

restored_sequence begin(const step_model& model,
                        std::span<const int32_t> prompt,
                        const toy_cache& cache,
                        uint32_t blocks,
                        restore_mode mode) {
  const auto plan = model.plan_restore(static_cast<uint32_t>(prompt.size()), blocks, mode);
  REQUIRE(plan.hit == blocks * toy_block_tokens);
  restore_source source{prompt, plan.hit, mode, {}, {}};
  if (mode == restore_mode::ring) source.rings = cache.rings[blocks];
  auto begun = model.begin_restore(source);
  REQUIRE(begun);
  CHECK(begun->state->computed_tokens() == plan.start);
  return *std::move(begun);
}

step_item rest_of(std::span<const int32_t> prompt, sequence& target) {
  return test::sampling(target, prompt.subspan(target.computed_tokens()));
}

// Twelve tokens behind the prompt, all of which one wrong byte would change.
std::vector<int32_t> continued(step_model& model,
                               std::span<const int32_t> prompt,
                               sequence& target) {
  std::vector<int32_t> out;
  step_item item = rest_of(prompt, target);
  while (out.size() < 12) {
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.push_back(item.sampled);
    item.tokens = {};
  }
  return out;
}

std::vector<int32_t> expected(const toy_options& options, std::vector<int32_t> prefix) {
  std::vector<int32_t> out;
  while (out.size() < 12) {
    out.push_back(toy_next_token(options, prefix));
    prefix.push_back(out.back());
  }
  return out;
}

bool same_parts(std::span<const state_part> a, std::span<const state_part> b) {
  return std::ranges::equal(a, b, [](const state_part& p, const state_part& q) {
    return p.kind == q.kind && p.index == q.index && p.bytes == q.bytes;
  });
}

constexpr restore_mode all_modes[] = {restore_mode::ring, restore_mode::bounded,
                                      restore_mode::exact};

}  // namespace

TEST_SUITE("runtime/model/toy_model") {
  TEST_CASE("a toy restored in any mode follows the oracle and ends in the state of the cold run") {
    const toy_options options;
    const auto model = *make_toy_model(options);
    test::rng random{31};
    for (const uint32_t size : {150u, 300u, 404u, 532u}) {
      const auto prompt = random_tokens(random, size);
      const toy_cache cache(*model, prompt);
      for (const restore_mode mode : all_modes)
        for (uint32_t blocks = 1; blocks * toy_block_tokens + toy_kept_tokens <= size; ++blocks) {
          CAPTURE(size);
          CAPTURE(blocks);
          CAPTURE(static_cast<int>(mode));
          const restored_sequence begun = begin(*model, prompt, cache, blocks, mode);
          test::load_racing(*begun.loading, cache.blocks, random);
          step_item item = rest_of(prompt, *begun.state);
          model->step({&item, 1});
          CHECK_FALSE(item.failed);
          CHECK(same_parts(model->export_state(*begun.state), model->export_state(*cache.behind)));
          const auto again = begin(*model, prompt, cache, blocks, mode);
          test::load_racing(*again.loading, cache.blocks, random);
          CHECK(continued(*model, prompt, *again.state) == expected(options, prompt));
        }
    }
  }

  TEST_CASE("a toy's plan is shaped like that of the real model") {
    const auto model = *make_toy_model({});
    const auto hit = [&](uint32_t prompt, uint32_t blocks, restore_mode mode) {
      return model->plan_restore(prompt, blocks, mode).hit;
    };
    CHECK(hit(0, 4, restore_mode::exact) == 0);
    CHECK(hit(300, 0, restore_mode::exact) == 0);
    CHECK(hit(128, 1, restore_mode::exact) == 0);
    CHECK(hit(129, 1, restore_mode::exact) == 128);
    CHECK(hit(129, 1, restore_mode::ring) == 0);
    CHECK(hit(147, 1, restore_mode::ring) == 0);
    CHECK(hit(148, 1, restore_mode::ring) == 128);
    CHECK(hit(270, 2, restore_mode::ring) == 128);
    CHECK(hit(270, 2, restore_mode::bounded) == 256);
    CHECK(model->plan_restore(300, 2, restore_mode::ring).start == 256);
    CHECK(model->plan_restore(300, 2, restore_mode::bounded).start == 256 - toy_ring_tokens);
    CHECK(model->plan_restore(300, 2, restore_mode::exact).start == 256 - toy_exact_tokens);
  }

  TEST_CASE("a wrong, foreign or misplaced block of a toy is refused, or changes every token") {
    toy_options options;
    const auto strict = *make_toy_model(options);
    options.import = toy_import::absorb;
    const auto absorbing = *make_toy_model(options);
    test::rng random{32};
    const auto prompt = random_tokens(random, 420), other = random_tokens(random, 420);
    const toy_cache cache(*strict, prompt), foreign(*strict, other);
    std::vector<test::block_bytes_list> bad(4, cache.blocks);
    bad[0][random.below(3)][random.below(options.block_bytes)] ^= std::byte{1};
    bad[1][1] = foreign.blocks[1];
    std::swap(bad[2][0], bad[2][2]);
    bad[3][2].assign(options.block_bytes, std::byte{0});
    for (size_t i = 0; i < bad.size(); ++i)
      for (const restore_mode mode : all_modes) {
        CAPTURE(i);
        CAPTURE(static_cast<int>(mode));
        const restored_sequence refused = begin(*strict, prompt, cache, 3, mode);
        test::load_racing(*refused.loading, bad[i], random);
        for (uint32_t round = 0; round < 2; ++round) {
          step_item item = rest_of(prompt, *refused.state);
          strict->step({&item, 1});
          CHECK(item.failed);
          CHECK_FALSE(item.state_missing);  // a bug must not pass for a miss
        }
        const restored_sequence taken = begin(*absorbing, prompt, cache, 3, mode);
        test::load_racing(*taken.loading, bad[i], random);
        CHECK(continued(*absorbing, prompt, *taken.state) != expected(options, prompt));
      }
  }

  TEST_CASE("a toy fed from another place than the plan's leaves the oracle") {
    const toy_options options;
    const auto model = *make_toy_model(options);
    test::rng random{33};
    const auto prompt = random_tokens(random, 300);
    const toy_cache cache(*model, prompt);
    const restored_sequence begun = begin(*model, prompt, cache, 2, restore_mode::exact);
    test::load_racing(*begun.loading, cache.blocks, random);
    step_item item = test::sampling(*begun.state, std::span(prompt).subspan(256));
    model->step({&item, 1});
    CHECK(item.sampled != toy_next_token(options, prompt));
  }

  TEST_CASE("a toy whose blocks are not there says so at once and for good") {
    const auto model = *make_toy_model({});
    test::rng random{34};
    const auto prompt = random_tokens(random, 300);
    const toy_cache cache(*model, prompt);
    for (const uint32_t missing : {0u, 1u}) {
      const restored_sequence begun = begin(*model, prompt, cache, 2, restore_mode::exact);
      test::load_stage(*begun.loading, 1 - missing, cache.blocks, random);
      begun.loading->ready(1 - missing);
      CHECK(model->export_state(*begun.state).empty());
      CHECK(model->export_blocks(*begun.state, 0, 1).empty());
      for (uint32_t round = 0; round < 2; ++round) {
        step_item item = rest_of(prompt, *begun.state);
        model->step({&item, 1});
        CHECK(item.failed);
        CHECK(item.state_missing);
        CHECK(item.sampled == -1);
      }
    }
  }

  TEST_CASE("a toy with patience waits for its blocks") {
    const toy_options options{.swap_wait = std::chrono::seconds(600)};
    const auto model = *make_toy_model(options);
    test::rng random{35};
    const auto prompt = random_tokens(random, 300);
    const toy_cache cache(*model, prompt);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const restored_sequence begun = begin(*model, prompt, cache, 2, restore_mode::exact);
      std::thread loader([&] {
        test::rng order{seed};
        test::load_racing(*begun.loading, cache.blocks, order);
      });
      CHECK(continued(*model, prompt, *begun.state) == expected(options, prompt));
      loader.join();
    }
  }

  TEST_CASE("rings of another prefix or of another number of tokens restore no toy") {
    toy_options options;
    const auto strict = *make_toy_model(options);
    options.import = toy_import::absorb;
    const auto absorbing = *make_toy_model(options);
    test::rng random{36};
    const auto prompt = random_tokens(random, 300), other = random_tokens(random, 300);
    const toy_cache cache(*strict, prompt), foreign(*strict, other);
    const auto begun = [&](const step_model& model, const std::vector<state_part>& rings) {
      return model.begin_restore({prompt, 256, restore_mode::ring, rings, {}});
    };
    CHECK(begun(*strict, cache.rings[2]));
    CHECK(begun(*strict, foreign.rings[2]).error().code == error_code::corrupt);
    CHECK(begun(*strict, cache.rings[1]).error().code == error_code::corrupt);
    CHECK(begun(*strict, {}).error().code == error_code::invalid_argument);
    CHECK_FALSE(strict->begin_restore({prompt, 256, restore_mode::exact, cache.rings[2], {}}));
    CHECK_FALSE(strict->begin_restore({prompt, 250, restore_mode::exact, {}, {}}));
    auto taken = begun(*absorbing, foreign.rings[2]);
    REQUIRE(taken);
    test::load_racing(*taken->loading, cache.blocks, random);
    CHECK(continued(*absorbing, prompt, *taken->state) != expected(options, prompt));
  }

  TEST_CASE("toys with the same prefix have the same blocks, computed, generated or restored") {
    const auto model = *make_toy_model({});
    test::rng random{37};
    const auto prompt = random_tokens(random, 300);
    const toy_cache cache(*model, prompt);
    const auto target = model->make_sequence();
    step_item item = rest_of(std::span(prompt).first(200), *target);
    for (uint32_t i = 200; i < 300; ++i) {
      model->step({&item, 1});
      target->set_last_sampled(prompt[i]);
      item.tokens = {};
    }
    const auto blocks = model->export_blocks(*target, 1, 1);
    REQUIRE(blocks.size() == 1);
    CHECK(blocks[0].index == 1);
    CHECK(blocks[0].bytes == cache.blocks[1]);
    CHECK(blocks[0].bytes.size() == model->block_bytes());
    CHECK(model->export_blocks(*target, 1, 2).empty());
    CHECK(model->export_blocks(*target, 3, 0).empty());
    CHECK(model->export_rings(*target).empty());  // not at a block's end
    const restored_sequence begun = begin(*model, prompt, cache, 2, restore_mode::bounded);
    test::load_racing(*begun.loading, cache.blocks, random);
    step_item rest = rest_of(prompt, *begun.state);
    model->step({&rest, 1});
    CHECK(model->export_blocks(*begun.state, 0, 2).back().bytes == cache.blocks[1]);
  }
}
