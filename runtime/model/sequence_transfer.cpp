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
  [[nodiscard]] uint32_t count() const { return last - first; }
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

// Rows of several stores follow each other without gaps, so a block of the released layout is the
// 113,920 bytes of its specification.
std::vector<std::byte> pack_block(const v41_sequence& from, uint32_t first, uint32_t last) {
  size_t size = 0;
  for (const kv_source_state& source : from.sources)
    size += completed_by(first, last, source.ratio).count() *
            (source.entries.row_bytes() + source.index_keys.row_bytes());
  std::vector<std::byte> out(size);
  std::byte* to = out.data();
  for (const kv_source_state& source : from.sources) {
    const entry_range range = completed_by(first, last, source.ratio);
    for (const row_pages* rows : {&source.entries, &source.index_keys}) {
      rows->copy_out(range.first, range.last, to);
      to += range.count() * rows->row_bytes();
    }
  }
  return out;
}

// Where the full blocks of a sequence without entries come to lie. Pages are shared, not the stores
// around them: those grow while this writes.
class block_landing final : public swap_landing {
public:
  block_landing(v41_sequence& to, uint32_t blocks)
      : swap_landing(static_cast<uint32_t>(to.sources.size()), blocks) {
    for (kv_source_state& source : to.sources) {
      const entry_range all = completed_by(0, blocks * block_tokens, source.ratio);
      for (row_pages* rows : {&source.entries, &source.index_keys}) {
        rows->grow(all.count());
        places_.push_back({source.ratio, rows->row_bytes(), rows->pages()});
      }
    }
  }

  [[nodiscard]] uint64_t bytes_of(uint32_t block) const override {
    return offset_of(block, places_.size());
  }

  void land(uint32_t stage, uint32_t block, std::span<const std::byte> whole) override {
    for (const size_t number : {size_t{stage} * 2, size_t{stage} * 2 + 1}) {
      const place& to = places_[number];
      const entry_range range = range_of(to, block);
      const std::byte* from = whole.data() + offset_of(block, number);
      for (uint32_t at = range.first; at < range.last;) {
        const uint32_t in_page = at % row_pages::page_rows;
        const uint32_t run = std::min(range.last - at, row_pages::page_rows - in_page);
        std::memcpy(to.pages[at / row_pages::page_rows].get() + in_page * to.row_bytes, from,
                    run * to.row_bytes);
        from += run * to.row_bytes;
        at += run;
      }
    }
  }

private:
  struct place {
    uint32_t ratio;
    size_t row_bytes;
    std::vector<row_pages::page> pages;
  };

  static entry_range range_of(const place& p, uint32_t block) {
    return completed_by(block * block_tokens, (block + 1) * block_tokens, p.ratio);
  }
  // Of place `number` in the block's bytes; the block's size behind the last.
  [[nodiscard]] size_t offset_of(uint32_t block, size_t number) const {
    size_t sum = 0;
    for (size_t i = 0; i < number; ++i)
      sum += range_of(places_[i], block).count() * places_[i].row_bytes;
    return sum;
  }

  std::vector<place> places_;  ///< entries and index keys of each source
};

// One window of rows: what later tokens read. The slack behind it holds whatever verify steps left
// there, so the bytes would depend on how the tokens were drafted.
std::vector<std::byte> pack_rings(std::span<const window_ring> rings, uint32_t computed) {
  std::vector<std::byte> out;
  for (const window_ring& ring : rings) {
    const uint32_t first = ring.held_from(computed, ring.slots() - ring_slack);
    put(out, first);
    for (uint32_t p = first; p < computed; ++p) put_bytes(out, ring.at(p), ring.row_bytes());
  }
  return out;
}

bool read_rings(std::span<const std::byte> bytes, std::span<window_ring> rings, uint32_t computed) {
  part_reader in(bytes);
  std::vector<uint8_t> row;
  for (window_ring& ring : rings) {
    const auto first = in.number<uint32_t>();
    if (first > computed || computed - first > ring.slots() - ring_slack) return false;
    row.resize(ring.row_bytes());
    for (uint32_t p = first; p < computed; ++p) {
      if (!in.take(row.data(), row.size())) return false;
      ring.write(p, row.data());
    }
  }
  return in.finished();
}

bool holds_rows(std::span<const window_ring> rings, uint32_t computed) {
  return computed != 0 && std::ranges::any_of(rings, [=](const window_ring& ring) {
           return ring.at(computed - 1) != nullptr;
         });
}

// Floats of the open group of a source: what later tokens need. The rows behind it are kept for a
// roll-back only, and a sequence that travels has nothing to take back.
size_t open_floats(const kv_source_state& source, uint32_t computed, uint32_t width) {
  return source.ratio == 1 ? 0 : size_t{computed % source.ratio} * 2 * width;
}

std::vector<std::byte> pack_state(const v41_sequence& from,
                                  const v41_config& config,
                                  uint64_t layout) {
  std::vector<std::byte> out;
  put(out, state_version);
  put(out, from.computed);
  put(out, layout);
  for (uint32_t i = 0; i + 1 < config.engram.longest_ngram; ++i) put(out, from.look_back[i]);
  for (const kv_source_state& source : from.sources) {
    const size_t count = open_floats(source, from.computed, config.head_width);
    // A bounded restore may begin inside a group: the rows before it are not known.
    const size_t known = std::min(count, source.pending.size());
    out.insert(out.end(), (count - known) * sizeof(float), std::byte{0});
    put_bytes(out, source.pending.data() + (source.pending.size() - known), known * sizeof(float));
  }
  return out;
}

failure mismatch(std::string what) {
  return failure{error_code::invalid_argument, "sequence state: " + std::move(what)};
}

result<void> read_state(std::span<const std::byte> bytes,
                        const import_target& target,
                        v41_sequence& to) {
  part_reader in(bytes);
  const bool same_version = in.number<uint32_t>() == state_version;
  const bool same_length = in.number<uint32_t>() == to.computed;
  if (in.number<uint64_t>() != target.layout || !same_version)
    return mismatch("it was made by other weights or another layout; compute the prompt again");
  if (!same_length) return mismatch("it does not belong to this number of tokens");
  for (size_t i = 0; i < target.look_back.size(); ++i) {
    const auto id = in.number<int64_t>();
    // An image token may also have been chosen by the model; then it is text with an id of its own.
    const bool may_be_text = i < target.tokens && target.look_back[i] < 0 && id >= 0 &&
                             id < target.config.engram.compressed_vocabulary;
    if (id != target.look_back[i] && !may_be_text)
      return failure{error_code::corrupt, "sequence state: it belongs to other tokens"};
    to.look_back[i] = id;
  }
  for (kv_source_state& source : to.sources) {
    source.pending.resize(open_floats(source, to.computed, target.config.head_width));
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

bool read_full_blocks(std::span<const state_part> parts,
                      uint32_t blocks,
                      v41_sequence& to,
                      size_t& used) {
  if (parts.size() < blocks) return false;  // before room is made for them
  block_landing landing(to, blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    const state_part* part = find_part(parts, part_kind::block, i);
    if (part == nullptr || part->bytes.size() != landing.bytes_of(i)) return false;
    for (uint32_t stage = 0; stage < landing.stages(); ++stage) landing.land(stage, i, part->bytes);
    ++used;
  }
  return true;
}

bool read_tail(std::span<const state_part> parts, v41_sequence& to, size_t& used) {
  const state_part* tail = find_part(parts, part_kind::block_tail, 0);
  if (tail != nullptr && tail->bytes.empty()) return false;  // never written
  if (tail != nullptr) ++used;
  part_reader in(tail == nullptr ? std::span<const std::byte>{} : std::span(tail->bytes));
  for (kv_source_state& source : to.sources) {
    const entry_range range =
        completed_by(to.computed / block_tokens * block_tokens, to.computed, source.ratio);
    for (row_pages* rows : {&source.entries, &source.index_keys})
      for (uint32_t j = range.first; j < range.last; ++j)
        if (!in.take(rows->add(), rows->row_bytes())) return false;
  }
  return in.finished();
}

// Everything but blocks.
result<void> read_rest(std::span<const state_part> parts,
                       const import_target& target,
                       v41_sequence& to,
                       size_t& used) {
  to.computed = target.tokens;
  const state_part* state = find_part(parts, part_kind::state, 0);
  if (state == nullptr) return mismatch("the state part is missing");
  if (auto read = read_state(state->bytes, target, to); !read) return read.error();
  ++used;
  if (target.tokens != 0) {
    const state_part* ring = find_part(parts, part_kind::ring, 0);
    if (ring == nullptr || !read_rings(ring->bytes, to.rings, target.tokens))
      return mismatch("the ring is missing or has the wrong size");
    ++used;
  }
  if (const state_part* drafts = find_part(parts, part_kind::ring, 1); drafts != nullptr) {
    if (!read_rings(drafts->bytes, to.draft_rings, target.tokens))
      return mismatch("the drafter's ring has the wrong size");
    ++used;
  }
  return {};
}

// Room for the entries of the hit, and who fills it.
std::shared_ptr<swap_in> expect_blocks(v41_sequence& to, uint32_t blocks) {
  if (blocks == 0 || to.sources.empty()) return nullptr;
  to.landing = std::make_shared<block_landing>(to, blocks);
  return make_swap_in(to.landing);
}

}  // namespace

std::vector<state_part> export_blocks(const v41_sequence& from, block_range blocks) {
  std::vector<state_part> parts;
  parts.reserve(blocks.last - blocks.first);
  for (uint32_t i = blocks.first; i < blocks.last; ++i)
    parts.push_back(
        {part_kind::block, i, pack_block(from, i * block_tokens, (i + 1) * block_tokens)});
  return parts;
}

std::vector<state_part> export_rings(const v41_sequence& from,
                                     const v41_config& config,
                                     uint64_t layout) {
  std::vector<state_part> parts;
  if (from.computed != 0)
    parts.push_back({part_kind::ring, 0, pack_rings(from.rings, from.computed)});
  if (holds_rows(from.draft_rings, from.computed))
    parts.push_back({part_kind::ring, 1, pack_rings(from.draft_rings, from.computed)});
  parts.push_back({part_kind::state, 0, pack_state(from, config, layout)});
  return parts;
}

std::vector<state_part> export_sequence(const v41_sequence& from,
                                        const v41_config& config,
                                        uint64_t layout) {
  const uint32_t full = from.computed / block_tokens;
  std::vector<state_part> parts = export_blocks(from, {0, full});
  if (auto tail = pack_block(from, full * block_tokens, from.computed); !tail.empty())
    parts.push_back({part_kind::block_tail, 0, std::move(tail)});
  for (state_part& part : export_rings(from, config, layout)) parts.push_back(std::move(part));
  return parts;
}

result<std::unique_ptr<v41_sequence>> import_sequence(std::span<const state_part> parts,
                                                      const import_target& target) {
  auto to = std::make_unique<v41_sequence>(target.config, target.level);
  size_t used = 0;
  if (auto read = read_rest(parts, target, *to, used); !read) return read.error();
  if (!read_full_blocks(parts, target.tokens / block_tokens, *to, used) ||
      !read_tail(parts, *to, used))
    return mismatch("a block is missing or has the wrong size");
  if (used != parts.size()) return mismatch("there are more parts than the tokens need");
  return to;
}

restored_sequence adopt_prefix(const import_target& target, uint32_t start) {
  auto to = std::make_unique<v41_sequence>(target.config, target.level);
  std::ranges::copy(target.look_back, to->look_back.begin());
  to->computed = start;
  auto loading = expect_blocks(*to, target.tokens / block_tokens);
  return {std::move(to), std::move(loading)};
}

result<restored_sequence> adopt_prefix_with_rings(std::span<const state_part> rings,
                                                  const import_target& target) {
  auto to = std::make_unique<v41_sequence>(target.config, target.level);
  size_t used = 0;
  if (auto read = read_rest(rings, target, *to, used); !read) return read.error();
  if (used != rings.size()) return mismatch("there are more parts than rings have");
  auto loading = expect_blocks(*to, target.tokens / block_tokens);
  return restored_sequence{std::move(to), std::move(loading)};
}

}  // namespace deepinfer::model
