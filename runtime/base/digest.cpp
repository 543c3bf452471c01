#include "runtime/base/digest.hpp"

#include <xxhash.h>

#include <array>

namespace deepinfer {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

digest128 digest_of(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

digest128 digest_of(std::string_view text) noexcept {
  return digest_of(std::as_bytes(std::span{text.data(), text.size()}));
}

std::string to_hex(const digest128& digest) {
  std::string out;
  out.reserve(32);
  for (const uint64_t half : {digest.hi, digest.lo})
    for (int shift = 60; shift >= 0; shift -= 4) out += hex_digits[(half >> shift) & 15];
  return out;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out += hex_digits[static_cast<uint8_t>(b) >> 4];
    out += hex_digits[static_cast<uint8_t>(b) & 15];
  }
  return out;
}

result<digest128> parse_digest(std::string_view hex) {
  const failure bad{error_code::invalid_argument, "a digest is 32 lower-case hex digits"};
  if (hex.size() != 32) return bad;
  std::array<uint64_t, 2> halves{};
  for (size_t i = 0; i < hex.size(); ++i) {
    const int value = hex_value(hex[i]);
    if (value < 0) return bad;
    halves[i / 16] = halves[i / 16] << 4 | static_cast<uint64_t>(value);
  }
  return digest128{halves[0], halves[1]};
}

}  // namespace deepinfer
