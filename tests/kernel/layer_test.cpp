#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
using test::poisoned;
using test::random_floats;

TEST_SUITE("kernels") {
  TEST_CASE("hc_mix agrees with the reference for every number of streams") {
    test::rng random{11};
    stream queue;
    for (const uint32_t streams : {1u, 2u, 4u, 8u})
      for (const uint32_t width : {5u, 64u}) {
        const uint32_t rows = 6, mixes = (2 + streams) * streams;
        const auto x = random_floats(random, rows * streams * width, 3);
        const auto fn = random_floats(random, mixes * streams * width, 0.3f);
        const auto base = random_floats(random, mixes);
        const std::vector<float> scale{1.1f, 0.7f, 2.0f};
        auto pre = poisoned(rows * streams), post = pre, comb = poisoned(rows * streams * streams);
        auto want_pre = pre, want_post = post, want_comb = comb;
        hc_mix_args args{want_pre.data(),
                         want_post.data(),
                         want_comb.data(),
                         x.data(),
                         fn.data(),
                         base.data(),
                         scale.data(),
                         rows,
                         streams,
                         width,
                         20,
                         1e-20f,
                         1e-6f};
        test::reference().hc_mix(queue, args);
        for (const op_table& table : test::backends()) {
          args.pre = pre.data();
          args.post = post.data();
          args.comb = comb.data();
          table.hc_mix(queue, args);
          CHECK(distance(pre, want_pre) <= 1e-6);
          CHECK(distance(post, want_post) <= 1e-6);
          CHECK(distance(comb, want_comb) <= 2e-6);
        }
        // it ends on columns: each sums to 1 (up to the epsilons)
        for (uint32_t k = 0; k < streams; ++k) {
          double sum = 0;
          for (uint32_t j = 0; j < streams; ++j) sum += want_comb[j * streams + k];
          CHECK(sum == doctest::Approx(1).epsilon(1e-5));
        }
      }
  }

  TEST_CASE("hc_collapse and hc_expand agree with the reference") {
    test::rng random{12};
    stream queue;
    for (const uint32_t streams : {1u, 2u, 4u, 8u}) {
      const uint32_t rows = 4, width = 13;
      const auto x = random_floats(random, rows * streams * width);
      const auto y = random_floats(random, rows * width);
      const auto weights = random_floats(random, rows * streams);
      const auto comb = random_floats(random, rows * streams * streams);
      auto want_out = poisoned(rows * width);
      auto want_x = x;
      test::reference().hc_collapse(
          queue, {want_out.data(), x.data(), weights.data(), rows, streams, width});
      test::reference().hc_expand(
          queue, {want_x.data(), y.data(), weights.data(), comb.data(), rows, streams, width});
      for (const op_table& table : test::backends()) {
        auto out = poisoned(rows * width);
        auto got_x = x;
        table.hc_collapse(queue, {out.data(), x.data(), weights.data(), rows, streams, width});
        table.hc_expand(
            queue, {got_x.data(), y.data(), weights.data(), comb.data(), rows, streams, width});
        CHECK(distance(out, want_out) <= 1e-6);
        CHECK(distance(got_x, want_x) <= 1e-6);
      }
    }
  }

  TEST_CASE("route agrees with the reference for every score, saturated logits included") {
    test::rng random{13};
    stream queue;
    for (const auto score : {gate_score::sqrt_softplus, gate_score::sigmoid, gate_score::softmax})
      for (const uint32_t chosen : {1u, 2u, 6u, 16u}) {
        const uint32_t rows = 20, experts = 16;
        auto logits = random_floats(random, rows * experts, 4);
        logits[3] = 200;  // softplus would overflow
        logits[40] = -200;
        const auto bias = random_floats(random, experts, 0.3f);
        std::vector<int32_t> expert(rows * chosen, -1), want_expert = expert;
        auto weight = poisoned(rows * chosen), want_weight = weight;
        route_args args{want_expert.data(),
                        want_weight.data(),
                        logits.data(),
                        bias.data(),
                        rows,
                        experts,
                        chosen,
                        score,
                        true,
                        0.9f,
                        1.5f};
        test::reference().route(queue, args);
        for (const op_table& table : test::backends()) {
          args.expert = expert.data();
          args.weight = weight.data();
          table.route(queue, args);
          CHECK(expert == want_expert);
          CHECK(distance(weight, want_weight) <= 1e-6);
        }
      }
  }

  TEST_CASE("equal scores go to the lower expert, the bias never enters a weight, NaN comes last") {
    stream queue;
    const std::vector<float> logits{1, 2, 2, NAN, 1, 2};
    const std::vector<float> bias{0, 0, 0, 9, 5, 0};
    for (const op_table& table : test::backends()) {
      std::vector<int32_t> expert(5);
      std::vector<float> weight(5);
      table.route(queue, {expert.data(), weight.data(), logits.data(), bias.data(), 1, 6, 5,
                          gate_score::sigmoid, false, 1, 1});
      CHECK(expert == std::vector<int32_t>{4, 1, 2, 5, 0});
      CHECK(weight[0] == weight[4]);  // expert 4 won by its bias alone
    }
  }

  TEST_CASE("swiglu clamps, scales by the row weight and agrees with the reference") {
    test::rng random{14};
    stream queue;
    const uint32_t rows = 5, width = 21;
    auto gate = random_floats(random, rows * width, 30);
    gate[0] = -200;
    const auto up = random_floats(random, rows * width, 30);
    const auto row_weight = random_floats(random, rows);
    for (const float limit : {0.0f, 10.0f})
      for (const float* weight : {row_weight.data(), static_cast<const float*>(nullptr)}) {
        auto want = poisoned(rows * width);
        test::reference().swiglu(queue,
                                 {want.data(), gate.data(), up.data(), weight, rows, width, limit});
        for (const op_table& table : test::backends()) {
          auto got = gate;
          table.swiglu(queue, {got.data(), got.data(), up.data(), weight, rows, width, limit});
          CHECK(distance(got, want) <= 1e-6);
        }
      }
  }

  TEST_CASE("gather then combine puts every expert's row back, in slot order") {
    test::rng random{15};
    stream queue;
    const uint32_t rows = 7, slots = 3, width = 9;
    const auto parts = random_floats(random, rows * slots * width);
    const auto shared = random_floats(random, rows * width);
    std::vector<uint32_t> place(rows * slots);
    for (uint32_t i = 0; i < place.size(); ++i) place[i] = (i * 5) % (rows * slots);
    for (const op_table& table : test::backends()) {
      auto want = poisoned(rows * width), got = want;
      test::reference().combine(
          queue, {want.data(), parts.data(), place.data(), shared.data(), rows, slots, width});
      table.combine(queue,
                    {got.data(), parts.data(), place.data(), shared.data(), rows, slots, width});
      CHECK(distance(got, want) <= 1e-6);
      auto moved = poisoned(place.size() * width);
      table.gather_rows(queue, {moved.data(), parts.data(), place.data(), rows * slots, width});
      for (size_t i = 0; i < place.size(); ++i)
        CHECK(moved[i * width + 4] == parts[place[i] * width + 4]);
    }
  }

  TEST_CASE("engram rows and gate agree with the reference") {
    test::rng random{16};
    stream queue;
    const uint32_t table_rows = 40, row_width = 64;
    std::vector<uint8_t> codes(table_rows * row_width), scales(table_rows * row_width / 32);
    for (uint8_t& c : codes) c = static_cast<uint8_t>(random.below(127) | (random.below(2) << 7));
    for (uint8_t& s : scales) s = static_cast<uint8_t>(110 + random.below(20));
    const std::vector<int64_t> id{0, 39, 7, 7};
    const uint32_t rows = 3, streams = 4, width = 21;
    const auto x = random_floats(random, rows * streams * width);
    auto kv = random_floats(random, rows * (streams + 1) * width);
    for (uint32_t c = 0; c < width; ++c) kv[c] = 0;  // a dead key: gate of a zero
    const auto gain = random_floats(random, streams * width);
    auto want_rows = poisoned(id.size() * row_width);
    auto want_x = x;
    test::reference().engram_rows(
        queue, {want_rows.data(), codes.data(), scales.data(), id.data(), 4, row_width});
    test::reference().engram_gate(
        queue, {want_x.data(), kv.data(), gain.data(), rows, streams, width, 1e-20f});
    for (const op_table& table : test::backends()) {
      auto got_rows = poisoned(want_rows.size());
      auto got_x = x;
      table.engram_rows(queue,
                        {got_rows.data(), codes.data(), scales.data(), id.data(), 4, row_width});
      table.engram_gate(queue,
                        {got_x.data(), kv.data(), gain.data(), rows, streams, width, 1e-20f});
      CHECK(got_rows == want_rows);
      CHECK(distance(got_x, want_x) <= 2e-6);
    }
  }
}
