#pragma once

#include "runtime/model/mapped_file.hpp"
#include "runtime/model/safetensors.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Expected tensors from files of the source tree, and how far computed ones are from them.
namespace deepinfer::test {

/// One safetensors file below tests/golden/model. A missing tensor or one of another type fails
/// the test that asks for it.
class golden_tensors {
public:
  explicit golden_tensors(std::string_view name)
      : file_(open(name)), tensors_(*model::parse_safetensors(file_.bytes())) {}

  [[nodiscard]] bool has(std::string_view name) const {
    return std::ranges::find(tensors_, name, &model::tensor_view::name) != tensors_.end();
  }
  [[nodiscard]] std::vector<uint64_t> shape(std::string_view name) const { return at(name).shape; }

  /// F32 or BF16: files hold BF16 where that loses nothing.
  [[nodiscard]] std::vector<float> floats(std::string_view name) const {
    const model::tensor_view& tensor = at(name);
    if (tensor.type == model::tensor_type::f32) return copy<float>(tensor);
    REQUIRE_MESSAGE(tensor.type == model::tensor_type::bf16, tensor.name);
    std::vector<float> out;
    for (const uint16_t bits : copy<uint16_t>(tensor))
      out.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
    return out;
  }
  [[nodiscard]] std::vector<int32_t> ints(std::string_view name) const {
    return typed<int32_t>(name, model::tensor_type::i32);
  }
  [[nodiscard]] std::vector<int64_t> wide(std::string_view name) const {
    return typed<int64_t>(name, model::tensor_type::i64);
  }
  [[nodiscard]] std::vector<uint8_t> bytes(std::string_view name) const {
    return typed<uint8_t>(name, model::tensor_type::u8);
  }

private:
  static model::mapped_file open(std::string_view name) {
    const auto path = source_path("tests/golden/model/" + std::string(name) + ".safetensors");
    auto file = model::mapped_file::open(path);
    REQUIRE_MESSAGE(file.has_value(), path);
    REQUIRE_MESSAGE(model::parse_safetensors(file->bytes()).has_value(), path);
    return *std::move(file);
  }
  [[nodiscard]] const model::tensor_view& at(std::string_view name) const {
    const auto found = std::ranges::find(tensors_, name, &model::tensor_view::name);
    REQUIRE_MESSAGE(found != tensors_.end(), std::string(name));
    return *found;
  }
  template <class T>
  static std::vector<T> copy(const model::tensor_view& tensor) {
    std::vector<T> out(tensor.bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return out;
  }
  template <class T>
  [[nodiscard]] std::vector<T> typed(std::string_view name, model::tensor_type type) const {
    REQUIRE_MESSAGE(at(name).type == type, std::string(name));
    return copy<T>(at(name));
  }

  model::mapped_file file_;
  std::vector<model::tensor_view> tensors_;
};

/// Largest difference as a share of the largest expected value; infinite when a value is no number.
inline double relative_error(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    worst = std::max(worst, std::fabs(double{got[i]} - want[i]));
    largest = std::max(largest, std::fabs(double{want[i]}));
  }
  return worst / largest;
}

/// How rows of values that were rounded to bf16 compare with expected ones. One rounding that falls
/// to the other side changes the whole row behind it a little; a wrong formula changes every row.
struct bf16_agreement {
  double rows = 0;      ///< share of rows with the same bits
  double one_step = 0;  ///< share of values that are equal or the neighbouring bf16 number
  double error = 0;     ///< `relative_error` of all
};

/// Place of a bf16 number in the order of all of them; neighbours differ by one.
inline int32_t bf16_place(float value) {
  const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(value) >> 16);
  return bits < 0x8000 ? bits : 0x8000 - bits;
}

inline bf16_agreement compare_bf16(std::span<const float> got,
                                   std::span<const float> want,
                                   size_t width) {
  bf16_agreement out;
  out.error = relative_error(got, want);
  REQUIRE(got.size() % width == 0);
  size_t rows = 0, near = 0;
  for (size_t at = 0; at < got.size(); at += width)
    rows += std::ranges::equal(got.subspan(at, width), want.subspan(at, width));
  for (size_t i = 0; i < got.size(); ++i)
    near += std::abs(bf16_place(got[i]) - bf16_place(want[i])) <= 1;
  const double count = std::max<double>(1, static_cast<double>(got.size()));
  out.rows = static_cast<double>(rows * width) / count;
  out.one_step = static_cast<double>(near) / count;
  return out;
}

/// Share of equal elements of two lists of one length.
template <class T>
double equal_share(const std::vector<T>& got, const std::vector<T>& want) {
  REQUIRE(got.size() == want.size());
  size_t equal = 0;
  for (size_t i = 0; i < got.size(); ++i) equal += got[i] == want[i];
  return got.empty() ? 1 : static_cast<double>(equal) / static_cast<double>(got.size());
}

/// The rows `rows` of a matrix of this width.
template <class T>
std::vector<T> pick_rows(const std::vector<T>& matrix,
                         std::span<const int32_t> rows,
                         size_t width) {
  std::vector<T> out;
  for (const int32_t row : rows) {
    REQUIRE((static_cast<size_t>(row) + 1) * width <= matrix.size());
    const auto first = matrix.begin() + static_cast<ptrdiff_t>(row * width);
    out.insert(out.end(), first, first + static_cast<ptrdiff_t>(width));
  }
  return out;
}

}  // namespace deepinfer::test
