#pragma once

#include "tests/kernel/backend.hpp"

#include <cstdint>
#include <vector>

/// Random rows in a storage format, cut into pages as the caches are.
namespace deepinfer::test {

struct packed_store {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<const uint8_t*> pages;
  uint32_t page_rows;
  kernels::row_format format;

  packed_store(rng& random,
               uint32_t count,
               uint32_t width,
               uint32_t rows_per_page,
               kernels::row_format stored)
      : page_rows(rows_per_page), format(stored) {
    kernels::stream queue;
    const kernels::op_table table = reference();
    for (uint32_t first = 0; first < count; first += rows_per_page) {
      const auto rows = random_floats(random, size_t{rows_per_page} * width, 3);
      memory.emplace_back(rows_per_page * packed_row_bytes(stored, width));
      table.pack_rows(queue, {memory.back().data(), rows.data(), rows_per_page, width, stored});
    }
    for (const auto& page : memory) pages.push_back(page.data());
  }
  [[nodiscard]] kernels::paged_rows view() const { return {pages.data(), page_rows, format}; }
};

}  // namespace deepinfer::test
