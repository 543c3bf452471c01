#include "storage/block/block_record.hpp"

#include "storage/block/block_checksum.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

namespace deepinfer::storage {
namespace {

block_record some_record(test::rng& random) {
  block_record r;
  r.key = {random.next(), random.next()};
  r.parent = {random.next(), random.next()};
  r.scope = static_cast<scope_id>(random.next());
  r.depth = random.below(1u << 20);
  r.length = 1 + random.below(max_block_bytes);
  r.location = {random.below(1000), uint64_t{random.below(1u << 20)} * location_unit};
  r.checksum = random.next();
  r.content_digest = random.next();
  r.created = cluster_time{random.below(1u << 30)};
  r.accessed = cluster_time{random.below(1u << 30)};
  r.expiry = cluster_time{random.below(1u << 30)};
  r.writer = {random.next(), random.next()};
  r.state = static_cast<block_state>(random.below(3));
  r.classes = static_cast<class_mask>(random.below(4));
  return r;
}

TEST_SUITE_BEGIN("storage/block");

TEST_CASE("a record reads back as it was written") {
  test::rng random{1};
  for (int i = 0; i < 200; ++i) {
    const auto record = some_record(random);
    const auto read = decode_record(record.key, encode_record(record));
    REQUIRE(read);
    CHECK(*read == record);
  }
}

TEST_CASE("a record with any bit changed, cut short, or under another key is corrupt") {
  test::rng random{2};
  const auto record = some_record(random);
  const auto bytes = encode_record(record);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK_FALSE(decode_record(record.key, damaged));
  }
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_record(record.key, std::span{bytes}.first(size)));
  CHECK_FALSE(decode_record({record.key.hi, record.key.lo + 1}, bytes));
}

TEST_CASE("fields out of range do not read even when the checksum fits") {
  test::rng random{3};
  auto record = some_record(random);
  const auto refused = [](const block_record& r) {
    return decode_record(r.key, encode_record(r)).error().code == error_code::corrupt;
  };
  auto wrong = record;
  wrong.length = max_block_bytes + 1;
  CHECK(refused(wrong));
  wrong = record;
  wrong.length = 0;
  CHECK(refused(wrong));
  wrong = record;
  wrong.location.offset += 1;
  CHECK(refused(wrong));
  wrong = record;
  wrong.state = static_cast<block_state>(3);
  CHECK(refused(wrong));
}

TEST_CASE("a record of another version says so") {
  test::rng random{4};
  const auto record = some_record(random);
  auto bytes = encode_record(record);
  bytes[0] = std::byte{2};
  CHECK(decode_record(record.key, bytes).error().code == error_code::unsupported);
}

TEST_CASE("a content reads back; damaged, foreign or overlong ones do not") {
  const block_key key{5, 6};
  const block_content content(512, std::byte{7});
  const auto bytes = encode_content(key, content);
  CHECK(*decode_content(key, bytes) == content);
  CHECK_FALSE(decode_content({5, 7}, bytes));
  for (size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{1};
    CHECK_FALSE(decode_content(key, damaged));
  }
  const block_content longest(max_content_bytes, std::byte{1});
  CHECK(decode_content(key, encode_content(key, longest)));
  const block_content over(max_content_bytes + 1, std::byte{1});
  CHECK_FALSE(decode_content(key, encode_content(key, over)));
}

TEST_CASE("a checksum tells damaged bytes and bytes of another block") {
  const block_key key{1, 2}, other{1, 3};
  std::vector<std::byte> bytes(113'920, std::byte{9});
  const uint64_t sum = block_checksum(key, bytes);
  CHECK(block_checksum(key, bytes) == sum);
  CHECK(block_checksum(other, bytes) != sum);
  CHECK(block_checksum(key, std::span{bytes}.first(bytes.size() - 1)) != sum);
  bytes[77'777] ^= std::byte{0x10};
  CHECK(block_checksum(key, bytes) != sum);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
