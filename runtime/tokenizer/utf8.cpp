#include "runtime/tokenizer/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace deepinfer::text {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

uint8_t at(std::string_view s, size_t i) {
  return static_cast<uint8_t>(s[i]);
}

bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

/// Length that a lead byte announces, and the range its second byte must lie in (Unicode table
/// 3-7); 0 for a byte that cannot lead.
struct lead {
  uint8_t length, second_min, second_max;
};

lead classify(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// Bytes from `from` on that are ASCII, eight at a time.
size_t ascii_run(std::string_view s, size_t from) {
  size_t i = from;
  for (; i + 8 <= s.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, s.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < s.size() && at(s, i) < 0x80) ++i;
  return i - from;
}

}  // namespace

size_t character_length(std::string_view bytes, size_t* invalid) noexcept {
  if (bytes.empty()) return 0;
  const lead kind = classify(at(bytes, 0));
  size_t good = 1;
  while (good < kind.length && good < bytes.size()) {
    const uint8_t next = at(bytes, good);
    const bool fits =
        good == 1 ? next >= kind.second_min && next <= kind.second_max : is_continuation(next);
    if (!fits) break;
    ++good;
  }
  if (kind.length != 0 && good == kind.length) return good;
  if (invalid != nullptr) *invalid = good;
  return 0;
}

bool is_utf8(std::string_view bytes) noexcept {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

code_point decode_at(std::string_view s, size_t i) noexcept {
  const uint8_t first = at(s, i);
  if (first < 0x80) return {first, 1};
  const auto low = [&s, i](size_t k) { return static_cast<char32_t>(at(s, i + k) & 0x3F); };
  if (first < 0xE0) return {(static_cast<char32_t>(first & 0x1F) << 6) | low(1), 2};
  if (first < 0xF0)
    return {(static_cast<char32_t>(first & 0x0F) << 12) | (low(1) << 6) | low(2), 3};
  return {(static_cast<char32_t>(first & 0x07) << 18) | (low(1) << 12) | (low(2) << 6) | low(3), 4};
}

size_t count_characters(std::string_view text) noexcept {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

void append_lossy(std::string& out, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const size_t plain = ascii_run(bytes, i);
    out.append(bytes, i, plain);
    i += plain;
    if (i == bytes.size()) break;
    size_t invalid = 0;
    const size_t length = character_length(bytes.substr(i), &invalid);
    if (length != 0) {
      out.append(bytes, i, length);
    } else {
      out.append(replacement);
    }
    i += length != 0 ? length : invalid;
  }
}

bool ends_undecided(std::string_view bytes) noexcept {
  if (bytes.empty()) return true;
  const size_t furthest = std::min<size_t>(4, bytes.size());
  for (size_t back = 1; back <= furthest; ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    if (is_continuation(at(tail, 0))) continue;
    return character_length(tail) != tail.size() || tail == replacement;
  }
  return true;  // four continuation bytes in a row belong to no character
}

}  // namespace deepinfer::text
