#pragma once

#include "kernels/api/quant.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// Rows of a growing store in one storage format: row i lies in pages[i / page_rows], at
/// (i % page_rows) * packed_row_bytes(format, width) bytes.
struct paged_rows {
  const uint8_t* const* pages;
  uint32_t page_rows;  // > 0
  row_format format;
};

}  // namespace deepinfer::kernels
