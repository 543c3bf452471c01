#include "storage/segment/segment_format.hpp"

#include "storage/catalog/catalogue.hpp"

#include <xxhash.h>

#include <charconv>
#include <cstring>

namespace deepinfer::storage {

namespace {

constexpr std::string_view name_prefix = "segment-";
constexpr std::string_view name_suffix = ".kv";
constexpr uint64_t header_magic = 0x316765736b766964;  // "divkseg1"
constexpr uint64_t footer_magic = 0x31746f6f66766b64;  // "dkvfoot1"

/// Fields one behind the other; the last eight bytes of the span are their checksum.
template <class... Fields>
void seal_fields(std::span<std::byte> into, const Fields&... fields) {
  size_t at = 0;
  const auto put = [&](const auto& field) {
    std::memcpy(into.data() + at, &field, sizeof field);
    at += sizeof field;
  };
  (put(fields), ...);
  const size_t body = into.size() - sizeof(uint64_t);
  const uint64_t sum = XXH3_64bits(into.data(), body);
  std::memcpy(into.data() + body, &sum, sizeof sum);
}

template <class... Fields>
bool open_fields(std::span<const std::byte> from, Fields&... fields) {
  const size_t body = from.size() - sizeof(uint64_t);
  uint64_t sum = 0;
  std::memcpy(&sum, from.data() + body, sizeof sum);
  if (sum != XXH3_64bits(from.data(), body)) return false;
  size_t at = 0;
  const auto take = [&](auto& field) {
    std::memcpy(&field, from.data() + at, sizeof field);
    at += sizeof field;
  };
  (take(fields), ...);
  return true;
}

}  // namespace

std::string segment_name(uint32_t segment) {
  char digits[9] = {};
  for (int i = 0; i < 8; ++i) digits[i] = "0123456789abcdef"[segment >> (28 - 4 * i) & 15];
  return std::string{name_prefix}.append(digits).append(name_suffix);
}

uint32_t segment_of_name(std::string_view name) {
  if (name.size() != name_prefix.size() + 8 + name_suffix.size() ||
      !name.starts_with(name_prefix) || !name.ends_with(name_suffix))
    return 0;
  const char* first = name.data() + name_prefix.size();
  uint32_t segment = 0;
  const auto [end, error] = std::from_chars(first, first + 8, segment, 16);
  return error == std::errc{} && end == first + 8 && segment_name(segment) == name ? segment : 0;
}

std::vector<std::byte> encode_segment_header(const segment_header& header) {
  std::vector<std::byte> bytes(segment_header_bytes);
  seal_fields(bytes, header_magic, header.segment);
  return bytes;
}

result<segment_header> decode_segment_header(std::span<const std::byte> bytes) {
  uint64_t magic = 0;
  segment_header header;
  if (bytes.size() != segment_header_bytes || !open_fields(bytes, magic, header.segment) ||
      magic != header_magic)
    return failure{error_code::corrupt, "not the header of a segment"};
  return header;
}

std::vector<std::byte> encode_tail(const block_footer& footer) {
  std::vector<std::byte> tail(stride_of(footer.length) - footer.length);
  seal_fields(std::span{tail}.last(footer_bytes), footer_magic, footer.key.hi, footer.key.lo,
              footer.length, uint32_t{0}, footer.checksum);
  return tail;
}

result<block_footer> decode_footer(std::span<const std::byte> bytes) {
  uint64_t magic = 0;
  uint32_t unused = 0;
  block_footer footer;
  if (bytes.size() != footer_bytes ||
      !open_fields(bytes, magic, footer.key.hi, footer.key.lo, footer.length, unused,
                   footer.checksum) ||
      magic != footer_magic)
    return failure{error_code::corrupt, "not the footer of a block"};
  return footer;
}

}  // namespace deepinfer::storage
