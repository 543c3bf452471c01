#include "runtime/image/decode.hpp"

#include "tests/unit/runtime/image/golden_images.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

// Largest difference of a channel; lossy formats may round in another library version.
int difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.size() != b.size()) return 256;
  int worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_SUITE("runtime/image") {
  TEST_CASE("every kind of every format gives the pixels that Pillow gives") {
    const test::golden_images golden;
    REQUIRE(golden.names().size() == 24);
    for (const std::string& name : golden.names()) {
      CAPTURE(name);
      const auto picture = decode_image(golden.encoded(name), {});
      REQUIRE_MESSAGE(picture, picture.error().detail);
      const bool lossy = name.starts_with("jpeg.") || name == "webp.lossy";
      CHECK(difference(picture->pixels, golden.get<uint8_t>("pixels." + name)) <= (lossy ? 2 : 0));
    }
  }

  TEST_CASE("the size from the header is the size of the decoded image") {
    const test::golden_images golden;
    for (const std::string& name : golden.names()) {
      CAPTURE(name);
      const auto size = read_image_size(golden.encoded(name), {});
      REQUIRE(size);
      CHECK(*size == decode_image(golden.encoded(name), {})->size);
    }
    CHECK(*read_image_size(golden.encoded("gif.framed"), {}) == image_size{17, 12});
    CHECK(*read_image_size(golden.encoded("jpeg.turned"), {}) == image_size{21, 18});
  }

  TEST_CASE("the format is told by the first bytes alone") {
    const test::golden_images golden;
    const std::pair<const char*, image_format> kinds[] = {{"png.rgb", image_format::png},
                                                          {"jpeg.rgb", image_format::jpeg},
                                                          {"webp.lossy", image_format::webp},
                                                          {"gif.still", image_format::gif}};
    for (const auto& [name, format] : kinds) {
      const auto bytes = golden.encoded(name);
      CHECK(image_format_of(bytes) == format);
      CHECK(image_format_of(std::span(bytes).first(12)) == format);
      CHECK(image_format_of(std::span(bytes).first(2)) == std::nullopt);
    }
    const auto text = std::as_bytes(std::span("<svg></svg> and a lot more of it"));
    const auto picture = decode_image(text, {});
    REQUIRE_FALSE(picture);
    CHECK(picture.error().code == error_code::unsupported);
    CHECK(decode_image({}, {}).error().code == error_code::unsupported);
  }
}
