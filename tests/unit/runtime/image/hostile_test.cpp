// Files as an attacker or a bad line would send them: never a crash, never half a picture, never
// much memory.
#include "runtime/image/decode.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/image/golden_images.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

constexpr image_limits small{.encoded_bytes = 1u << 16, .side = 256, .pixels = 1u << 14};

void put(std::vector<std::byte>& bytes, size_t at, std::initializer_list<int> values) {
  REQUIRE(at + values.size() <= bytes.size());
  for (const int v : values) bytes[at++] = static_cast<std::byte>(v);
}

// Where a JPEG's frame header tells height and width.
size_t jpeg_sides(const std::vector<std::byte>& file, int marker) {
  for (size_t i = 0; i + 9 < file.size(); ++i)
    if (file[i] == std::byte{0xFF} && file[i + 1] == static_cast<std::byte>(marker)) return i + 5;
  FAIL("no frame header");
  return 0;
}

error_code refusal(const std::vector<std::byte>& file, const image_limits& limits) {
  const auto picture = decode_image(file, limits);
  if (picture) return error_code::ok;
  CHECK(picture.error().detail.find("; s") != std::string::npos);  // "; send ...", "; scale ..."
  return picture.error().code;
}

}  // namespace

TEST_SUITE("runtime/image") {
  TEST_CASE("a truncated file is refused, or only lost what follows its pixels") {
    const test::golden_images golden;
    for (const std::string& name : golden.names()) {
      CAPTURE(name);
      const auto whole = golden.encoded(name);
      const auto picture = decode_image(whole, small);
      REQUIRE(picture);
      size_t accepted = 0;
      for (size_t length = 0; length < whole.size(); ++length) {
        CAPTURE(length);
        const auto cut = decode_image(std::span(whole).first(length), small);
        if (!cut) continue;
        ++accepted;
        CHECK(cut->pixels == picture->pixels);
      }
      // Behind the first frame there may be others; in a still picture, next to nothing.
      if (!name.ends_with("animated")) CHECK(accepted <= 16);
    }
  }

  TEST_CASE("flipped bits give an error or a picture of a sane size") {
    const test::golden_images golden;
    test::rng random{11};
    for (const std::string& name : golden.names()) {
      CAPTURE(name);
      const auto whole = golden.encoded(name);
      for (int round = 0; round < 600; ++round) {
        auto file = whole;
        for (uint32_t flips = 1 + random.below(3); flips > 0; --flips)
          file[random.below(static_cast<uint32_t>(file.size()))] ^=
              static_cast<std::byte>(1u << random.below(8));
        const auto picture = decode_image(file, small);
        if (!picture) {
          CHECK_FALSE(picture.error().detail.empty());
          continue;
        }
        CHECK(picture->size.width <= small.side);
        CHECK(picture->size.height <= small.side);
        CHECK(picture->pixels.size() == size_t{picture->size.width} * picture->size.height * 3);
      }
    }
  }

  TEST_CASE("a header that claims 65535 x 65535 pixels is refused before memory is asked for") {
    const test::golden_images golden;
    const image_limits wide{.side = 65535};  // leaves it to the limit of all pixels
    for (const image_limits& limits : {image_limits{}, wide}) {
      auto png = golden.encoded("png.rgb");
      put(png, 16, {0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF});
      CHECK(refusal(png, limits) == error_code::too_large);
      auto jpeg = golden.encoded("jpeg.rgb");
      put(jpeg, jpeg_sides(jpeg, 0xC0), {0xFF, 0xFF, 0xFF, 0xFF});
      CHECK(refusal(jpeg, limits) == error_code::too_large);
      auto gif = golden.encoded("gif.still");
      put(gif, 6, {0xFF, 0xFF, 0xFF, 0xFF});
      CHECK(refusal(gif, limits) == error_code::too_large);
      // The widest a WebP container can claim is 2^24; its product must fit in 32 bits.
      auto webp = golden.encoded("webp.animated");
      put(webp, 24, {0xFE, 0xFF, 0, 0xFE, 0xFF, 0});
      CHECK(refusal(webp, limits) == error_code::too_large);
    }
    auto png = golden.encoded("png.rgb");
    put(png, 16, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});
    CHECK(refusal(png, {}) == error_code::too_large);
  }

  TEST_CASE("an image without pixels is refused") {
    const test::golden_images golden;
    auto png = golden.encoded("png.rgb");
    put(png, 16, {0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(refusal(png, {}) == error_code::corrupt);
    auto jpeg = golden.encoded("jpeg.rgb");
    put(jpeg, jpeg_sides(jpeg, 0xC0), {0, 0, 0, 0});
    CHECK(refusal(jpeg, {}) == error_code::corrupt);
    auto gif = golden.encoded("gif.still");
    const auto frame = std::ranges::find(gif, std::byte{0x2C}) - gif.begin();
    put(gif, static_cast<size_t>(frame) + 5, {0, 0, 0, 0});
    CHECK(refusal(gif, {}) == error_code::corrupt);
  }

  TEST_CASE("each limit refuses one more than it allows") {
    const test::golden_images golden;
    const auto png = golden.encoded("png.rgb");  // 13 x 9
    CHECK(refusal(png, {.encoded_bytes = png.size()}) == error_code::ok);
    CHECK(refusal(png, {.encoded_bytes = png.size() - 1}) == error_code::too_large);
    for (const char* name : {"png.rgb", "webp.lossless", "gif.still"}) {
      CAPTURE(name);
      const auto file = golden.encoded(name);
      CHECK(refusal(file, {.side = 13}) == error_code::ok);
      CHECK(refusal(file, {.side = 12}) == error_code::too_large);
      CHECK(refusal(file, {.pixels = 117}) == error_code::ok);
      CHECK(refusal(file, {.pixels = 116}) == error_code::too_large);
    }
    const auto progressive = golden.encoded("jpeg.progressive");
    CHECK(refusal(progressive, {.jpeg_scans = 10}) == error_code::ok);
    CHECK(refusal(progressive, {.jpeg_scans = 9}) == error_code::too_large);
  }

  TEST_CASE("the coefficients of a progressive JPEG are bounded before it is read") {
    const test::golden_images golden;
    auto tall = golden.encoded("jpeg.progressive");
    put(tall, jpeg_sides(tall, 0xC2), {0x10, 0, 0x10, 0});  // 4096 x 4096, 48 MiB of them
    CHECK(refusal(tall, {}) == error_code::corrupt);        // room for them, but no such data
    CHECK(refusal(tall, {.jpeg_bytes = 10u << 20}) == error_code::too_large);
  }
}
