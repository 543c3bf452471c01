#include "kernels/api/number_formats.hpp"
#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::poisoned;
using test::random_floats;

namespace {

constexpr row_format formats[] = {row_format::fp8_32, row_format::fp4_32, row_format::fp4_16};

// Rows whose groups span many binades, with values on and beside rounding borders.
std::vector<float> hard_rows(test::rng& random, size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    const int binade = static_cast<int>((i / 32 * 7) % 40) - 30;
    const float step = 0.25f * static_cast<float>(random.below(49)) - 6;  // grid and midpoints
    const float value = random.below(2) == 0 ? step : static_cast<float>(random.real() * 12 - 6);
    out[i] = std::ldexp(value, binade);
  }
  return out;
}

// Where fp4_16 is not idempotent, by its definition: below 2^-6 the steps of the E4M3 scale are so
// coarse that amax = 4 s may come out, which a second pass gives a smaller scale and clamps.
bool subnormal_scale(const std::vector<float>& in, size_t i, row_format format) {
  if (format != row_format::fp4_16) return false;
  float amax = 0;
  for (size_t k = i / 16 * 16; k < i / 16 * 16 + 16; ++k) amax = std::fmax(amax, std::fabs(in[k]));
  return amax < 6 * 0x1p-6f;
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
    auto tables = test::backends();
    tables.push_back(test::reference());
    for (const op_table& table : tables) {
      CAPTURE(table.name);
      auto got8 = poisoned(8), got4 = poisoned(32);
      table.dequant_fp8(queue, {got8.data(), fp8.data(), scale8.data(), 1, 8});
      CHECK(got8 == want8);
      table.dequant_fp4(queue, {got4.data(), fp4.data(), scale4.data(), 1, 32});
      got4.resize(16);
      CHECK(got4 == want4);
    }
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

  TEST_CASE("packing gives the reference's bytes, and unpacking what fake_quant gives") {
    test::rng random{31};
    stream queue;
    const uint32_t rows = 300, width = 96;
    for (const row_format format : formats)
      for (const auto& in : {hard_rows(random, rows * width), random_floats(random, rows * width),
                             std::vector<float>(rows * width, 0.0f)}) {
        const size_t bytes = rows * packed_row_bytes(format, width);
        std::vector<uint8_t> want(bytes, 0xEE);
        test::reference().pack_rows(queue, {want.data(), in.data(), rows, width, format});
        for (const op_table& table : test::backends()) {
          std::vector<uint8_t> got(bytes, 0x11);
          table.pack_rows(queue, {got.data(), in.data(), rows, width, format});
          CHECK(got == want);
          auto unpacked = poisoned(in.size()), want_unpacked = unpacked;
          table.unpack_rows(queue, {unpacked.data(), got.data(), rows, width, format});
          test::reference().unpack_rows(queue,
                                        {want_unpacked.data(), got.data(), rows, width, format});
          CHECK(unpacked == want_unpacked);
          auto quantised = in;
          table.fake_quant(queue, {quantised.data(), rows, width, format});
          CHECK(quantised == unpacked);
          // idempotent, and exact in bf16: storing loses nothing
          auto again = quantised;
          table.fake_quant(queue, {again.data(), rows, width, format});
          for (size_t i = 0; i < again.size(); ++i)
            if (!subnormal_scale(in, i, format)) CHECK(again[i] == quantised[i]);
          for (const float v : quantised) CHECK(bf16_value(bf16_bits(v)) == v);
        }
      }
  }

  TEST_CASE("known answers: ties go to even and a scale that rounds down clamps") {
    stream queue;
    for (const op_table& table : test::backends()) {
      std::vector<float> row(32, 0.0f);
      const std::vector<float> ties{0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, 6, -2.5f, -0.25f};
      std::copy(ties.begin(), ties.end(), row.begin());
      table.fake_quant(queue, {row.data(), 1, 32, row_format::fp4_32});
      row.resize(ties.size());
      CHECK(row == std::vector<float>{0, 1, 1, 2, 2, 4, 4, 6, -2, 0});
      // 6.3 / 6 = 1.05 rounds to 1: 6.3 is cut to 6
      std::vector<float> clamped(16, 0.0f);
      clamped[3] = 6.3f;
      table.fake_quant(queue, {clamped.data(), 1, 16, row_format::fp4_16});
      CHECK(clamped[3] == 6);
      // 17 and 19 between the steps 16, 18, 20 of E4M3 at scale 1 (amax 448)
      std::vector<float> fp8(32, 0.0f);
      fp8[0] = 448, fp8[1] = 17, fp8[2] = 19, fp8[3] = 0x1p-10f, fp8[4] = 3 * 0x1p-10f;
      table.fake_quant(queue, {fp8.data(), 1, 32, row_format::fp8_32});
      fp8.resize(5);
      CHECK(fp8 == std::vector<float>{448, 16, 20, 0, 0x1p-8f});
    }
  }

  TEST_CASE("a value that is no number survives the quantiser as one") {
    stream queue;
    for (const op_table& table : test::backends())
      for (const row_format format : formats) {
        std::vector<float> row(32, 1.0f);
        row[5] = NAN;
        row[6] = std::numeric_limits<float>::infinity();
        table.fake_quant(queue, {row.data(), 1, 32, format});
        CHECK(std::isnan(row[5]));
        CHECK(std::isinf(row[6]));
      }
  }

  TEST_CASE("weight tiles of odd size use the right scale") {
    test::rng random{32};
    stream queue;
    const uint32_t rows = 70, width = 45;
    std::vector<uint8_t> codes(rows * width), scales(3 * 2);
    for (uint8_t& c : codes) c = static_cast<uint8_t>(random.below(127));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(120 + i);
    auto want = poisoned(rows * width);
    test::reference().dequant_fp8(queue, {want.data(), codes.data(), scales.data(), rows, width});
    CHECK(want[69 * 45 + 44] == e4m3_value(codes[69 * 45 + 44]) * ue8m0_value(scales[5]));
    std::vector<uint8_t> fp4(4 * 64 / 2), fp4_scales(4 * 2, 126);
    for (uint8_t& c : fp4) c = static_cast<uint8_t>(random.below(256));
    fp4_scales[3] = 130;
    auto want4 = poisoned(4 * 64);
    test::reference().dequant_fp4(queue, {want4.data(), fp4.data(), fp4_scales.data(), 4, 64});
    for (const op_table& table : test::backends()) {
      auto got = poisoned(want.size()), got4 = poisoned(want4.size());
      table.dequant_fp8(queue, {got.data(), codes.data(), scales.data(), rows, width});
      CHECK(got == want);
      table.dequant_fp4(queue, {got4.data(), fp4.data(), fp4_scales.data(), 4, 64});
      CHECK(got4 == want4);
    }
  }
}
