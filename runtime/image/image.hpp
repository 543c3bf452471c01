#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer::image {

struct image_size {
  uint32_t width = 0;
  uint32_t height = 0;

  friend constexpr bool operator==(const image_size&, const image_size&) = default;
};

/// Pixels without alpha, as the published processors see them: row-major, three bytes each.
struct rgb_image {
  image_size size;
  std::vector<uint8_t> pixels;  ///< height * width * 3
};

/// What an image from outside may cost. Checked on the header, before anything is allocated.
struct image_limits {
  size_t encoded_bytes = size_t{32} << 20;
  uint32_t side = 8192;                       ///< width and height
  uint64_t pixels = uint64_t{8192} * 8192;    ///< width * height; three bytes each are allocated
  uint32_t jpeg_scans = 128;                  ///< each scan of a progressive file passes all pixels
  uint64_t jpeg_bytes = uint64_t{512} << 20;  ///< coefficients of a progressive file
};

}  // namespace deepinfer::image
