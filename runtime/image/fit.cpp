#include "runtime/image/fit.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cmath>

namespace deepinfer::image {
namespace {

constexpr int most_rounds = 10;

uint32_t whole(double v) {
  return std::max<uint32_t>(1, static_cast<uint32_t>(v));
}

uint32_t divided_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

image_fit fit_of(image_size target, const fit_rules& rules) {
  image_fit fit;
  fit.target = target;
  fit.patch_rows = target.height / rules.patch;
  fit.patch_columns = target.width / rules.patch;
  fit.token_rows = divided_up(fit.patch_rows, rules.merge);
  fit.token_columns = divided_up(fit.patch_columns, rules.merge);
  return fit;
}

image_size enlarged(image_size size, const fit_rules& rules) {
  const double pixels = double(size.width) * size.height;
  if (pixels >= double(rules.min_pixels)) return size;
  const double scale = std::sqrt(double(rules.min_pixels) / pixels);
  return {whole(size.width * scale), whole(size.height * scale)};
}

// The largest grid of tokens with the image's shape: mw columns and mh rows solve
// mh (mw + 1) + 2 = max_tokens with mh / mw = height / width.
image_size shrunk(image_size size, const fit_rules& rules) {
  const uint32_t cell = rules.patch * rules.merge;
  const double shape = double(size.height) / size.width;
  const double columns = std::sqrt((rules.max_tokens - 2) / shape + 0.25) - 0.5;
  const double rows = columns * shape;
  if (columns < 1) return {cell, (rules.max_tokens - 2) / 2 * cell};
  if (rows < 1) return {(rules.max_tokens - 3) * cell, cell};
  const double scale =
      std::min(std::floor(columns) * cell / size.width, std::floor(rows) * cell / size.height);
  const auto side = [&](uint32_t length) {
    return std::max<uint32_t>(1, static_cast<uint32_t>(length * scale / rules.patch)) * rules.patch;
  };
  return {side(size.width), side(size.height)};
}

image_fit fit_once(image_size size, const fit_rules& rules) {
  if (rules.max_wh_ratio > 0 && size.width > size.height * rules.max_wh_ratio)
    size.width = whole(size.height * rules.max_wh_ratio);
  size = enlarged(size, rules);
  const image_fit fit = fit_of({divided_up(size.width, rules.patch) * rules.patch,
                                divided_up(size.height, rules.patch) * rules.patch},
                               rules);
  return fit.tokens() <= rules.max_tokens ? fit : fit_of(shrunk(size, rules), rules);
}

}  // namespace

image_fit fit_image(image_size original, const fit_rules& rules) {
  DEEPINFER_CHECK(original.width > 0 && original.width < 65536);
  DEEPINFER_CHECK(original.height > 0 && original.height < 65536);
  DEEPINFER_CHECK(rules.patch > 0 && rules.patch <= 64 && rules.merge > 0 && rules.merge <= 16);
  DEEPINFER_CHECK(rules.max_tokens >= 4 && rules.max_tokens <= 65536);
  image_fit fit = fit_once(original, rules);
  for (int round = 1; round < most_rounds; ++round) {
    const image_fit again = fit_once(fit.target, rules);
    if (again.target == fit.target) break;
    fit = again;
  }
  return fit;
}

image_size bounded_size(image_size original, uint32_t longest) {
  const uint32_t side = std::max(original.width, original.height);
  if (side <= longest) return original;
  const double scale = double(longest) / side;
  return {whole(original.width * scale), whole(original.height * scale)};
}

}  // namespace deepinfer::image
