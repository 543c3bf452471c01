#pragma once

#include <filesystem>

namespace deepinfer {

/// The model that the program was built beside: build/actors/deepinfer -> examples/models/tiny-v41.
/// Empty if it is not there (an installed program has none).
[[nodiscard]] std::filesystem::path bundled_model();

}  // namespace deepinfer
