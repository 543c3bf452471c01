#pragma once

#include "runtime/model/mapped_file.hpp"
#include "runtime/model/safetensors.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace deepinfer::test {

/// tests/golden/image: files, their pixels and scaled pictures as Pillow makes them.
class golden_images {
public:
  golden_images() : file_(open()), tensors_(*model::parse_safetensors(file_.bytes())) {}

  template <class T>
  [[nodiscard]] std::vector<T> get(const std::string& name) const {
    const auto at = std::ranges::find(tensors_, name, &model::tensor_view::name);
    REQUIRE_MESSAGE(at != tensors_.end(), name);
    std::vector<T> out(at->bytes.size() / sizeof(T));
    std::memcpy(out.data(), at->bytes.data(), at->bytes.size());
    return out;
  }
  /// "png.rgb", "jpeg.gray", ...
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const model::tensor_view& t : tensors_)
      if (t.name.starts_with("file.")) out.push_back(t.name.substr(5));
    return out;
  }
  [[nodiscard]] std::vector<std::byte> encoded(const std::string& name) const {
    return get<std::byte>("file." + name);
  }

private:
  static model::mapped_file open() {
    auto file = model::mapped_file::open(source_path("tests/golden/image/vectors.safetensors"));
    REQUIRE(file);
    return *std::move(file);
  }
  model::mapped_file file_;
  std::vector<model::tensor_view> tensors_;
};

}  // namespace deepinfer::test
