#include "kernels/api/number_formats.hpp"
#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::everywhere;
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

std::vector<uint8_t> packed(const op_table& table,
                            stream& queue,
                            const std::vector<float>& in,
                            uint32_t width,
                            row_format format) {
  const auto rows = static_cast<uint32_t>(in.size() / width);
  std::vector<uint8_t> out(rows * packed_row_bytes(format, width), 0x11);
  table.pack_rows(queue, {out.data(), in.data(), rows, width, format});
  return out;
}

std::vector<float> unpacked(const op_table& table,
                            stream& queue,
                            const std::vector<uint8_t>& in,
                            uint32_t width,
                            row_format format) {
  const auto rows = static_cast<uint32_t>(in.size() / packed_row_bytes(format, width));
  auto out = poisoned(size_t{rows} * width);
  table.unpack_rows(queue, {out.data(), in.data(), rows, width, format});
  return out;
}

std::vector<float> quantised(const op_table& table,
                             stream& queue,
                             const std::vector<float>& in,
                             uint32_t width,
                             row_format format) {
  const auto rows = static_cast<uint32_t>(in.size() / width);
  auto apart = poisoned(in.size()), out = in;
  table.fake_quant(queue, {apart.data(), in.data(), rows, width, format});
  table.fake_quant(queue, {out.data(), out.data(), rows, width, format});
  CHECK(test::same_bits(out, apart));
  return out;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("packing gives the reference's bytes, and unpacking what fake_quant gives") {
    test::rng random{31};
    stream queue;
    const op_table reference = test::reference();
    for (const row_format format : formats)
      for (const uint32_t width : {32u, 96u, 512u})
        for (const auto& in : {hard_rows(random, 300 * width), random_floats(random, 9 * width),
                               std::vector<float>(7 * width, -0.0f)}) {
          const auto bytes = everywhere([&](const op_table& table, stream& own) {
            return packed(table, own, in, width, format);
          });
          CHECK(bytes == packed(reference, queue, in, width, format));
          const auto values = everywhere([&](const op_table& table, stream& own) {
            return unpacked(table, own, bytes, width, format);
          });
          CHECK(test::same_bits(values, unpacked(reference, queue, bytes, width, format)));
          const auto fake = everywhere([&](const op_table& table, stream& own) {
            return quantised(table, own, in, width, format);
          });
          CHECK(test::same_bits(fake, values));
          // idempotent, and exact in bf16: storing loses nothing
          const auto again = everywhere([&](const op_table& table, stream& own) {
            return quantised(table, own, fake, width, format);
          });
          size_t changed = 0, inexact = 0;
          for (size_t i = 0; i < again.size(); ++i)
            changed += !subnormal_scale(in, i, format) && again[i] != fake[i];
          for (const float v : fake) inexact += bf16_value(bf16_bits(v)) != v;
          CHECK(changed == 0);
          CHECK(inexact == 0);
        }
  }

  TEST_CASE("every byte of every format unpacks as the reference says, NaN scales included") {
    stream queue;
    const uint32_t width = 512;
    for (const row_format format : formats) {
      std::vector<uint8_t> bytes(256 * packed_row_bytes(format, width));
      const size_t row = bytes.size() / 256, values = row - width / group_width(format);
      for (size_t r = 0; r < 256; ++r)
        for (size_t i = 0; i < row; ++i)
          bytes[r * row + i] = static_cast<uint8_t>(i < values ? i : r);
      const auto want = unpacked(test::reference(), queue, bytes, width, format);
      const auto got = everywhere([&](const op_table& table, stream& own) {
        auto out = unpacked(table, own, bytes, width, format);
        for (float& v : out)
          if (std::isnan(v)) v = NAN;  // whose sign and payload nobody promises
        return out;
      });
      size_t differing = 0;
      for (size_t i = 0; i < want.size(); ++i)
        differing += got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]));
      CHECK(differing == 0);
    }
  }

  TEST_CASE("rows kept as computed are copied") {
    test::rng random{33};
    const auto in = random_floats(random, 5 * 37);
    everywhere([&](const op_table& table, stream& own) {
      const auto bytes = packed(table, own, in, 37, row_format::f32);
      CHECK(unpacked(table, own, bytes, 37, row_format::f32) == in);
      return bytes;
    });
  }

  TEST_CASE("known answers: ties go to even and a scale that rounds down clamps") {
    const auto quantise = [](std::vector<float> row, row_format format) {
      const auto values = row.size();
      row.resize(32, 0.0f);
      auto out = everywhere([&](const op_table& table, stream& own) {
        return quantised(table, own, row, 32, format);
      });
      out.resize(values);
      return out;
    };
    CHECK(quantise({0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, 6, -2.5f, -0.25f},
                   row_format::fp4_32) == std::vector<float>{0, 1, 1, 2, 2, 4, 4, 6, -2, 0});
    // 6.3 / 6 = 1.05 rounds to 1: 6.3 is cut to 6
    CHECK(quantise({0, 0, 6.3f}, row_format::fp4_16)[2] == 6);
    // 17 and 19 between the steps 16, 18, 20 of E4M3 at scale 1 (amax 448)
    CHECK(quantise({448, 17, 19, 0x1p-10f, 3 * 0x1p-10f}, row_format::fp8_32) ==
          std::vector<float>{448, 16, 20, 0, 0x1p-8f});
  }

  TEST_CASE("a value that is no number survives the quantiser as one") {
    for (const row_format format : formats) {
      std::vector<float> row(32, 1.0f);
      row[5] = NAN;
      row[6] = std::numeric_limits<float>::infinity();
      const auto out = everywhere([&](const op_table& table, stream& own) {
        return quantised(table, own, row, 32, format);
      });
      CHECK(std::isnan(out[5]));
      CHECK(std::isinf(out[6]));
      // packed, its whole group becomes none; no other does
      for (const float broken : {float{NAN}, -std::numeric_limits<float>::infinity()}) {
        std::vector<float> rows(64, 1.0f);
        rows[37] = broken;
        const auto bytes = everywhere([&](const op_table& table, stream& own) {
          return packed(table, own, rows, 32, format);
        });
        stream queue;
        const auto back = unpacked(test::reference(), queue, bytes, 32, format);
        const size_t group = group_width(format);
        for (size_t i = 0; i < back.size(); ++i)
          CHECK(std::isnan(back[i]) == (i / group == 37 / group));
      }
    }
  }
}
