#include "runtime/image/data_url.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

constexpr size_t plenty = 1000;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string encoded(const std::string& bytes) {
  constexpr const char* alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t held = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < held ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= held ? alphabet[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

TEST_SUITE("runtime/image") {
  TEST_CASE("base64 gives back every sequence of bytes") {
    test::rng random{41};
    for (uint32_t length = 0; length < 80; ++length) {
      std::string bytes(length, '\0');
      for (char& c : bytes) c = static_cast<char>(random.below(256));
      const auto decoded = decode_base64(encoded(bytes), plenty);
      REQUIRE(decoded);
      CHECK(text_of(*decoded) == bytes);
    }
  }

  TEST_CASE("base64 is strict, except that wrong padding is set right") {
    CHECK(text_of(*decode_base64("aGk=", plenty)) == "hi");
    CHECK(text_of(*decode_base64("aGk==", plenty)) == "hi");
    CHECK(text_of(*decode_base64("aGV5", plenty)) == "hey");
    CHECK(text_of(*decode_base64("aGV5=", plenty)) == "hey");
    CHECK(decode_base64("iVBORw0KGgo==", plenty)->size() == 8);
    for (const char* wrong :
         {"aGk", "a", "a===", "aGk=aGk=", "aG k", "aGk\n", "aG-_", "aGl=", "=a=="}) {
      CAPTURE(wrong);
      const auto decoded = decode_base64(wrong, plenty);
      REQUIRE_FALSE(decoded);
      CHECK(decoded.error().code == error_code::invalid_argument);
    }
  }

  TEST_CASE("base64 over the limit is refused by its length alone") {
    CHECK(decode_base64("aGV5aGV5", 6));
    const auto decoded = decode_base64("aGV5aGV5", 5);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().code == error_code::too_large);
    CHECK(decode_base64(std::string(4000, '*'), 10).error().code == error_code::too_large);
  }

  TEST_CASE("a data URL tells its media type and holds its bytes") {
    for (const char* url : {"data:image/png;base64,aGk=", "DATA:Image/PNG;Base64,aGk=",
                            "data:image/png;charset=x;base64,aGk="}) {
      CAPTURE(url);
      const auto parsed = parse_data_url(url, plenty);
      REQUIRE(parsed);
      CHECK(parsed->media_type == "image/png");
      CHECK(text_of(parsed->bytes) == "hi");
    }
    CHECK(parse_data_url("data:;base64,aGk=", plenty)->media_type.empty());
  }

  TEST_CASE("what is no base64 data URL is refused with the reason") {
    CHECK(parse_data_url("http://x/y.png", plenty).error().code == error_code::invalid_argument);
    CHECK(parse_data_url("data:image/png;base64", plenty).error().code ==
          error_code::invalid_argument);
    CHECK(parse_data_url("data:image/png,raw", plenty).error().code == error_code::unsupported);
    CHECK(parse_data_url("data:image/pngbase64,aGk=", plenty).error().code ==
          error_code::unsupported);
    CHECK(parse_data_url("data:a;base64,a*==", plenty).error().code ==
          error_code::invalid_argument);
    CHECK(parse_data_url("data:a;base64,aGV5", 2).error().code == error_code::too_large);
    CHECK_FALSE(parse_data_url("data:" + std::string(600, 'x') + ";base64,aGk=", plenty));
    CHECK_FALSE(parse_data_url("", plenty));
  }
}
