#include "runtime/model/vision_encoder.hpp"

#include "runtime/model/scratch.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace deepinfer::model {
namespace {

constexpr float norm_epsilon = 1e-6f;  // the text model has another one

// Patches whose wide intermediate rows exist at the same time.
constexpr uint32_t chunk_patches = 512;

// base^(-2j / (head width / 2)), with the roundings to fp32 where the released model has them.
std::vector<float> make_frequencies(const vision_config& c) {
  const uint32_t turned = c.head_width() / 2;
  std::vector<float> out(turned / 2);
  for (uint32_t j = 0; j < out.size(); ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(turned);
    const double base = static_cast<float>(c.rope_base);
    out[j] = 1.0f / static_cast<float>(std::pow(base, double{exponent}));
  }
  return out;
}

uint32_t divided_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

}  // namespace

image::fit_rules fit_rules_of(const vision_config& config) {
  return {.patch = config.patch,
          .merge = config.downsample,
          .max_tokens = config.max_image_tokens,
          .min_pixels = static_cast<uint32_t>(config.min_pixels),
          .max_wh_ratio = config.max_aspect};
}

vision_encoder::vision_encoder(const vision_config& config,
                               const vision_weights& weights,
                               const kernels::op_table& ops,
                               kernels::stream queue,
                               kernels::rounding round)
    : config_(config),
      weights_(weights),
      ops_(ops),
      queue_(queue),
      round_(round),
      frequency_(make_frequencies(config)) {}

result<void> vision_encoder::check(const image::image_patches& patches) const {
  const uint64_t count = uint64_t{patches.rows} * patches.columns;
  if (patches.side != config_.patch || count == 0 ||
      patches.values.size() != count * config_.patch_values())
    return failure{error_code::invalid_argument,
                   "image: the vision tower takes patches of " + std::to_string(config_.patch) +
                       " pixels a side; prepare the image with this model's fit_rules_of"};
  const uint64_t rows = divided_up(patches.rows, config_.downsample);
  const uint64_t columns = divided_up(patches.columns, config_.downsample);
  if (count > kernels::most_full_attention_rows ||
      rows * (columns + 1) + 2 > config_.max_image_tokens)
    return failure{error_code::too_large,
                   "image: " + std::to_string(count) + " patches cost more than " +
                       std::to_string(config_.max_image_tokens) +
                       " tokens; fit the image with this model's fit_rules_of"};
  return {};
}

vision_encoder::grid vision_encoder::token_grid(grid patches) const {
  return {divided_up(patches.rows, config_.downsample),
          divided_up(patches.columns, config_.downsample)};
}

kernels::linear_args vision_encoder::product(float* out,
                                             const float* in,
                                             const kernels::weight_matrix& weight,
                                             uint32_t rows) const {
  return {out, in, weight, nullptr, rows, weight.width, weight.rows, round_};
}

void vision_encoder::linear(float* out,
                            const float* in,
                            const vision_linear& layer,
                            uint32_t rows) {
  kernels::linear_args item = product(out, in, layer.weight, rows);
  item.bias = layer.bias.data();
  ops_.linear(queue_, {&item, 1});
}

void vision_encoder::norm(float* out,
                          const float* in,
                          const std::vector<float>& gain,
                          uint32_t rows) {
  ops_.rms_norm(queue_, {out, in, gain.data(), rows, config_.width, norm_epsilon, round_});
}

void vision_encoder::add(float* to, const float* what, uint64_t count) {
  ops_.add(queue_, {to, to, what, count, round_});
}

void vision_encoder::embed_patches(const image::image_patches& patches) {
  const uint32_t count = patches.rows * patches.columns, wide = config_.patch_values();
  for (uint32_t first = 0; first < count; first += chunk_patches) {
    const uint32_t rows = std::min(chunk_patches, count - first);
    const auto* stored =
        reinterpret_cast<const uint8_t*>(patches.values.data() + size_t{first} * wide);
    float* pixels = room(pixels_, size_t{rows} * wide);
    ops_.dequant(queue_, {pixels, {stored, nullptr, rows, wide, kernels::weight_format::bf16}});
    linear(x_.data() + size_t{first} * config_.width, pixels, weights_.patch, rows);
  }
}

void vision_encoder::make_angles(grid g) {
  const uint32_t positions = std::max(g.rows, g.columns);
  const auto pairs = static_cast<uint32_t>(frequency_.size());
  std::vector<uint32_t> position(positions);
  for (uint32_t i = 0; i < positions; ++i) position[i] = i;
  const size_t count = size_t{positions} * pairs;
  ops_.rope_table(queue_, {room(cos_, count), room(sin_, count), position.data(), frequency_.data(),
                           positions, pairs});
  ops_.sync(queue_);  // `position` ends here
}

void vision_encoder::attend(const vision_block& block, grid g) {
  const uint32_t width = config_.width, count = g.patches(), heads = config_.heads;
  const uint32_t stride = 3 * width, head_width = config_.head_width();
  norm(normed_.data(), x_.data(), block.attention_norm, count);
  float* q = projected_.data();
  linear(q, normed_.data(), block.query_key_value, count);
  // Queries and keys lie side by side.
  ops_.grid_rope(queue_, {q, cos_.data(), sin_.data(), g.rows, g.columns, 2 * heads, head_width,
                          stride, round_});
  ops_.full_attention(
      queue_, {normed_.data(), q, q + width, q + 2 * width, key_columns_.data(), count, heads,
               head_width, stride, 1 / std::sqrt(static_cast<float>(head_width)), round_});
  linear(branch_.data(), normed_.data(), block.output, count);
  add(x_.data(), branch_.data(), uint64_t{count} * width);
}

void vision_encoder::mlp(const vision_block& block, uint32_t patches) {
  const uint32_t width = config_.width, inner = config_.inner_width;
  norm(normed_.data(), x_.data(), block.mlp_norm, patches);
  for (uint32_t first = 0; first < patches; first += chunk_patches) {
    const uint32_t rows = std::min(chunk_patches, patches - first);
    const float* in = normed_.data() + size_t{first} * width;
    float* gate = room(gate_, size_t{rows} * inner);
    float* up = room(up_, size_t{rows} * inner);
    const kernels::linear_args widened[] = {product(gate, in, block.gate, rows),
                                            product(up, in, block.up, rows)};
    ops_.linear(queue_, {widened, 2});
    ops_.swiglu(queue_, {gate, gate, up, nullptr, rows, inner, 0, round_});
    const kernels::linear_args narrowed =
        product(branch_.data() + size_t{first} * width, gate, block.down, rows);
    ops_.linear(queue_, {&narrowed, 1});
  }
  add(x_.data(), branch_.data(), uint64_t{patches} * width);
}

std::vector<float> vision_encoder::align(grid g) {
  norm(normed_.data(), x_.data(), weights_.norm, g.patches());
  const uint32_t tokens = token_grid(g).patches(), width = weights_.text_width();
  float* cells = room(cells_, size_t{tokens} * config_.cell_width());
  float* hidden = room(hidden_, size_t{tokens} * width);
  ops_.merge_cells(queue_,
                   {cells, normed_.data(), g.rows, g.columns, config_.downsample, config_.width});
  linear(hidden, cells, weights_.aligner_in, tokens);
  ops_.gelu(queue_, {hidden, hidden, uint64_t{tokens} * width, round_});
  std::vector<float> out(size_t{tokens} * width);
  linear(out.data(), hidden, weights_.aligner_out, tokens);
  return out;
}

result<std::vector<float>> vision_encoder::encode(const image::image_patches& patches) {
  if (auto fits = check(patches); !fits) return fits.error();
  const grid g{patches.rows, patches.columns};
  const size_t cells = size_t{g.patches()} * config_.width;
  for (std::vector<float>* memory : {&x_, &normed_, &branch_}) room(*memory, cells);
  room(projected_, 3 * cells);
  room(key_columns_, kernels::key_column_floats(g.patches(), config_.heads, config_.head_width()));
  embed_patches(patches);
  make_angles(g);
  for (const vision_block& block : weights_.blocks) {
    attend(block, g);
    mlp(block, g.patches());
  }
  std::vector<float> out = align(g);
  if (ops_.sync(queue_) != kernels::stream_status::ok)
    return failure{error_code::internal, "the device failed while it encoded an image"};
  if (!std::ranges::all_of(out, [](float v) { return std::isfinite(v); }))
    return failure{error_code::corrupt,
                   "image: the vision tower gave a number that is not finite; check the weights "
                   "with 'deepinfer model verify'"};
  return out;
}

result<image_span> vision_encoder::encode_span(const image::image_patches& patches) {
  auto encoded = encode(patches);
  if (!encoded) return encoded.error();
  const grid tokens = token_grid({patches.rows, patches.columns});
  const size_t line = size_t{tokens.columns} * weights_.text_width();
  image_span span;
  span.rows.reserve(encoded->size() + (size_t{tokens.rows} + 2) * weights_.text_width());
  const auto put = [&span](image_role role, uint32_t count, std::span<const float> rows) {
    span.roles.insert(span.roles.end(), count, static_cast<int8_t>(role));
    span.rows.insert(span.rows.end(), rows.begin(), rows.end());
  };
  put(image_role::start, 1, weights_.start);
  for (uint32_t row = 0; row < tokens.rows; ++row) {
    put(image_role::image, tokens.columns, std::span(*encoded).subspan(row * line, line));
    put(image_role::newline, 1, weights_.newline);
  }
  put(image_role::end, 1, weights_.end);
  return span;
}

}  // namespace deepinfer::model
