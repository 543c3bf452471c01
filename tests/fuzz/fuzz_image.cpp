// An image of a request: a file of any format, or (first byte odd) the data URL that carries it.
// Checksums of PNG chunks are set right, so that the search reaches what stands behind them.
#include "proto/types/check.hpp"
#include "runtime/image/data_url.hpp"
#include "runtime/image/decode.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

using namespace deepinfer;
using namespace deepinfer::image;

namespace {

// Small, so that a changed header costs no time.
constexpr image_limits limits{.encoded_bytes = 1u << 14, .side = 200, .pixels = 1u << 12};

uint32_t checksum(std::span<const std::byte> bytes) {
  uint32_t value = ~0u;
  for (const std::byte b : bytes) {
    value ^= static_cast<uint32_t>(b);
    for (int i = 0; i < 8; ++i) value = value >> 1 ^ (0xEDB88320u & (0u - (value & 1)));
  }
  return ~value;
}

uint32_t big_endian(const std::byte* p) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(p[i]);
  return value;
}

// Chunks: length, kind, content, checksum of kind and content.
void set_checksums(std::span<std::byte> png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    const uint64_t length = big_endian(&png[at]);
    if (length > png.size() - at - 12) return;
    const uint32_t sum = checksum(png.subspan(at + 4, 4 + length));
    for (size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

bool known(error_code code) {
  return code == error_code::corrupt || code == error_code::too_large ||
         code == error_code::unsupported;
}

void read_file(std::span<std::byte> file) {
  if (image_format_of(file) == image_format::png) set_checksums(file);
  const auto size = read_image_size(file, limits);
  const auto picture = decode_image(file, limits);
  for (const failure* why : {size ? nullptr : &size.error(), picture ? nullptr : &picture.error()})
    DEEPINFER_CHECK(why == nullptr || (known(why->code) && !why->detail.empty()));
  if (!picture) return;
  DEEPINFER_CHECK(size && *size == picture->size);
  DEEPINFER_CHECK(size->width > 0 && size->height > 0);
  DEEPINFER_CHECK(size->width <= limits.side && size->height <= limits.side);
  DEEPINFER_CHECK(picture->pixels.size() == size_t{size->width} * size->height * 3);
}

void read_url(std::string_view url) {
  constexpr size_t most = 1000;
  const auto parsed = parse_data_url(url, most);
  if (!parsed) {
    DEEPINFER_CHECK(!parsed.error().detail.empty());
    return;
  }
  DEEPINFER_CHECK(parsed->bytes.size() <= most);
  DEEPINFER_CHECK(parsed->bytes.size() <= url.size());
  DEEPINFER_CHECK(is_data_url(url));
}

constexpr std::string_view pictures[] = {
    // PNG with a palette and in RGB, JPEG in one and in several scans, lossy, lossless and animated
    // WebP, GIF: 7 x 5 pixels each
    "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAFAgMAAAD09B5LAAAADFBMVEWxs7V7fX9ISkwVFxlwGGHIAAAAF0lEQVR4nGP8/"
    "5fl"
    "9T6m/WsYQhkYGBgAOQUFbXYfrVYAAAAASUVORK5CYII=",
    "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAFCAIAAAAG+"
    "GGPAAAAFUlEQVR4nGNkYGJhwwAsWlpatBAFAOACBCzkdCbdAAAAAElF"
    "TkSuQmCC",
    "/9j/4AAQSkZJRgABAQAAAQABAAD/"
    "2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWG"
    "kJ6jq62rZ4C8ybqmx5moq6T/wAALCAAFAAcBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAv/"
    "EABkQAAEFAAAAAAAAAAAAAAAA"
    "AAADBAVRof/aAAgBAQAAPwBoxDesP//Z",
    "/9j/4AAQSkZJRgABAQAAAQABAAD/"
    "2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWG"
    "kJ6jq62rZ4C8ybqmx5moq6T/wgALCAAFAAcBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAf/aAAgBAQAAAAF//"
    "8QAFxAAAwEA"
    "AAAAAAAAAAAAAAAAAAECA//aAAgBAQABBQJZSf/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEABj8Cf//"
    "EABQQAQAAAAAA"
    "AAAAAAAAAAAAAAD/2gAIAQEAAT8hb//aAAgBAQAAABD/AP/EABYQAAMAAAAAAAAAAAAAAAAAAABRof/aAAgBAQABPxBKH/"
    "/Z",
    "UklGRiwAAABXRUJQVlA4ICAAAACQAQCdASoHAAUAB0CWJaQAAuab25AA/nkcASVMgAAAAA==",
    "UklGRjwAAABXRUJQVlA4TDAAAAAvBgABABdAIEAZ+1Q4QSyYhpR2JZFANg1JfUk0/wH/VkAQQJLEEvG85MQR/Q+AZl4=",
    "UklGRqwAAABXRUJQVlA4WAoAAAASAAAABgAABAAAQU5JTQYAAAAAAAAAAABBTk1GNAAAAAAAAAAAAAYAAAQAAAAAAAJWUD"
    "hM"
    "GwAAAC8GAAEAD3CZtMOknSZt/"
    "gMPYsEUD7uviP4HPQBBTk1GRAAAAAAAAAAAAAYAAAQAAAAAAABWUDhMKwAAAC8GAAEQFyAQ"
    "SHFMWy0QSHFIay0QSHFQSz3/AdUfBAJEhQk/JhVH9D92JQIA",
    "R0lGODdhBwAFAIEAALGztXt9f0hKTBUXGSwAAAAABwAFAAAIFQAHCBwoUIDBgwcDKFyoEIDDhxADAgA7",
};

template <class Char>
fuzz::bytes seed(uint8_t kind, std::span<const Char> content) {
  fuzz::bytes out(1 + content.size(), kind);
  std::transform(content.begin(), content.end(), out.begin() + 1,
                 [](Char c) { return static_cast<uint8_t>(c); });
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 1) {
    read_url({reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  std::vector<std::byte> file(size - 1);
  std::transform(data + 1, data + size, file.begin(), [](uint8_t b) { return std::byte{b}; });
  read_file(file);
  return 0;
}

std::vector<fuzz::bytes> fuzz::seeds() {
  std::vector<bytes> made;
  for (const std::string_view text : pictures) {
    const auto file = decode_base64(text, limits.encoded_bytes);
    DEEPINFER_CHECK(file && decode_image(*file, limits));  // a seed that is refused finds nothing
    made.push_back(seed(0, std::span<const std::byte>(*file)));
  }
  const std::string url = "data:image/gif;base64," + std::string(pictures[7]);
  made.push_back(seed(1, std::span<const char>(url)));
  return made;
}
