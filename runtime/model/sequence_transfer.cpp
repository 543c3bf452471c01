#include "runtime/model/v41_sequence.hpp"

#include <algorithm>
#include <cstring>
#include <string>

// Export and import of a sequence; the byte layout stands in the header.

namespace deepinfer::model {
namespace {

struct entry_range {
  uint32_t first;
  uint32_t last;  ///< exclusive
};

// Entries of a source that tokens [first, last) complete: entry j is complete with token
// (j + 1) * ratio - 1.
entry_range completed_by(uint32_t first_token, uint32_t last_token, uint32_t ratio) {
  return {first_token / ratio, last_token / ratio};
}

void put_bytes(std::vector<std::byte>& out, const void* from, size_t count) {
  const auto* raw = static_cast<const std::byte*>(from);
  out.insert(out.end(), raw, raw + count);
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  put_bytes(out, &value, sizeof value);
}

// Reads what `put` wrote; a reader that ran over its end stays failed.
class part_reader {
public:
  explicit part_reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool take(void* to, size_t count) {
    if (count > rest_.size()) failed_ = true;
    if (failed_) return false;
    if (count != 0) std::memcpy(to, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return true;
  }
  template <class T>
  T number() {
    T value{};
    take(&value, sizeof value);
    return value;
  }
  [[nodiscard]] bool finished() const { return !failed_ && rest_.empty(); }

private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

std::vector<std::byte> block_bytes(const v41_sequence& from, uint32_t first, uint32_t last) {
  std::vector<std::byte> out;
  for (const kv_source_state& source : from.sources) {
    const entry_range range = completed_by(first, last, source.ratio);
    for (const row_pages* rows : {&source.entries, &source.index_keys})
      for (uint32_t j = range.first; j < range.last; ++j)
        put_bytes(out, rows->row(j), rows->width() * sizeof(float));
  }
  return out;
}

bool read_block(std::span<const std::byte> bytes, uint32_t first, uint32_t last, v41_sequence& to) {
  part_reader in(bytes);
  for (kv_source_state& source : to.sources) {
    const entry_range range = completed_by(first, last, source.ratio);
    for (row_pages* rows : {&source.entries, &source.index_keys})
      for (uint32_t j = range.first; j < range.last; ++j)
        if (!in.take(rows->add(), rows->width() * sizeof(float))) return false;
  }
  return in.finished();
}

uint32_t first_ring_position(uint32_t tokens, const v41_config& config) {
  return tokens - std::min(tokens, config.window + ring_slack);
}

std::vector<std::byte> ring_bytes(const v41_sequence& from, const v41_config& config) {
  std::vector<std::byte> out;
  for (const window_ring& ring : from.rings)
    for (uint32_t p = first_ring_position(from.computed, config); p < from.computed; ++p) {
      const float* row = ring.at(p);
      DEEPINFER_CHECK(row != nullptr);
      put_bytes(out, row, config.head_width * sizeof(float));
    }
  return out;
}

bool read_ring(std::span<const std::byte> bytes, const v41_config& config, v41_sequence& to) {
  part_reader in(bytes);
  std::vector<float> row(config.head_width);
  for (window_ring& ring : to.rings)
    for (uint32_t p = first_ring_position(to.computed, config); p < to.computed; ++p) {
      if (!in.take(row.data(), row.size() * sizeof(float))) return false;
      ring.write(p, row.data());
    }
  return in.finished();
}

std::vector<std::byte> state_bytes_of(const v41_sequence& from, uint64_t layout) {
  std::vector<std::byte> out;
  put(out, state_version);
  put(out, from.computed);
  put(out, layout);
  for (const int64_t id : from.look_back) put(out, id);
  for (const kv_source_state& source : from.sources)
    put_bytes(out, source.pending.data(), source.pending.size() * sizeof(float));
  return out;
}

failure mismatch(std::string what) {
  return failure{error_code::invalid_argument, "sequence state: " + std::move(what)};
}

result<void> read_state(std::span<const std::byte> bytes,
                        const v41_config& config,
                        uint64_t layout,
                        v41_sequence& to) {
  part_reader in(bytes);
  const bool same_version = in.number<uint32_t>() == state_version;
  const bool same_length = in.number<uint32_t>() == to.computed;
  if (in.number<uint64_t>() != layout || !same_version)
    return mismatch("it was made by other weights or another layout; compute the prompt again");
  if (!same_length) return mismatch("it does not belong to this number of tokens");
  for (const int64_t expected : to.look_back)
    if (in.number<int64_t>() != expected)
      return failure{error_code::corrupt, "sequence state: it belongs to other tokens"};
  for (kv_source_state& source : to.sources) {
    source.pending.resize(size_t{to.computed % source.ratio} * 2 * config.head_width);
    if (source.ratio == 1) source.pending.clear();
    in.take(source.pending.data(), source.pending.size() * sizeof(float));
  }
  if (!in.finished()) return mismatch("the state part has the wrong size");
  return {};
}

const state_part* find_part(std::span<const state_part> parts, part_kind kind, uint32_t index) {
  const auto at = std::ranges::find_if(
      parts, [&](const state_part& p) { return p.kind == kind && p.index == index; });
  return at == parts.end() ? nullptr : &*at;
}

// Reads blocks in order: rows are appended.
bool read_blocks(std::span<const state_part> parts, v41_sequence& to, size_t& used) {
  const uint32_t full = to.computed / block_tokens;
  for (uint32_t i = 0; i < full; ++i) {
    const state_part* part = find_part(parts, part_kind::block, i);
    if (part == nullptr || !read_block(part->bytes, i * block_tokens, (i + 1) * block_tokens, to))
      return false;
    ++used;
  }
  const state_part* tail = find_part(parts, part_kind::block_tail, 0);
  if (tail != nullptr && tail->bytes.empty()) return false;  // never written
  if (tail != nullptr) ++used;
  const auto bytes = tail == nullptr ? std::span<const std::byte>{} : std::span(tail->bytes);
  return read_block(bytes, full * block_tokens, to.computed, to);
}

}  // namespace

std::vector<state_part> export_sequence(const v41_sequence& from,
                                        const v41_config& config,
                                        uint64_t layout) {
  std::vector<state_part> parts;
  const uint32_t full = from.computed / block_tokens;
  for (uint32_t i = 0; i < full; ++i)
    parts.push_back(
        {part_kind::block, i, block_bytes(from, i * block_tokens, (i + 1) * block_tokens)});
  if (auto tail = block_bytes(from, full * block_tokens, from.computed); !tail.empty())
    parts.push_back({part_kind::block_tail, 0, std::move(tail)});
  if (from.computed != 0) parts.push_back({part_kind::ring, 0, ring_bytes(from, config)});
  parts.push_back({part_kind::state, 0, state_bytes_of(from, layout)});
  return parts;
}

result<std::unique_ptr<v41_sequence>> import_sequence(std::span<const state_part> parts,
                                                      const v41_config& config,
                                                      uint64_t layout,
                                                      uint32_t tokens,
                                                      const std::vector<int64_t>& look_back) {
  auto to = std::make_unique<v41_sequence>(config);
  to->computed = tokens;
  to->look_back = look_back;
  const state_part* state = find_part(parts, part_kind::state, 0);
  if (state == nullptr) return mismatch("the state part is missing");
  if (auto read = read_state(state->bytes, config, layout, *to); !read) return read.error();
  size_t used = 1;
  if (!read_blocks(parts, *to, used)) return mismatch("a block is missing or has the wrong size");
  if (tokens != 0) {
    const state_part* ring = find_part(parts, part_kind::ring, 0);
    if (ring == nullptr || !read_ring(ring->bytes, config, *to))
      return mismatch("the ring is missing or has the wrong size");
    ++used;
  }
  if (used != parts.size()) return mismatch("there are more parts than the tokens need");
  return to;
}

}  // namespace deepinfer::model
