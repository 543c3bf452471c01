#pragma once

#include <cstdint>

namespace deepinfer::kernels {

/// Rows of a growing store: row i lies in pages[i / page_rows], at (i % page_rows) * width floats.
struct paged_rows {
  const float* const* pages;
  uint32_t page_rows;  // > 0
};

}  // namespace deepinfer::kernels
