#include "runtime/model/v41_sequence.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

float* row_pages::add() {
  if (rows_ % page_rows == 0) {
    pages_.push_back(std::make_unique<float[]>(size_t{page_rows} * width_));
    view_.push_back(pages_.back().get());
  }
  float* row = pages_.back().get() + size_t{rows_ % page_rows} * width_;
  ++rows_;
  return row;
}

void window_ring::write(uint32_t position, const float* row) {
  const size_t slot = position % slots();
  std::memcpy(rows_.data() + slot * width_, row, width_ * sizeof(float));
  tag_[slot] = position;
}

const float* window_ring::at(uint32_t position) const {
  const size_t slot = position % slots();
  return tag_[slot] == int64_t{position} ? rows_.data() + slot * width_ : nullptr;
}

v41_sequence::v41_sequence(const v41_config& config)
    : rings(config.layers, window_ring(config.head_width, config.window + ring_slack)),
      look_back(config.engram.longest_ngram - 1, -1) {
  for (const uint32_t layer : config.kv_sources)
    sources.push_back(
        {config.ratios[layer], row_pages(config.head_width), row_pages(config.index_width), {}});
}

uint64_t v41_sequence::state_bytes() const {
  uint64_t sum = look_back.size() * sizeof(int64_t);
  for (const window_ring& ring : rings) sum += ring.bytes();
  for (const kv_source_state& s : sources)
    sum += s.entries.bytes() + s.index_keys.bytes() + s.pending.size() * sizeof(float);
  return sum;
}

uint64_t state_bytes_per_token(const v41_config& config) {
  uint64_t sum = 0;
  for (const uint32_t layer : config.kv_sources) {
    const uint64_t row = sizeof(float) * (uint64_t{config.head_width} + config.index_width);
    sum += (row + config.ratios[layer] - 1) / config.ratios[layer];
  }
  return sum;
}

uint64_t state_bytes_fixed(const v41_config& config) {
  const uint64_t row = sizeof(float) * uint64_t{config.head_width};
  uint64_t sum = config.layers * (config.window + ring_slack) * (row + sizeof(int64_t));
  for (const uint32_t layer : config.kv_sources) sum += 2 * row * (config.ratios[layer] - 1);
  return sum + (config.engram.longest_ngram - 1) * sizeof(int64_t);
}

}  // namespace deepinfer::model
