#include "storage/block/block_key.hpp"

namespace deepinfer::storage {

std::array<std::byte, key_bytes> to_bytes(const block_key& key) {
  std::array<std::byte, key_bytes> bytes;
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(key.hi >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(key.lo >> (56 - 8 * i));
  }
  return bytes;
}

block_key key_from_bytes(const std::byte* bytes) {
  block_key key;
  for (size_t i = 0; i < 8; ++i) {
    key.hi = key.hi << 8 | static_cast<uint64_t>(bytes[i]);
    key.lo = key.lo << 8 | static_cast<uint64_t>(bytes[8 + i]);
  }
  return key;
}

std::string to_string(const block_key& key) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : to_bytes(key)) {
    text.push_back(digits[static_cast<size_t>(b) >> 4]);
    text.push_back(digits[static_cast<size_t>(b) & 15]);
  }
  return text;
}

result<block_key> parse_block_key(std::string_view text) {
  const failure wrong{error_code::invalid_argument, "a block key is 32 lower-case hex digits"};
  if (text.size() != 2 * key_bytes) return wrong;
  block_key key;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9')
      digit = static_cast<uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<uint64_t>(c - 'a') + 10;
    else
      return wrong;
    uint64_t& half = i < key_bytes ? key.hi : key.lo;
    half = half << 4 | digit;
  }
  return key;
}

}  // namespace deepinfer::storage
