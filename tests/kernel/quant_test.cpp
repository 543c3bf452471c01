#include "kernels/api/number_formats.hpp"
#include "tests/kernel/backend.hpp"
#include "tests/kernel/random_weight.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::everywhere;
using test::poisoned;

namespace {

std::vector<float> decoded(const op_table& table, stream& queue, const weight_matrix& weight) {
  auto out = poisoned(size_t{weight.rows} * weight.width);
  table.dequant(queue, {out.data(), weight});
  return out;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("bytes sampled from the released checkpoint decode to the published numbers") {
    stream queue;
    const std::vector<uint8_t> fp8{0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5}, scale8{0x73};
    const std::vector<float> want8{-0.00390625f, 0.03515625f,  -0.0390625f, 0.0703125f,
                                   0.03125f,     0.017578125f, -0.03125f,   -0.0126953125f};
    const std::vector<uint8_t> fp4{0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa,
                                   0,    0,    0,    0,    0,    0,    0,    0};
    const std::vector<uint8_t> scale4{0x78};
    const std::vector<float> want4{0,           -0.0078125f, 0,           -0.0078125f,
                                   -0.015625f,  -0.03125f,   -0.0078125f, 0.015625f,
                                   -0.0234375f, -0.0078125f, -0.046875f,  -0.0078125f,
                                   0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
    const weight_matrix eight{fp8.data(), scale8.data(), 1, 8, weight_format::fp8};
    const weight_matrix four{fp4.data(), scale4.data(), 1, 32, weight_format::fp4};
    const auto run = [&](const op_table& table, stream& own) {
      auto both = decoded(table, own, eight);
      const auto second = decoded(table, own, four);
      both.insert(both.end(), second.begin(), second.begin() + 16);
      return both;
    };
    auto want = want8;
    want.insert(want.end(), want4.begin(), want4.end());
    CHECK(everywhere(run) == want);
    CHECK(run(test::reference(), queue) == want);
  }

  TEST_CASE("E4M3, UE8M0, E2M1 and bf16 mean what their definitions say") {
    for (int c = 0; c < 256; ++c) {
      const int exponent = (c >> 3) & 15, mantissa = c & 7;
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      const float value = e4m3_value(static_cast<uint8_t>(c));
      if ((c & 127) == 127)
        CHECK(std::isnan(value));
      else
        CHECK(value == (c < 128 ? magnitude : -magnitude));
      const float power = ue8m0_value(static_cast<uint8_t>(c));
      if (c == 255)
        CHECK(std::isnan(power));
      else
        CHECK(power == std::ldexp(1.0, c - 127));
    }
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float value = bf16_value(static_cast<uint16_t>(bits));
      if (!std::isnan(value)) CHECK(bf16_bits(value) == bits);
    }
    CHECK(bf16_bits(1.00390625f) == 0x3F80);  // half a step above 1: to even
    CHECK(bf16_bits(1.01171875f) == 0x3F82);
  }

  TEST_CASE("weights of odd size use the right scale in every format") {
    test::rng random{32};
    stream queue;
    for (const weight_format format :
         {weight_format::f32, weight_format::bf16, weight_format::fp8, weight_format::fp4})
      for (const uint32_t rows : {1u, 70u})
        for (const uint32_t width : {1u, 45u, 64u, 160u}) {
          if (format == weight_format::fp4 && width % 32 != 0) continue;
          const test::random_weight weight(random, format, rows, width);
          CHECK(everywhere([&](const op_table& table, stream& own) {
                  return decoded(table, own, weight.view);
                }) == decoded(test::reference(), queue, weight.view));
        }
    const test::random_weight tiles(random, weight_format::fp8, 70, 45);
    const auto values = decoded(test::reference(), queue, tiles.view);
    CHECK(values[69 * 45 + 44] ==
          e4m3_value(tiles.values[69 * 45 + 44]) * ue8m0_value(tiles.scales[5]));
  }
}
