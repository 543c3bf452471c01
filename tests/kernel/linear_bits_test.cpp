#include "kernels/api/number_formats.hpp"
#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::everywhere;
using test::poisoned;
using test::random_floats;
using test::same_bits;

namespace {

constexpr weight_format formats[] = {weight_format::f32, weight_format::bf16, weight_format::fp8,
                                     weight_format::fp4};

/// A weight in bytes of its own, at an address that is a multiple of nothing.
struct stored_weight {
  std::vector<uint8_t> values, scales;
  weight_matrix view;

  stored_weight(test::rng& random, weight_format format, uint32_t rows, uint32_t width) {
    view = {nullptr, nullptr, rows, width, format};
    values.resize(rows * row_bytes(view) + 3);
    scales.resize(scale_offset(view, rows + 31) + 3);
    for (uint8_t& b : values) b = static_cast<uint8_t>(random.below(256));
    for (uint8_t& b : scales) b = static_cast<uint8_t>(117 + random.below(12));
    const auto put = [&](size_t i, const void* from, size_t bytes) {
      std::memcpy(values.data() + 3 + i * bytes, from, bytes);
    };
    for (size_t i = 0; i < size_t{rows} * width; ++i) {
      const auto value = static_cast<float>(random.real() * 2 - 1);
      const uint16_t half = bf16_bits(value);
      if (format == weight_format::f32) put(i, &value, sizeof value);
      if (format == weight_format::bf16) put(i, &half, sizeof half);
      if (format == weight_format::fp8 && (values[3 + i] & 127) == 127) values[3 + i] = 0x40;
    }
    view.values = values.data() + 3;
    view.scales = scales.data() + 3;
  }
  stored_weight(const stored_weight&) = delete;
};

std::vector<float> product(const op_table& table,
                           stream& queue,
                           const weight_matrix& weight,
                           const std::vector<float>& in,
                           uint32_t rows) {
  auto out = poisoned(size_t{rows} * weight.rows);
  const linear_args args{out.data(), in.data(),    weight,      nullptr,
                         rows,       weight.width, weight.rows, rounding::none};
  table.linear(queue, {&args, 1});
  return out;
}

std::vector<float> decoded(const op_table& table, stream& queue, const weight_matrix& weight) {
  auto out = poisoned(size_t{weight.rows} * weight.width);
  table.dequant(queue, {out.data(), weight});
  return out;
}

/// Which NaN comes out is not promised.
void unify_nan(std::vector<float>& values) {
  for (float& v : values)
    if (std::isnan(v)) v = NAN;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("a row of linear has the same bits alone and among up to 40") {
    test::rng random{41};
    for (const weight_format format : formats)
      // 1312 columns are more than two of the blocks in which many rows are multiplied.
      for (const uint32_t width : {33u, 96u, 588u, 1312u}) {
        if (format == weight_format::fp4 && width % 32 != 0) continue;
        const uint32_t outputs = width == 1312 ? 37 : 70, most = 40;
        const stored_weight weight(random, format, outputs, width);
        const auto in = random_floats(random, most * width);
        CAPTURE(width);
        everywhere([&](const op_table& table, stream& queue) {
          const auto whole = product(table, queue, weight.view, in, most);
          for (uint32_t rows = 1; rows < most; rows += rows < 8 ? 1 : 5) {
            // the last `rows` of them, so that a row's place changes as well
            const std::vector<float> some(in.end() - static_cast<ptrdiff_t>(rows * width),
                                          in.end());
            const std::vector<float> want(whole.end() - static_cast<ptrdiff_t>(rows * outputs),
                                          whole.end());
            CAPTURE(rows);
            CHECK(same_bits(product(table, queue, weight.view, some, rows), want));
          }
          return whole;
        });
      }
  }

  TEST_CASE("linear over stored weights gives the bits of linear over what they decode to") {
    test::rng random{42};
    for (const weight_format format : formats)
      for (const uint32_t width : {32u, 224u, 736u}) {
        const stored_weight weight(random, format, 45, width);
        const auto in = random_floats(random, 20 * width);
        everywhere([&](const op_table& table, stream& queue) {
          const auto plain = decoded(table, queue, weight.view);
          const weight_matrix f32{reinterpret_cast<const uint8_t*>(plain.data()), nullptr, 45,
                                  width, weight_format::f32};
          std::vector<float> all;
          for (const uint32_t rows : {1u, 2u, 3u, 4u, 5u, 20u}) {
            const auto got = product(table, queue, weight.view, in, rows);
            CHECK(same_bits(got, product(table, queue, f32, in, rows)));
            all.insert(all.end(), got.begin(), got.end());
          }
          return all;
        });
      }
  }

  TEST_CASE("no scale, code or input makes one path differ from another") {
    test::rng random{43};
    for (const weight_format format : {weight_format::fp8, weight_format::fp4})
      for (uint32_t base = 0; base < 256; base += 15) {
        const uint32_t width = 192, outputs = 36;
        stored_weight weight(random, format, outputs, width);
        // some scales near `base`: the ends of what the special decoders take lie among them
        for (uint8_t& s : weight.scales)
          if (random.below(3) == 0)
            s = static_cast<uint8_t>(std::min<uint64_t>(base + random.below(15), 255));
        if (format == weight_format::fp8 && base % 30 == 0)
          weight.values[3 + random.below(outputs * width)] = random.below(2) == 0 ? 0x7F : 0xFF;
        auto in = random_floats(random, 9 * width);
        for (float& v : in)
          if (random.below(40) == 0) v = std::ldexp(v, static_cast<int>(random.below(260)) - 150);
        CAPTURE(base);
        everywhere([&](const op_table& table, stream& queue) {
          auto plain = decoded(table, queue, weight.view);
          const weight_matrix f32{reinterpret_cast<const uint8_t*>(plain.data()), nullptr, outputs,
                                  width, weight_format::f32};
          auto want = product(table, queue, f32, in, 9);
          unify_nan(want);
          for (const uint32_t rows : {1u, 2u, 3u, 9u}) {
            auto got = product(table, queue, weight.view, in, rows);
            unify_nan(got);
            CHECK(same_bits(got, {want.begin(), want.begin() + rows * outputs}));
          }
          return want;
        });
      }
  }

  TEST_CASE("a code that means NaN reaches its output and no other") {
    test::rng random{44};
    for (const uint8_t code : {uint8_t{0x7F}, uint8_t{0xFF}})
      for (const uint32_t rows : {1u, 3u, 30u}) {
        stored_weight weight(random, weight_format::fp8, 40, 100);
        weight.values[3 + 17 * 100 + 99] = code;
        const auto in = random_floats(random, rows * 100);
        for (const op_table& table : test::backends()) {
          stream queue;
          const auto out = product(table, queue, weight.view, in, rows);
          for (size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i % 40 == 17));
        }
      }
  }

  TEST_CASE("a batch of hundreds gives each product what it gets alone") {
    test::rng random{45};
    const uint32_t width = 96, outputs = 33, count = 300;  // more than one plan holds
    std::vector<std::unique_ptr<stored_weight>> weights;
    for (const weight_format format : formats)
      weights.push_back(std::make_unique<stored_weight>(random, format, outputs, width));
    const auto in = random_floats(random, 24 * width);
    everywhere([&](const op_table& table, stream& queue) {
      std::vector<std::vector<float>> out(count);
      std::vector<linear_args> items;
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t rows = i * 7 % 25;  // none, few and many
        out[i] = poisoned(rows * outputs);
        items.push_back({out[i].data(), in.data(), weights[i % 4]->view, nullptr, rows, width,
                         outputs, rounding::none});
      }
      table.linear(queue, {items.data(), count});
      std::vector<float> all;
      for (uint32_t i = 0; i < count; ++i) {
        stream alone;
        CHECK(same_bits(out[i], product(table, alone, weights[i % 4]->view, in, items[i].rows)));
        all.insert(all.end(), out[i].begin(), out[i].end());
      }
      return all;
    });
  }

  TEST_CASE("wide weights of few rows, which fit no scratch memory, agree with the reference") {
    test::rng random{46};
    const uint32_t width = 140'000, outputs = 2;
    const stored_weight weight(random, weight_format::bf16, outputs, width);
    const auto in = random_floats(random, 2 * width);
    stream queue;
    const auto want = product(test::reference(), queue, weight.view, in, 2);
    const auto got = everywhere([&](const op_table& table, stream& own) {
      return product(table, own, weight.view, in, 2);
    });
    CHECK(test::distance(got, want) <= 1e-5);
  }
}
