#include "kernels/cpu/linear_plan.hpp"

#include <algorithm>

namespace deepinfer::kernels::cpu {
namespace {

// In multiply-adds of sixteen lanes, about a nanosecond for three. Decoding costs like two rows.
double cost(const linear_args& a, double outputs, double rows) {
  return outputs * a.weight.width / 16 * (rows + 2);
}

constexpr uint32_t smallest_unit = 32;  // outputs: one row of fp8 scales
// About 15 us: against the microsecond of a hand-over, and what a unit does with its inputs first.
constexpr double worth_a_unit = 48e3;
constexpr double worth_a_hand_over = 16e3;  // of a whole batch

}  // namespace

linear_plan::linear_plan(const linear_batch_args& batch, uint32_t threads) {
  double total = 0;
  for (uint32_t i = 0; i < batch.count; ++i)
    total += cost(batch.items[i], batch.items[i].weight.rows, batch.items[i].rows);
  // Every thread gets several units, so that they end together.
  const double enough = std::min(worth_a_unit, total / (8 * threads));
  const double most = total / (4 * threads);
  for (uint32_t i = 0; i < batch.count; ++i) {
    const linear_args& a = batch.items[i];
    if (a.rows == 0 || a.weight.rows == 0) continue;
    share s{&a, 0, smallest_unit, 1, 0};
    s.row_blocks = static_cast<uint32_t>((a.rows + linear_row_block - 1) / linear_row_block);
    const double rows = static_cast<double>(a.rows) / s.row_blocks;
    while (s.outputs < a.weight.rows &&
           (cost(a, s.outputs, rows) < enough ||
            (rows > 2 && s.outputs < linear_outputs && cost(a, 2 * s.outputs, rows) <= most)))
      s.outputs *= 2;
    s.unit_cost = cost(a, s.outputs, rows);
    shares_[count_++] = s;
  }
  std::sort(shares_, shares_ + count_, [](const share& x, const share& y) {
    return x.unit_cost != y.unit_cost ? x.unit_cost > y.unit_cost : x.args < y.args;
  });
  for (share* s = shares_; s != shares_ + count_; ++s) {
    s->first_unit = units_;
    units_ += size_t{s->row_blocks} * ((s->args->weight.rows + s->outputs - 1) / s->outputs);
  }
  if (total < worth_a_hand_over) grain_ = std::max<size_t>(units_, 1);
}

linear_unit linear_plan::unit(size_t index) const {
  const share* s = std::upper_bound(shares_, shares_ + count_, index,
                                    [](size_t i, const share& x) { return i < x.first_unit; }) -
                   1;
  const linear_args& a = *s->args;
  const size_t inside = index - s->first_unit, block = inside % s->row_blocks;
  const size_t first = inside / s->row_blocks * s->outputs;
  return {&a, first, std::min<size_t>(first + s->outputs, a.weight.rows),
          block * a.rows / s->row_blocks, (block + 1) * a.rows / s->row_blocks};
}

}  // namespace deepinfer::kernels::cpu
