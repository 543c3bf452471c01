#include "runtime/image/resample.hpp"

#include "runtime/image/patches.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/image/golden_images.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

rgb_image noise(uint64_t seed, image_size size) {
  test::rng random{seed};
  rgb_image made{size, std::vector<uint8_t>(size_t{size.width} * size.height * 3)};
  for (uint8_t& v : made.pixels) v = static_cast<uint8_t>(random.next() % 256);
  return made;
}

uint64_t digest(const void* data, size_t count) {
  uint64_t value = 0xCBF29CE484222325u;
  for (size_t i = 0; i < count; ++i)
    value = (value ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3u;
  return value;
}

// One case of the golden file: 0 resize, 1 pad, 2 patches.
uint64_t digest_of(const rgb_image& picture, image_size size, int mode) {
  if (mode == 2) {
    const image_patches patches = cut_patches(pad_to(picture, size), 4);
    return digest(patches.values.data(), patches.values.size() * sizeof(uint16_t));
  }
  const rgb_image made = mode == 0 ? resize_bicubic(picture, size) : pad_to(picture, size);
  CHECK(made.size == size);
  return digest(made.pixels.data(), made.pixels.size());
}

}  // namespace

TEST_SUITE("runtime/image") {
  TEST_CASE("scaling, padding and cutting give Pillow's bits") {
    const test::golden_images golden;
    const auto rows = golden.get<int32_t>("resize");
    const auto want = golden.get<uint64_t>("resize.digest");
    REQUIRE(rows.size() == want.size() * 6);
    const auto side = [&](size_t i) { return static_cast<uint32_t>(rows[i]); };
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t row = 6 * i;
      CAPTURE(rows[row]);
      const rgb_image picture = noise(side(row), {side(row + 1), side(row + 2)});
      CHECK(digest_of(picture, {side(row + 3), side(row + 4)}, rows[row + 5]) == want[i]);
    }
    CHECK(resize_bicubic(noise(1, {5, 4}), {9, 7}).pixels == golden.get<uint8_t>("resize.first"));
  }

  TEST_CASE("one colour stays that colour at any size") {
    test::rng random{31};
    for (int round = 0; round < 100; ++round) {
      const image_size from{1 + random.below(60), 1 + random.below(60)};
      const image_size to{1 + random.below(90), 1 + random.below(90)};
      const auto colour = static_cast<uint8_t>(random.below(256));
      const rgb_image flat{from,
                           std::vector<uint8_t>(size_t{from.width} * from.height * 3, colour)};
      const rgb_image made = resize_bicubic(flat, to);
      CHECK(std::ranges::all_of(made.pixels, [colour](uint8_t v) { return v == colour; }));
    }
  }

  TEST_CASE("a picture too narrow to be seen leaves only the gray around it") {
    const rgb_image made = pad_to(noise(2, {400, 1}), {100, 8});
    CHECK(std::ranges::all_of(made.pixels, [](uint8_t v) { return v == 127; }));
  }

  TEST_CASE("patches run in reading order, channel by channel") {
    rgb_image picture{{4, 2}, {}};
    for (int i = 0; i < 24; ++i)
      picture.pixels.push_back(static_cast<uint8_t>(i % 3 == 0 ? 255 : 0));
    picture.pixels[3 * 2] = 0;  // red of the pixel at (2, 0)
    const image_patches made = cut_patches(picture, 2);
    CHECK(made.rows == 1);
    CHECK(made.columns == 2);
    constexpr uint16_t one = 0x3F80, minus_one = 0xBF80;
    const std::vector<uint16_t> first{one,       one,       one,       one,
                                      minus_one, minus_one, minus_one, minus_one,
                                      minus_one, minus_one, minus_one, minus_one};
    auto second = first;
    second[0] = minus_one;
    CHECK(std::ranges::equal(std::span(made.values).first(12), first));
    CHECK(std::ranges::equal(std::span(made.values).last(12), second));
  }

  TEST_CASE("preparing an image fills exactly the fitted grid") {
    const fit_rules rules{.patch = 4, .merge = 3, .max_tokens = 64, .min_pixels = 256};
    const rgb_image picture = noise(3, {37, 90});
    const image_fit fit = fit_image(picture.size, rules);
    const image_patches made = prepare_image(picture, fit, rules);
    CHECK(made.rows == fit.patch_rows);
    CHECK(made.columns == fit.patch_columns);
    CHECK(made.values.size() == size_t{made.rows} * made.columns * 3 * 16);
  }
}
