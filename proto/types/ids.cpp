#include "proto/types/ids.hpp"

namespace deepinfer {
namespace {

std::string hex128(uint64_t hi, uint64_t lo) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = digits[(hi >> (4 * i)) & 15];
    text[31 - i] = digits[(lo >> (4 * i)) & 15];
  }
  return text;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string to_string(const node_id& id) {
  return hex128(id.hi, id.lo);
}

std::string to_string(const request_id& id) {
  return hex128(id.hi, id.lo);
}

result<node_id> parse_node_id(std::string_view text) {
  if (text.size() != 32)
    return failure{error_code::invalid_argument, "a node id has 32 hex digits"};
  uint64_t half[2] = {0, 0};
  for (size_t i = 0; i < 32; ++i) {
    const int value = hex_value(text[i]);
    if (value < 0) return failure{error_code::invalid_argument, "a node id has 32 hex digits"};
    half[i / 16] = (half[i / 16] << 4) | static_cast<uint64_t>(value);
  }
  return node_id{half[0], half[1]};
}

}  // namespace deepinfer
