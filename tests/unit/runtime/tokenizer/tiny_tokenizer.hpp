#pragma once

#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/source_tree.hpp"

#include <memory>

namespace deepinfer::test {

/// The bundled model's tokenizer, read once.
inline const std::shared_ptr<const text::tokenizer>& tiny_tokenizer() {
  static const auto loaded = [] {
    auto made = text::load_tokenizer(source_path("examples/models/tiny-v41/tokenizer.json"));
    REQUIRE(made);
    return *std::move(made);
  }();
  return loaded;
}

}  // namespace deepinfer::test
