#include "runtime/image/decode.hpp"

#include "runtime/image/decoders.hpp"

#include <algorithm>
#include <string>

namespace deepinfer::image {
namespace {

bool begins(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

result<rgb_image> decode(std::span<const std::byte> encoded,
                         const image_limits& limits,
                         decode_depth depth) {
  if (encoded.size() > limits.encoded_bytes)
    return failure{error_code::too_large, "image: the file has " + std::to_string(encoded.size()) +
                                              " bytes, " + std::to_string(limits.encoded_bytes) +
                                              " are allowed; send a smaller one"};
  const auto format = image_format_of(encoded);
  if (!format)
    return failure{error_code::unsupported,
                   "image: the bytes are no PNG, JPEG, WebP or GIF; convert the image to one of "
                   "them"};
  const std::span bytes(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size());
  switch (*format) {
    case image_format::png:
      return decode_png(bytes, limits, depth);
    case image_format::jpeg:
      return decode_jpeg(bytes, limits, depth);
    case image_format::webp:
      return decode_webp(bytes, limits, depth);
    case image_format::gif:
      break;
  }
  return decode_gif(bytes, limits, depth);
}

}  // namespace

std::string_view to_string(image_format format) {
  constexpr std::string_view names[] = {"PNG", "JPEG", "WebP", "GIF"};
  return names[static_cast<size_t>(format)];
}

std::optional<image_format> image_format_of(std::span<const std::byte> encoded) {
  const std::string_view text(reinterpret_cast<const char*>(encoded.data()),
                              std::min<size_t>(encoded.size(), 16));
  if (begins(text, "\x89PNG\r\n\x1a\n")) return image_format::png;
  if (begins(text, "\xff\xd8\xff")) return image_format::jpeg;
  if (begins(text, "GIF87a") || begins(text, "GIF89a")) return image_format::gif;
  if (begins(text, "RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP")
    return image_format::webp;
  return std::nullopt;
}

result<image_size> read_image_size(std::span<const std::byte> encoded, const image_limits& limits) {
  auto header = decode(encoded, limits, decode_depth::size);
  if (!header) return header.error();
  return header->size;
}

result<rgb_image> decode_image(std::span<const std::byte> encoded, const image_limits& limits) {
  return decode(encoded, limits, decode_depth::pixels);
}

result<void> check_size(image_size size, const image_limits& limits) {
  const std::string is =
      "image: " + std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels ";
  if (size.width == 0 || size.height == 0)
    return failure{error_code::corrupt, is + "hold no picture; send another file"};
  if (size.width > limits.side || size.height > limits.side)
    return failure{error_code::too_large, is + "are over the limit of " +
                                              std::to_string(limits.side) +
                                              " a side; scale the image down"};
  if (uint64_t{size.width} * size.height > limits.pixels)
    return failure{error_code::too_large, is + "are over the limit of " +
                                              std::to_string(limits.pixels) +
                                              " in all; scale the image down"};
  return {};
}

rgb_image make_image(image_size size) {
  return {size, std::vector<uint8_t>(size_t{size.width} * size.height * 3)};
}

failure damaged(image_format format, std::string_view why) {
  return failure{error_code::corrupt, "image: the " + std::string(to_string(format)) +
                                          " file is damaged or cut short (" + std::string(why) +
                                          "); send it again or save it anew"};
}

}  // namespace deepinfer::image
