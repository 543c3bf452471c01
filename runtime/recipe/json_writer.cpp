#include "runtime/recipe/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace deepinfer::recipe {

namespace {

struct float_text {
  std::array<char, 32> buffer{};
  size_t size = 0;

  explicit float_text(float value) {
    constexpr float most = std::numeric_limits<float>::max();
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::clamp(value, -most, most));
    size = static_cast<size_t>(end.ptr - buffer.data());
  }
  [[nodiscard]] std::string_view view() const { return {buffer.data(), size}; }
};

}  // namespace

void json_writer::real(std::string_view name, float value) {
  raw(name, float_text(value).view());
}

void json_writer::element(float value) {
  separate();
  out_ += float_text(value).view();
  first_ = false;
}

}  // namespace deepinfer::recipe
