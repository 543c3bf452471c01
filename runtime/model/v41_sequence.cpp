#include "runtime/model/v41_sequence.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

using kernels::packed_row_bytes;
using kernels::row_format;

state_formats formats_of(numeric_level level) {
  if (level == numeric_level::L0) return {row_format::f32, row_format::f32, row_format::f32};
  return {row_format::fp8_32, row_format::fp4_16, row_format::fp4_32};
}

uint8_t* row_pages::add() {
  grow(1);
  const uint32_t row = rows_ - 1;
  return pages_[row / page_rows].get() + size_t{row % page_rows} * row_bytes_;
}

void row_pages::grow(uint32_t rows) {
  rows_ += rows;
  while (pages_.size() * page_rows < rows_) {
    pages_.push_back(std::make_shared_for_overwrite<uint8_t[]>(page_rows * row_bytes_));
    view_.push_back(pages_.back().get());
  }
}

void row_pages::blank() {
  const page zeros = std::make_shared<uint8_t[]>(page_rows * row_bytes_);
  std::ranges::fill(pages_, zeros);
  std::ranges::fill(view_, zeros.get());
}

void row_pages::copy_out(uint32_t first, uint32_t last, std::byte* to) const {
  for (uint32_t at = first; at < last;) {
    const uint32_t run = std::min(last - at, page_rows - at % page_rows);
    std::memcpy(to, row(at), run * row_bytes_);
    to += run * row_bytes_;
    at += run;
  }
}

void row_pages::truncate(uint32_t rows) {
  rows_ = std::min(rows_, rows);
}

void window_ring::write(uint32_t position, const uint8_t* row) {
  const size_t slot = position % slots();
  std::memcpy(rows_.data() + slot * row_bytes_, row, row_bytes_);
  tag_[slot] = position;
}

const uint8_t* window_ring::at(uint32_t position) const {
  const size_t slot = position % slots();
  return tag_[slot] == int64_t{position} ? rows_.data() + slot * row_bytes_ : nullptr;
}

uint32_t window_ring::held_from(uint32_t end, uint32_t most) const {
  uint32_t first = end;
  while (first > 0 && end - first < most && at(first - 1) != nullptr) --first;
  return first;
}

void window_ring::drop_from(uint32_t end) {
  for (int64_t& tag : tag_)
    if (tag >= int64_t{end}) tag = -1;
}

v41_sequence::v41_sequence(const v41_config& config, numeric_level level)
    : look_back(config.engram.longest_ngram - 1 + ring_slack, -1), head_width_(config.head_width) {
  const state_formats formats = formats_of(level);
  const size_t ring_row = packed_row_bytes(formats.window, config.head_width);
  const uint32_t slots = config.window + ring_slack;
  rings.assign(config.layers, window_ring(ring_row, slots));
  draft_rings.assign(config.drafter.stages, window_ring(ring_row, slots));
  for (const uint32_t layer : config.kv_sources)
    sources.push_back({config.ratios[layer],
                       row_pages(formats.entry, config.head_width),
                       row_pages(formats.index_key, config.index_width),
                       {}});
}

uint64_t v41_sequence::state_bytes() const {
  uint64_t sum = look_back.size() * sizeof(int64_t);
  for (const window_ring& ring : rings) sum += ring.bytes();
  for (const window_ring& ring : draft_rings) sum += ring.bytes();
  for (const kv_source_state& s : sources)
    sum += s.entries.bytes() + s.index_keys.bytes() + s.pending.size() * sizeof(float);
  return sum;
}

void v41_sequence::roll_back(uint32_t tokens) {
  const uint32_t dropped = computed - tokens;
  DEEPINFER_CHECK(tokens <= computed && dropped <= ring_slack);
  if (dropped == 0) return;
  for (window_ring& ring : rings) ring.drop_from(tokens);
  for (window_ring& ring : draft_rings) ring.drop_from(tokens);
  for (kv_source_state& s : sources) {
    s.entries.truncate(tokens / s.ratio);
    s.index_keys.truncate(tokens / s.ratio);
    const size_t rows = size_t{2} * head_width_ * dropped;
    if (s.ratio > 1) s.pending.resize(s.pending.size() - std::min(s.pending.size(), rows));
  }
  look_back.erase(look_back.begin(), look_back.begin() + dropped);
  look_back.insert(look_back.end(), dropped, -1);
  computed = tokens;
}

bool v41_sequence::await_entries(uint32_t number, swap_patience& patience) {
  if (lost || landing == nullptr) return !lost;
  if (landing->gate.pass(number, patience)) {
    if (number + 1 == sources.size()) landing = nullptr;
    return true;
  }
  // The loader may be writing yet, and rows of a step are computed to its end: on other memory.
  for (kv_source_state& source : sources)
    for (row_pages* rows : {&source.entries, &source.index_keys}) rows->blank();
  lost = true;
  landing = nullptr;
  return false;
}

namespace {

uint64_t entry_bytes(const v41_config& config, numeric_level level) {
  const state_formats formats = formats_of(level);
  return packed_row_bytes(formats.entry, config.head_width) +
         packed_row_bytes(formats.index_key, config.index_width);
}

}  // namespace

uint64_t state_bytes_per_token(const v41_config& config, numeric_level level) {
  uint64_t entries = 0;  // per block
  for (const uint32_t layer : config.kv_sources)
    entries += (block_tokens + config.ratios[layer] - 1) / config.ratios[layer];
  return (entries * entry_bytes(config, level) + block_tokens - 1) / block_tokens;
}

uint64_t state_bytes_fixed(const v41_config& config, numeric_level level) {
  const uint64_t row = packed_row_bytes(formats_of(level).window, config.head_width);
  const uint64_t ring = (config.window + ring_slack) * (row + sizeof(int64_t));
  uint64_t sum = (config.layers + config.drafter.stages) * ring;
  for (const uint32_t layer : config.kv_sources)
    if (config.ratios[layer] > 1)
      sum += 2 * sizeof(float) * config.head_width * (config.ratios[layer] - 1 + ring_slack);
  return sum + (config.engram.longest_ngram - 1 + ring_slack) * sizeof(int64_t);
}

uint64_t block_bytes(const v41_config& config, numeric_level level, uint32_t number) {
  uint64_t entries = 0;
  for (const uint32_t layer : config.kv_sources) {
    const uint32_t ratio = config.ratios[layer];
    entries += (number + 1) * block_tokens / ratio - number * block_tokens / ratio;
  }
  return entries * entry_bytes(config, level);
}

}  // namespace deepinfer::model
