// The definition is Pillow's, since the model was trained on its output: Keys' cubic convolution
// kernel with a = -0.5, sampled at pixel centres, in the fixed-point form of 8-bit images.
#include "runtime/image/resample.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace deepinfer::image {
namespace {

constexpr int weight_bits = 32 - 8 - 2;  // weights reach beyond 1, sums beyond 255
constexpr uint8_t gray = 127;

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The pixels that one output pixel is made of.
struct tap_range {
  uint32_t first;
  uint32_t count;
  size_t weights;  ///< where they begin
};

struct filter {
  std::vector<tap_range> taps;  ///< one per output pixel
  std::vector<int32_t> weights;
};

int32_t fixed_point(double v) {
  return static_cast<int32_t>(v * (1 << weight_bits) + (v < 0 ? -0.5 : 0.5));
}

filter make_filter(uint32_t from, uint32_t to) {
  const double scale = double(from) / to;
  const double widening = std::max(scale, 1.0);
  const double reach = 2 * widening;
  filter made;
  std::vector<double> w;
  for (uint32_t i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    const auto first = static_cast<uint32_t>(std::max(0.0, centre - reach + 0.5));
    const auto end = static_cast<uint32_t>(std::min<double>(from, centre + reach + 0.5));
    w.clear();
    double total = 0;
    for (uint32_t x = first; x < end; ++x) {
      w.push_back(cubic((x - centre + 0.5) * (1.0 / widening)));
      total += w.back();
    }
    made.taps.push_back({first, end - first, made.weights.size()});
    for (const double v : w) made.weights.push_back(fixed_point(total != 0 ? v / total : v));
  }
  return made;
}

uint8_t clamped(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

constexpr int32_t half = 1 << (weight_bits - 1);

rgb_image resized_across(const rgb_image& in, uint32_t width) {
  const filter f = make_filter(in.size.width, width);
  rgb_image out{{width, in.size.height}, std::vector<uint8_t>(size_t{width} * in.size.height * 3)};
  for (uint32_t y = 0; y < in.size.height; ++y) {
    const uint8_t* row = in.pixels.data() + size_t{y} * in.size.width * 3;
    uint8_t* to = out.pixels.data() + size_t{y} * width * 3;
    for (const tap_range& tap : f.taps) {
      const uint8_t* pixel = row + size_t{tap.first} * 3;
      const int32_t* weight = f.weights.data() + tap.weights;
      int32_t red = half, green = half, blue = half;
      for (uint32_t k = 0; k < tap.count; ++k, pixel += 3) {
        red += pixel[0] * weight[k];
        green += pixel[1] * weight[k];
        blue += pixel[2] * weight[k];
      }
      *to++ = clamped(red);
      *to++ = clamped(green);
      *to++ = clamped(blue);
    }
  }
  return out;
}

rgb_image resized_down(const rgb_image& in, uint32_t height) {
  const filter f = make_filter(in.size.height, height);
  const size_t row_bytes = size_t{in.size.width} * 3;
  rgb_image out{{in.size.width, height}, std::vector<uint8_t>(row_bytes * height)};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* to = out.pixels.data();
  for (const tap_range& tap : f.taps) {
    std::fill(sums.begin(), sums.end(), half);
    for (uint32_t k = 0; k < tap.count; ++k) {
      const uint8_t* row = in.pixels.data() + (size_t{tap.first} + k) * row_bytes;
      const int32_t weight = f.weights[tap.weights + k];
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
    }
    for (size_t i = 0; i < row_bytes; ++i) *to++ = clamped(sums[i]);
  }
  return out;
}

// Ties to even, as Python's round.
uint32_t rounded(double v) {
  const double low = std::floor(v);
  const double rest = v - low;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(low, 2) != 0);
  return static_cast<uint32_t>(low + (up ? 1 : 0));
}

// The part of `size` that an image of this shape fills; a side may come out as 0.
image_size contained(image_size shape, image_size size) {
  const double have = double(shape.width) / shape.height;
  const double want = double(size.width) / size.height;
  if (have > want) size.height = rounded(double(shape.height) / shape.width * size.width);
  if (have < want) size.width = rounded(double(shape.width) / shape.height * size.height);
  return size;
}

}  // namespace

rgb_image resize_bicubic(const rgb_image& in, image_size size) {
  DEEPINFER_CHECK(in.size.width > 0 && in.size.height > 0 && size.width > 0 && size.height > 0);
  const bool across = size.width != in.size.width, down = size.height != in.size.height;
  if (across && down) return resized_down(resized_across(in, size.width), size.height);
  if (across) return resized_across(in, size.width);
  return down ? resized_down(in, size.height) : in;
}

rgb_image pad_to(const rgb_image& in, image_size size) {
  const image_size inner = contained(in.size, size);
  if (inner == size) return resize_bicubic(in, size);
  rgb_image out{size, std::vector<uint8_t>(size_t{size.width} * size.height * 3, gray)};
  if (inner.width == 0 || inner.height == 0) return out;  // too narrow to be seen
  const rgb_image picture = resize_bicubic(in, inner);
  const uint32_t left = rounded((size.width - inner.width) * 0.5);
  const uint32_t top = rounded((size.height - inner.height) * 0.5);
  const size_t row_bytes = size_t{inner.width} * 3;
  for (uint32_t y = 0; y < inner.height; ++y)
    std::memcpy(out.pixels.data() + ((size_t{top} + y) * size.width + left) * 3,
                picture.pixels.data() + y * row_bytes, row_bytes);
  return out;
}

}  // namespace deepinfer::image
