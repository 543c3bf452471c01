#pragma once

#include <cstdint>
#include <span>

namespace deepinfer::model {

/// Rows in a mapped file.
struct mapped_table {
  const uint8_t* first = nullptr;
  uint32_t row_bytes = 0;
  uint64_t rows = 0;
};

/// Tables below this many bytes are left to the kernel's own read-ahead.
inline constexpr uint64_t prefetched_table_bytes = uint64_t{64} << 20;

/// Asks the kernel to read the pages of these rows, without waiting for them. Advice: nothing
/// happens when it cannot be given.
void prefetch_rows(const mapped_table& table, std::span<const int64_t> rows);

}  // namespace deepinfer::model
