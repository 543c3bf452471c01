#include "runtime/image/patches.hpp"

#include "kernels/api/number_formats.hpp"
#include "proto/types/check.hpp"
#include "runtime/image/resample.hpp"

#include <array>

namespace deepinfer::image {
namespace {

std::array<uint16_t, 256> normalised_pixels() {
  std::array<uint16_t, 256> table{};
  for (int v = 0; v < 256; ++v)
    table[static_cast<size_t>(v)] = kernels::bf16_bits(static_cast<float>((v / 255.0 - 0.5) / 0.5));
  return table;
}

}  // namespace

image_patches cut_patches(const rgb_image& picture, uint32_t side) {
  DEEPINFER_CHECK(side > 0 && picture.size.width % side == 0 && picture.size.height % side == 0);
  const std::array<uint16_t, 256> table = normalised_pixels();
  image_patches out;
  out.side = side;
  out.rows = picture.size.height / side;
  out.columns = picture.size.width / side;
  out.values.reserve(picture.pixels.size());
  const size_t row_bytes = size_t{picture.size.width} * 3;
  for (uint32_t row = 0; row < out.rows; ++row)
    for (uint32_t column = 0; column < out.columns; ++column) {
      const uint8_t* corner =
          picture.pixels.data() + size_t{row} * side * row_bytes + size_t{column} * side * 3;
      for (uint32_t channel = 0; channel < 3; ++channel)
        for (uint32_t y = 0; y < side; ++y)
          for (uint32_t x = 0; x < side; ++x)
            out.values.push_back(table[corner[y * row_bytes + x * 3 + channel]]);
    }
  return out;
}

image_patches prepare_image(const rgb_image& picture,
                            const image_fit& fit,
                            const fit_rules& rules) {
  return cut_patches(pad_to(picture, fit.target), rules.patch);
}

}  // namespace deepinfer::image
