#pragma once

#include "kernels/cpu/parallel.hpp"

#include <algorithm>

/// Ops whose rows are independent and whose work is some passes over memory.
namespace deepinfer::kernels::cpu {

/// Numbers touched that make a hand-over to another thread (about 1 us) worth it, and those of the
/// smallest piece.
inline constexpr size_t worth_a_thread = 32 * 1024;
inline constexpr size_t smallest_piece = 8 * 1024;

/// work(worker, first, last) over pieces of the rows; `row_numbers` are those a row reads, each
/// counted as often as its work is slower than a copy.
template <class Work>
void by_rows(stream& queue, size_t rows, size_t row_numbers, const Work& work) {
  if (rows == 0) return;
  const size_t per_row = std::max<size_t>(row_numbers, 1);
  const size_t grain = rows * per_row < worth_a_thread
                           ? rows
                           : std::max<size_t>(1, (smallest_piece + per_row - 1) / per_row);
  parallel(queue, rows, grain, work);
}

}  // namespace deepinfer::kernels::cpu
