#include "runtime/model/vision_weights.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace deepinfer::model {
namespace {

/// A matrix shape, so that rows and width cannot be swapped by accident.
struct shape {
  uint64_t rows;
  uint64_t width;
};

// Finds tensors one after another; the first failure is kept and makes the rest empty, so that the
// list of tensors below reads as a list. All of them are bf16.
class tower_reader {
public:
  tower_reader(const checkpoint& from, const kernels::op_table& ops) : from_(from), ops_(ops) {}

  kernels::weight_matrix matrix(const std::string& name, shape wanted) {
    const tensor_view* tensor = need(name, {wanted.rows, wanted.width});
    if (tensor == nullptr) return {};
    mapped_bytes += tensor->bytes.size();
    return {octets(*tensor), nullptr, static_cast<uint32_t>(wanted.rows),
            static_cast<uint32_t>(wanted.width), kernels::weight_format::bf16};
  }
  vision_linear biased(const std::string& name, shape wanted) {
    return {matrix(name + ".weight", wanted), vector(name + ".bias", wanted.rows)};
  }
  std::vector<float> vector(const std::string& name, uint64_t width) {
    const tensor_view* tensor = need(name, {width});
    if (tensor == nullptr) return {};
    std::vector<float> out(width);
    resident_bytes += width * sizeof(float);
    ops_.dequant(queue_, {out.data(),
                          {octets(*tensor), nullptr, 1, static_cast<uint32_t>(width),
                           kernels::weight_format::bf16}});
    if (!std::ranges::all_of(out, [](float v) { return std::isfinite(v); }))
      trouble = failure{error_code::corrupt, from_.name() + ": '" + name +
                                                 "' holds a number that is not finite; fetch the "
                                                 "checkpoint again"};
    return out;
  }

  std::optional<failure> trouble;
  uint64_t mapped_bytes = 0;
  uint64_t resident_bytes = 0;

private:
  static const uint8_t* octets(const tensor_view& tensor) {
    return reinterpret_cast<const uint8_t*>(tensor.bytes.data());
  }
  const tensor_view* need(const std::string& name, std::initializer_list<uint64_t> wanted) {
    if (trouble) return nullptr;
    auto found = from_.need(name, tensor_type::bf16, wanted);
    if (found) return *found;
    trouble = failure{found.error().code, from_.name() + ": " + found.error().detail};
    return nullptr;
  }

  const checkpoint& from_;
  const kernels::op_table& ops_;
  kernels::stream queue_;
};

vision_block read_block(tower_reader& in, const vision_config& c, uint32_t number) {
  const std::string p = "vision.blocks." + std::to_string(number) + ".";
  vision_block b;
  b.attention_norm = in.vector(p + "norm1.weight", c.width);
  b.mlp_norm = in.vector(p + "norm2.weight", c.width);
  b.query_key_value = in.biased(p + "attn.wqkv", {uint64_t{3} * c.width, c.width});
  b.output = in.biased(p + "attn.wo", {c.width, c.width});
  const kernels::weight_matrix both =
      in.matrix(p + "mlp.w1.weight", {uint64_t{2} * c.inner_width, c.width});
  b.down = in.matrix(p + "mlp.w2.weight", {c.width, c.inner_width});
  if (in.trouble) return b;
  b.gate = kernels::row_slice(both, 0, c.inner_width);
  b.up = kernels::row_slice(both, c.inner_width, c.inner_width);
  return b;
}

}  // namespace

result<vision_weights> load_vision_weights(const checkpoint& from,
                                           const vision_config& config,
                                           uint32_t text_width,
                                           const kernels::op_table& ops) {
  tower_reader in(from, ops);
  vision_weights w;
  w.patch = in.biased("vision.patch_embed.proj", {config.width, config.patch_values()});
  for (uint32_t b = 0; b < config.layers && !in.trouble; ++b)
    w.blocks.push_back(read_block(in, config, b));
  w.norm = in.vector("vision.norm.weight", config.width);
  w.aligner_in = in.biased("aligner.w1", {text_width, config.cell_width()});
  w.aligner_out = in.biased("aligner.w2", {text_width, text_width});
  w.start = in.vector("image_start", text_width);
  w.newline = in.vector("image_newline", text_width);
  w.end = in.vector("image_end", text_width);
  if (in.trouble) return *in.trouble;
  w.mapped_bytes = in.mapped_bytes;
  w.resident_bytes = in.resident_bytes;
  return w;
}

}  // namespace deepinfer::model
