#include "runtime/image/data_url.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace deepinfer::image {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t no_digit = 64;
constexpr size_t most_header_bytes = 512;  // of a data URL, up to the comma

constexpr std::array<uint8_t, 256> digit_values() {
  std::array<uint8_t, 256> values{};
  for (uint8_t& v : values) v = no_digit;
  for (size_t i = 0; i < alphabet.size(); ++i)
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<uint8_t>(i);
  return values;
}
constexpr std::array<uint8_t, 256> digits = digit_values();

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lowered(c);
  return out;
}

failure bad(std::string_view why) {
  return failure{error_code::invalid_argument,
                 "base64: " + std::string(why) + "; send the standard encoding with its padding"};
}

}  // namespace

result<std::vector<std::byte>> decode_base64(std::string_view text, size_t most_bytes) {
  const size_t padded = text.size();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  const size_t rest = text.size() % 4;
  if (rest == 1) return bad("a character is missing or too many");
  if (rest != 0 && padded == text.size()) return bad("the padding is missing");
  const size_t count = text.size() / 4 * 3 + (rest == 0 ? 0 : rest - 1);
  if (count > most_bytes)
    return failure{error_code::too_large, "base64: holds " + std::to_string(count) + " bytes, " +
                                              std::to_string(most_bytes) +
                                              " are allowed; send a smaller file"};
  std::vector<std::byte> out;
  out.reserve(count);
  uint32_t bits = 0;
  uint32_t held = 0;
  for (const char c : text) {
    const uint8_t digit = digits[static_cast<unsigned char>(c)];
    if (digit == no_digit) return bad("a character is not of the alphabet");
    bits = (bits << 6 | digit) & 0xFFFF;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<std::byte>(bits >> held & 0xFF));
  }
  // Bits left over would make two texts of the same bytes.
  if ((bits & ((1u << held) - 1)) != 0) return bad("the last character holds stray bits");
  return out;
}

bool is_data_url(std::string_view url) {
  return lowered(url.substr(0, 5)) == "data:";
}

result<data_url> parse_data_url(std::string_view url, size_t most_bytes) {
  if (!is_data_url(url))
    return failure{error_code::invalid_argument, "image URL: does not begin with 'data:'"};
  url.remove_prefix(5);
  const size_t comma = url.substr(0, most_header_bytes).find(',');
  if (comma == std::string_view::npos)
    return failure{error_code::invalid_argument,
                   "image URL: no ',' in front of the data; write data:image/png;base64,..."};
  const std::string header = lowered(url.substr(0, comma));
  constexpr std::string_view marker = ";base64";
  if (header.size() < marker.size() ||
      header.compare(header.size() - marker.size(), marker.size(), marker) != 0)
    return failure{error_code::unsupported,
                   "image URL: the data must be base64; write data:image/png;base64,..."};
  auto bytes = decode_base64(url.substr(comma + 1), most_bytes);
  if (!bytes) return failure{bytes.error().code, "image URL: " + bytes.error().detail};
  return data_url{header.substr(0, header.find(';')), *std::move(bytes)};
}

}  // namespace deepinfer::image
