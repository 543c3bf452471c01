#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
using test::everywhere;
using test::poisoned;
using test::random_floats;

namespace {

// Experts and weights as one list of numbers.
std::vector<float> chosen_by(const op_table& table, stream& queue, route_args args) {
  std::vector<int32_t> expert(size_t{args.rows} * args.chosen, -1);
  auto weight = poisoned(expert.size());
  args.expert = expert.data();
  args.weight = weight.data();
  table.route(queue, args);
  weight.insert(weight.end(), expert.begin(), expert.end());
  return weight;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("route agrees with the reference for every score, saturated logits included") {
    test::rng random{13};
    stream queue;
    for (const auto score : {gate_score::sqrt_softplus, gate_score::sigmoid, gate_score::softmax})
      for (const uint32_t experts : {16u, 21u, 384u})
        for (const uint32_t chosen : {1u, 2u, 6u, 16u}) {
          const uint32_t rows = 20;
          auto logits = random_floats(random, size_t{rows} * experts, 4);
          logits[3] = 200;  // softplus would overflow
          logits[40] = -200;
          const auto bias = random_floats(random, experts, 0.3f);
          const auto image_bias = random_floats(random, experts, 0.3f);
          std::vector<uint8_t> is_image(rows);
          for (uint8_t& i : is_image) i = static_cast<uint8_t>(random.below(2));
          route_args args{nullptr, nullptr, logits.data(), bias.data(), nullptr, nullptr, rows,
                          experts, chosen,  score,         true,        0.9f,    1.5f};
          for (const bool images : {false, true}) {
            args.image_bias = images ? image_bias.data() : nullptr;
            args.is_image = images ? is_image.data() : nullptr;
            const auto run = [&](const op_table& table, stream& own) {
              return chosen_by(table, own, args);
            };
            auto got = everywhere(run), want = run(test::reference(), queue);
            for (size_t i = size_t{rows} * chosen; i < got.size(); ++i) CHECK(got[i] == want[i]);
            got.resize(size_t{rows} * chosen);
            want.resize(got.size());
            CHECK(distance(got, want) <= 1e-6);
          }
        }
  }

  TEST_CASE("a row's experts do not depend on the rows beside it") {
    test::rng random{17};
    const uint32_t rows = 70, experts = 384, chosen = 6;
    const auto logits = random_floats(random, size_t{rows} * experts, 4);
    const auto bias = random_floats(random, experts, 0.3f);
    const route_args args{nullptr, nullptr, logits.data(), bias.data(), nullptr,
                          nullptr, rows,    experts,       chosen,      gate_score::sqrt_softplus,
                          true,    1.0f,    1.5f};
    everywhere([&](const op_table& table, stream& own) {
      const auto whole = chosen_by(table, own, args);
      for (const uint32_t r : {0u, 33u, 69u}) {
        auto one = args;
        one.logits += size_t{r} * experts;
        one.rows = 1;
        const auto alone = chosen_by(table, own, one);
        for (uint32_t k = 0; k < chosen; ++k) {
          CHECK(alone[k] == whole[r * chosen + k]);
          CHECK(alone[chosen + k] == whole[(rows + r) * chosen + k]);
        }
      }
      return whole;
    });
  }

  TEST_CASE("equal scores go to the lower expert, the bias never enters a weight, NaN comes last") {
    const std::vector<float> logits{1, 2, 2, NAN, 1, 2};
    const std::vector<float> bias{0, 0, 0, 9, 5, 0};
    const auto got = everywhere([&](const op_table& table, stream& own) {
      return chosen_by(table, own,
                       {nullptr, nullptr, logits.data(), bias.data(), nullptr, nullptr, 1, 6, 5,
                        gate_score::sigmoid, false, 1, 1});
    });
    CHECK(std::vector<float>(got.begin() + 5, got.end()) == std::vector<float>{4, 1, 2, 5, 0});
    CHECK(got[0] == got[4]);  // expert 4 won by its bias alone
  }

  TEST_CASE("infinite logits choose experts, too: the lower of equal ones") {
    const std::vector<float> logits(21, INFINITY), bias(21, 0.0f);
    everywhere([&](const op_table& table, stream& own) {
      const auto got = chosen_by(table, own,
                                 {nullptr, nullptr, logits.data(), bias.data(), nullptr, nullptr, 1,
                                  21, 3, gate_score::sqrt_softplus, false, 1, 1});
      CHECK(std::vector<float>(got.begin() + 3, got.end()) == std::vector<float>{0, 1, 2});
      return std::vector<float>(got.begin() + 3, got.end());
    });
  }
}
