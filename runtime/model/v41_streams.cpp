#include "runtime/model/v41_streams.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

void v41_streams::start(std::span<const int32_t> ids, const float* const* instead) {
  const v41_config& c = ops_.context.config;
  rows_ = static_cast<uint32_t>(ids.size());
  ops_.context.ops.embed(
      ops_.queue, {room(x_, size_t{rows_} * c.streams * c.width), ops_.context.weights.embedding,
                   ids.data(), instead, rows_, c.streams, c.width});
  // The first sublayer reads stream 0 alone.
  pre_.assign(size_t{rows_} * c.streams, 0.0f);
  for (size_t r = 0; r < rows_; ++r) pre_[r * c.streams] = 1;
}

kernels::linear_args v41_streams::mix_product(const hyper_weights& w) {
  return graph_ops::exact_product(room(product_, size_t{rows_} * w.fn.rows), x_.data(), w.fn,
                                  rows_);
}

void v41_streams::read(const std::vector<float>& gain, float* out) {
  const v41_config& c = ops_.context.config;
  ops_.context.ops.hc_collapse(
      ops_.queue, {out, x_.data(), pre_.data(), rows_, c.streams, c.width, ops_.bf16()});
  ops_.norm(out, gain, rows_);
}

void v41_streams::write(const hyper_weights& w, const float* result) {
  const v41_config& c = ops_.context.config;
  const size_t mixes = size_t{rows_} * c.streams;
  ops_.context.ops.hc_mix(
      ops_.queue,
      {room(next_pre_, mixes), room(post_, mixes), room(comb_, mixes * c.streams), x_.data(),
       product_.data(), w.base.data(), w.scale.data(), rows_, c.streams, c.width, c.mix_rounds,
       static_cast<float>(c.norm_epsilon), static_cast<float>(c.mix_epsilon)});
  ops_.context.ops.hc_expand(ops_.queue, {x_.data(), result, post_.data(), comb_.data(), rows_,
                                          c.streams, c.width, ops_.bf16()});
  std::swap(pre_, next_pre_);
}

void v41_streams::keep(std::span<const uint32_t> source) {
  const v41_config& c = ops_.context.config;
  const size_t row = size_t{c.streams} * c.width;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == i) continue;
    std::memcpy(x_.data() + i * row, x_.data() + source[i] * row, row * sizeof(float));
    std::memcpy(pre_.data() + i * c.streams, pre_.data() + size_t{source[i]} * c.streams,
                c.streams * sizeof(float));
  }
  rows_ = static_cast<uint32_t>(source.size());
}

void v41_streams::mean(float* out) {
  const v41_config& c = ops_.context.config;
  ops_.context.ops.hc_collapse(ops_.queue,
                               {out, x_.data(), nullptr, rows_, c.streams, c.width, ops_.bf16()});
}

void v41_streams::collapse(std::span<const uint32_t> rows, float* out) {
  const v41_config& c = ops_.context.config;
  for (size_t i = 0; i < rows.size(); ++i)
    ops_.context.ops.hc_collapse(
        ops_.queue,
        {out + i * c.width, x_.data() + size_t{rows[i]} * c.streams * c.width,
         pre_.data() + size_t{rows[i]} * c.streams, 1, c.streams, c.width, ops_.bf16()});
}

void v41_streams::assign(std::span<const float> x, std::span<const float> pre) {
  std::copy(x.begin(), x.end(), x_.begin());
  std::copy(pre.begin(), pre.end(), pre_.begin());
}

}  // namespace deepinfer::model
