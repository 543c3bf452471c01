#include "actors/bench/kernel_case.hpp"

#include <algorithm>
#include <memory>

namespace deepinfer::bench {
namespace {

using kernels::weight_format;

struct product_shape {
  const char* name;
  weight_format format;
  uint32_t rows;
  uint32_t outputs;
  uint32_t width;
  uint32_t count = 1;  ///< products with weights of their own in one batch
};

// Shapes of the released model. One row reads its weights once: bound by memory. 256 rows of 1024 x
// 1024 lie in the caches: bound by multiply-adds.
constexpr product_shape shapes[] = {
    {"expert_up.fp4.1", weight_format::fp4, 1, 4608, 5120},
    {"expert_down.fp4.1", weight_format::fp4, 1, 5120, 2304},
    {"latent_in.fp8.1", weight_format::fp8, 1, 1792, 5120},
    {"query_up.fp8.1", weight_format::fp8, 1, 32768, 1280},
    {"out_down.fp8.1", weight_format::fp8, 1, 5120, 8192},
    {"head.bf16.1", weight_format::bf16, 1, 8192, 5120},
    {"square.f32.1", weight_format::f32, 1, 2048, 5120},
    {"expert_up.fp4.2", weight_format::fp4, 2, 4608, 5120},
    {"expert_up.fp4.4", weight_format::fp4, 4, 4608, 5120},
    {"expert_up.fp4.8", weight_format::fp4, 8, 4608, 5120},
    {"expert_up.fp4.32", weight_format::fp4, 32, 4608, 5120},
    {"out_down.fp8.8", weight_format::fp8, 8, 5120, 8192},
    {"out_down.fp8.32", weight_format::fp8, 32, 5120, 8192},
    {"head.bf16.8", weight_format::bf16, 8, 8192, 5120},
    {"experts_of_a_row.fp4.1x6", weight_format::fp4, 1, 4608, 5120, 6},
    {"experts_of_8_rows.fp4.2x20", weight_format::fp4, 2, 2304, 1024, 20},
    {"square.f32.256", weight_format::f32, 256, 1024, 1024},
    {"square.bf16.256", weight_format::bf16, 256, 1024, 1024},
    {"square.fp8.256", weight_format::fp8, 256, 1024, 1024},
    {"square.fp4.256", weight_format::fp4, 256, 1024, 1024},
    {"latent_in.fp8.256", weight_format::fp8, 256, 1792, 5120},
    {"expert_up.fp4.256", weight_format::fp4, 256, 1024, 5120},
};

double stored_bytes(const product_shape& s) {
  const kernels::weight_matrix w{nullptr, nullptr, s.outputs, s.width, s.format};
  return static_cast<double>(kernels::row_bytes(w) * s.outputs +
                             kernels::scale_offset(w, s.outputs)) *
         s.count;
}

/// Products whose weights begin elsewhere at every turn.
struct turning_products {
  kernel_world& world;
  product_shape shape;
  std::vector<kernels::linear_args> items;

  void point_at(size_t turn) {
    kernels::weight_matrix w{nullptr, world.scales.data(), shape.outputs, shape.width,
                             shape.format};
    const size_t bytes = kernels::row_bytes(w) * shape.outputs;
    const bool is_plain = w.format == weight_format::f32 || w.format == weight_format::bf16;
    // Any bytes are codes, but not any are sensible floats.
    const uint8_t* from = is_plain && shape.rows > 32
                              ? reinterpret_cast<const uint8_t*>(world.inputs.data())
                              : world.codes.data();
    const size_t places =
        from == world.codes.data() ? std::max<size_t>(world.codes.size() / bytes, 1) : 1;
    for (uint32_t i = 0; i < shape.count; ++i) {
      w.values = from + (turn * shape.count + i) % places * bytes;
      items[i] = {world.outputs.data() + size_t{i} * shape.rows * shape.outputs,
                  world.inputs.data(),
                  w,
                  nullptr,
                  shape.rows,
                  shape.width,
                  shape.outputs,
                  kernels::rounding::none};
    }
  }
};

}  // namespace

void add_linear_cases(kernel_world& world, std::vector<kernel_case>& out) {
  for (const product_shape& shape : shapes) {
    if (stored_bytes(shape) > static_cast<double>(world.codes.size())) continue;  // smoke
    auto products = std::make_shared<turning_products>(
        turning_products{world, shape, std::vector<kernels::linear_args>(shape.count)});
    kernel_case c;
    c.name = std::string{"linear."} + shape.name;
    c.bytes = stored_bytes(shape);
    c.flops = 2.0 * shape.rows * shape.outputs * shape.width * shape.count;
    c.run = [products](kernels::stream& queue, size_t turn) {
      products->point_at(turn);
      products->world.ops.linear(queue, {products->items.data(), products->shape.count});
    };
    if (shape.rows == 1 && shape.count == 1 && shape.outputs <= 5120)
      c.naive = [products] {
        products->point_at(0);
        kernels::stream alone;
        products->world.reference.linear(alone, {products->items.data(), 1});
      };
    out.push_back(std::move(c));
  }
}

}  // namespace deepinfer::bench
