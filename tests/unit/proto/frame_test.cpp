#include "proto/codec/frame.hpp"

#include "proto/types/ids.hpp"
#include "proto/types/limits.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::wire;

namespace {

std::vector<std::byte> make_frame(size_t body_bytes, uint64_t seed) {
  test::rng random{seed};
  std::vector<std::byte> frame(sizeof(frame_header) + body_bytes);
  for (size_t i = sizeof(frame_header); i < frame.size(); ++i)
    frame[i] = static_cast<std::byte>(random.next());
  frame_header header;
  header.epoch = random.next();
  header.sequence = 7;
  seal(header, std::span{frame}.subspan(sizeof header));
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

}  // namespace

TEST_SUITE("proto/codec") {
  TEST_CASE("a sealed frame opens with the header it was sealed with") {
    for (const size_t bytes : {0, 8, 64, 4096}) {
      const auto frame = make_frame(bytes, bytes);
      const auto header = open_frame(frame);
      REQUIRE(header);
      CHECK(header->body_bytes == bytes);
      CHECK(header->sequence == 7);
    }
  }

  TEST_CASE("any flipped bit is found") {
    const auto good = make_frame(48, 1);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      CAPTURE(bit);
      auto bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      CHECK_FALSE(open_frame(bad));
    }
  }

  TEST_CASE("any cut or added byte is found") {
    const auto good = make_frame(48, 2);
    for (size_t size = 0; size < good.size(); ++size)
      CHECK_FALSE(open_frame(std::span{good}.first(size)));
    auto longer = good;
    longer.push_back(std::byte{0});
    CHECK_FALSE(open_frame(longer));
  }

  TEST_CASE("a frame that claims 4 GiB is refused before anything is allocated") {
    auto frame = make_frame(8, 3);
    frame_header header;
    std::memcpy(&header, frame.data(), sizeof header);
    header.body_bytes = uint64_t{4} << 30;
    std::memcpy(frame.data(), &header, sizeof header);
    CHECK(open_frame(frame).error().code == error_code::too_large);
  }

  TEST_CASE("a node id prints and reads back") {
    const node_id id{0x0123456789abcdefu, 0xfedcba9876543210u};
    CHECK(to_string(id) == "0123456789abcdeffedcba9876543210");
    CHECK(*parse_node_id(to_string(id)) == id);
    CHECK_FALSE(parse_node_id("0123"));
    CHECK_FALSE(parse_node_id(std::string(32, 'g')));
  }

  TEST_CASE("an unknown error number reads as internal") {
    CHECK(error_code_from_wire(60000) == error_code::internal);
    CHECK(error_code_from_wire(static_cast<uint16_t>(error_code::stale_epoch)) ==
          error_code::stale_epoch);
  }
}
