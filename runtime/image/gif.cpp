// The first frame of a GIF by libgif, record by record: the library's own "read everything" would
// unpack every frame of an animation.
#include "runtime/image/decoders.hpp"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace deepinfer::image {
namespace {

struct gif_end {
  void operator()(GifFileType* file) const {
    int code = 0;
    DGifCloseFile(file, &code);
  }
};

struct byte_source {
  std::span<const uint8_t> left;
};

int give_bytes(GifFileType* file, GifByteType* out, int count) {
  auto& left = static_cast<byte_source*>(file->UserData)->left;
  const size_t given = std::min(left.size(), static_cast<size_t>(std::max(count, 0)));
  if (given != 0) std::memcpy(out, left.data(), given);
  left = left.subspan(given);
  return static_cast<int>(given);
}

failure trouble(int code) {
  const char* text = GifErrorString(code);
  return damaged(image_format::gif, text != nullptr ? text : "no picture");
}

// Passes over the blocks of one extension and keeps the transparent colour, if it tells one.
bool read_extension(GifFileType* file, int& transparent) {
  int kind = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(file, &kind, &block) == GIF_ERROR) return false;
  GraphicsControlBlock control;
  if (kind == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
      DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
    transparent = control.TransparentColor;
  while (block != nullptr)
    if (DGifGetExtensionNext(file, &block) == GIF_ERROR) return false;
  return true;
}

// Up to and including the description of the first frame.
bool find_frame(GifFileType* file, int& transparent) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(file, &record) == GIF_ERROR) return false;
    if (record == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(file) == GIF_OK;
    if (record != EXTENSION_RECORD_TYPE) return false;
    if (!read_extension(file, transparent)) return false;
  }
}

// Row of the picture that the n-th stored row is: every 8th, every 8th from 4, every 4th from 2,
// every 2nd from 1.
uint32_t interlaced_row(uint32_t n, uint32_t rows) {
  constexpr uint32_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  for (size_t pass = 0;; ++pass) {
    const uint32_t held =
        rows > first[pass] ? (rows - first[pass] + step[pass] - 1) / step[pass] : 0;
    if (n < held) return first[pass] + n * step[pass];
    n -= held;
  }
}

struct palette {
  uint8_t rgb[256][3] = {};  ///< colours the file does not give are black

  explicit palette(const ColorMapObject* map) {
    if (map == nullptr) {  // no palette at all means gray
      for (int i = 0; i < 256; ++i) std::fill_n(rgb[i], 3, static_cast<uint8_t>(i));
      return;
    }
    for (int i = 0; i < std::min(map->ColorCount, 256); ++i) {
      rgb[i][0] = map->Colors[i].Red;
      rgb[i][1] = map->Colors[i].Green;
      rgb[i][2] = map->Colors[i].Blue;
    }
  }
};

// The canvas outside of the frame has the transparent colour, or colour 0.
bool read_frame(GifFileType* file, const palette& colours, uint8_t outside, rgb_image& out) {
  for (size_t i = 0; i < out.pixels.size(); i += 3)
    std::memcpy(&out.pixels[i], colours.rgb[outside], 3);
  const GifImageDesc& frame = file->Image;
  std::vector<GifPixelType> codes(static_cast<size_t>(frame.Width));
  for (uint32_t n = 0; n < static_cast<uint32_t>(frame.Height); ++n) {
    if (DGifGetLine(file, codes.data(), frame.Width) == GIF_ERROR) return false;
    const uint32_t y = frame.Interlace ? interlaced_row(n, static_cast<uint32_t>(frame.Height)) : n;
    uint8_t* row = out.pixels.data() +
                   (size_t{y} + static_cast<size_t>(frame.Top)) * out.size.width * 3 +
                   static_cast<size_t>(frame.Left) * 3;
    for (size_t x = 0; x < codes.size(); ++x) std::memcpy(row + 3 * x, colours.rgb[codes[x]], 3);
  }
  return true;
}

}  // namespace

result<rgb_image> decode_gif(std::span<const uint8_t> encoded,
                             const image_limits& limits,
                             decode_depth depth) {
  byte_source source{encoded};
  int code = 0;
  const std::unique_ptr<GifFileType, gif_end> file(DGifOpen(&source, give_bytes, &code));
  if (file == nullptr) return trouble(code);
  int transparent = NO_TRANSPARENT_COLOR;
  if (!find_frame(file.get(), transparent)) return trouble(file->Error);
  const GifImageDesc& frame = file->Image;
  if (frame.Width <= 0 || frame.Height <= 0 || frame.Left < 0 || frame.Top < 0)
    return damaged(image_format::gif, "an empty frame");
  // A frame that reaches over the screen enlarges it.
  rgb_image out;
  out.size = {static_cast<uint32_t>(std::max(file->SWidth, frame.Left + frame.Width)),
              static_cast<uint32_t>(std::max(file->SHeight, frame.Top + frame.Height))};
  if (auto fits = check_size(out.size, limits); !fits) return fits.error();
  if (depth == decode_depth::size) return out;
  out = make_image(out.size);
  const palette colours(frame.ColorMap != nullptr ? frame.ColorMap : file->SColorMap);
  const auto outside = static_cast<uint8_t>(transparent == NO_TRANSPARENT_COLOR ? 0 : transparent);
  if (!read_frame(file.get(), colours, outside, out)) return trouble(file->Error);
  return out;
}

}  // namespace deepinfer::image
