#include "actors/bench/kernel_case.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace deepinfer::bench {
namespace {

using kernels::op_table;
using kernels::rounding;
using kernels::row_format;
using kernels::stream;

constexpr uint32_t hidden = 5120, streams = 4, mixes = (2 + streams) * streams;

/// Rows that an op reads: random numbers from memory that no cache holds, other ones every turn.
/// No random byte of `codes` has bit 3, so none of these floats is NaN or infinite.
const float* rows_at(const kernel_world& world, size_t turn, size_t numbers) {
  const size_t places = std::max<size_t>(world.codes.size() / 4 / numbers, 1);
  return reinterpret_cast<const float*>(world.codes.data()) + turn % places * numbers;
}

/// An op over `rows` rows that reads and writes `bytes`; work(table, queue, turn).
template <class Work>
kernel_case row_case(kernel_world& world, std::string name, double bytes, Work work) {
  kernel_case c;
  c.name = std::move(name);
  c.bytes = bytes;
  c.run = [&world, work](stream& queue, size_t turn) { work(world.ops, queue, turn); };
  c.naive = [&world, work] {
    stream alone;
    work(world.reference, alone, 0);
  };
  return c;
}

void add_norm_and_rope(kernel_world& world, std::vector<kernel_case>& out) {
  for (const uint32_t rows : {1u, 256u})
    out.push_back(row_case(
        world, "rms_norm.5120." + std::to_string(rows), 8.0 * hidden * rows,
        [&world, rows](const op_table& table, stream& queue, size_t turn) {
          table.rms_norm(queue, {world.outputs.data(), rows_at(world, turn, size_t{rows} * hidden),
                                 world.inputs.data(), rows, hidden, 1e-20f, rounding::bf16});
        }));
  constexpr uint32_t heads = 64, head_width = 512, pairs = 32;
  for (const uint32_t rows : {1u, 64u})
    out.push_back(row_case(world, "rope.64x64." + std::to_string(rows),
                           8.0 * rows * heads * pairs * 2,
                           [&world, rows](const op_table& table, stream& queue, size_t) {
                             table.rope(queue, {world.outputs.data(), world.inputs.data(),
                                                world.inputs.data() + 4096, rows, heads, head_width,
                                                pairs, kernels::turn::forward, rounding::bf16});
                           }));
}

void add_hyper(kernel_world& world, std::vector<kernel_case>& out) {
  const auto* post = world.inputs.data();
  for (const uint32_t rows : {1u, 64u}) {
    const std::string suffix = "." + std::to_string(rows);
    const size_t numbers = size_t{rows} * streams * hidden;
    out.push_back(
        row_case(world, "hc_mix" + suffix, 4.0 * static_cast<double>(numbers),
                 [&world, rows, numbers](const op_table& table, stream& queue, size_t turn) {
                   float* to = world.outputs.data();
                   const float* in = world.inputs.data();
                   table.hc_mix(queue, {to, to + rows * streams, to + 2 * rows * streams,
                                        rows_at(world, turn, numbers), in, in + rows * mixes, in,
                                        rows, streams, hidden, 20, 1e-20f, 1e-6f});
                 }));
    out.push_back(
        row_case(world, "hc_collapse" + suffix, 5.0 * rows * hidden * 4,
                 [&world, post, rows, numbers](const op_table& table, stream& queue, size_t turn) {
                   table.hc_collapse(queue, {world.outputs.data(), rows_at(world, turn, numbers),
                                             post, rows, streams, hidden, rounding::bf16});
                 }));
    out.push_back(row_case(world, "hc_expand" + suffix, 9.0 * rows * hidden * 4,
                           [&world, post, rows](const op_table& table, stream& queue, size_t) {
                             table.hc_expand(queue,
                                             {world.outputs.data(), world.inputs.data(), post, post,
                                              rows, streams, hidden, rounding::bf16});
                           }));
  }
  // The Sinkhorn rounds alone: rows so narrow that nothing else counts.
  out.push_back(row_case(world, "hc_mix.sinkhorn.16", 0,
                         [&world](const op_table& table, stream& queue, size_t) {
                           float* to = world.outputs.data();
                           const float* in = world.inputs.data();
                           table.hc_mix(queue, {to, to + 64, to + 128, in, in, in + 16 * mixes, in,
                                                16, streams, 1, 20, 1e-20f, 1e-6f});
                         }));
}

void add_experts(kernel_world& world, std::vector<kernel_case>& out) {
  constexpr uint32_t width = 2304, rows = 256, experts = 384, chosen = 6;
  out.push_back(row_case(world, "swiglu.2304.256", 12.0 * width * rows,
                         [&world](const op_table& table, stream& queue, size_t turn) {
                           const float* in = rows_at(world, turn, 2 * size_t{rows} * width);
                           table.swiglu(queue, {world.outputs.data(), in, in + rows * width,
                                                nullptr, rows, width, 10, rounding::bf16});
                         }));
  for (const uint32_t routed : {1u, 256u})
    out.push_back(row_case(
        world, "route.384." + std::to_string(routed), 4.0 * experts * routed,
        [&world, routed](const op_table& table, stream& queue, size_t) {
          auto* expert = reinterpret_cast<int32_t*>(world.outputs.data());
          table.route(queue, {expert, world.outputs.data() + routed * chosen, world.inputs.data(),
                              world.inputs.data() + routed * experts, nullptr, nullptr, routed,
                              experts, chosen, kernels::gate_score::sqrt_softplus, true, 1, 1.5f});
        }));
}

void add_formats(kernel_world& world, std::vector<kernel_case>& out) {
  constexpr uint32_t rows = 256;
  struct quantiser {
    const char* name;
    row_format format;
    uint32_t width;
  };
  for (const quantiser& q : {quantiser{"fp8_32.5120", row_format::fp8_32, hidden},
                             quantiser{"fp4_32.4096", row_format::fp4_32, 4096},
                             quantiser{"fp4_16.512", row_format::fp4_16, 512}}) {
    const size_t numbers = size_t{rows} * q.width;
    const auto packed = static_cast<double>(rows * packed_row_bytes(q.format, q.width));
    out.push_back(
        row_case(world, std::string{"fake_quant."} + q.name, 8.0 * static_cast<double>(numbers),
                 [&world, q, numbers](const op_table& table, stream& queue, size_t turn) {
                   table.fake_quant(queue, {world.outputs.data(), rows_at(world, turn, numbers),
                                            rows, q.width, q.format});
                 }));
    out.push_back(row_case(
        world, std::string{"pack_rows."} + q.name, 4.0 * static_cast<double>(numbers) + packed,
        [&world, q, numbers](const op_table& table, stream& queue, size_t turn) {
          table.pack_rows(queue, {reinterpret_cast<uint8_t*>(world.outputs.data()),
                                  rows_at(world, turn, numbers), rows, q.width, q.format});
        }));
    out.push_back(row_case(
        world, std::string{"unpack_rows."} + q.name, 4.0 * static_cast<double>(numbers) + packed,
        [&world, q, numbers](const op_table& table, stream& queue, size_t turn) {
          const auto* in = reinterpret_cast<const uint8_t*>(rows_at(world, turn, numbers));
          table.unpack_rows(queue, {world.outputs.data(), in, rows, q.width, q.format});
        }));
  }
}

}  // namespace

void add_row_cases(kernel_world& world, std::vector<kernel_case>& out) {
  add_norm_and_rope(world, out);
  add_hyper(world, out);
  add_experts(world, out);
  add_formats(world, out);
}

}  // namespace deepinfer::bench
