#include "runtime/model/verify_parts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace deepinfer::model::verify {
namespace {

// What is read between two calls of `progress`, and given back to the system after it.
constexpr uint64_t piece_bytes = uint64_t{32} << 20;
// Small enough for the first cache: most blocks hold nothing bad and are looked at once.
constexpr size_t block_bytes = 4096;

// Which stored numbers are no finite numbers.
bool bad_value(tensor_type type, uint32_t bits) {
  switch (type) {
    case tensor_type::f8_e4m3:
      return (bits & 0x7F) == 0x7F;
    case tensor_type::f8_e8m0:
      return bits == 0xFF;
    case tensor_type::bf16:
      return (bits & 0x7F80) == 0x7F80;
    default:
      return (bits & 0x7F800000) == 0x7F800000;
  }
}

struct bad_values {
  uint64_t count = 0;
  uint64_t first = 0;
};

// The inner loop only asks whether there is any, so that compilers vectorise it.
template <class Word, tensor_type type>
void scan_block(std::span<const std::byte> bytes, uint64_t first, bad_values& out) {
  std::array<Word, block_bytes / sizeof(Word)> values;
  const size_t count = bytes.size() / sizeof(Word);
  std::memcpy(values.data(), bytes.data(), count * sizeof(Word));  // the file aligns nothing
  Word any = 0;
  for (size_t i = 0; i < count; ++i)
    any = static_cast<Word>(any | static_cast<Word>(bad_value(type, values[i])));
  if (any == 0) return;
  for (size_t i = 0; i < count; ++i) {
    if (!bad_value(type, values[i])) continue;
    if (out.count++ == 0) out.first = first + i;
  }
}

using block_scanner = void (*)(std::span<const std::byte>, uint64_t, bad_values&);

// Null for types any bits of which are numbers.
block_scanner scanner_of(tensor_type type) {
  switch (type) {
    case tensor_type::f8_e4m3:
      return scan_block<uint8_t, tensor_type::f8_e4m3>;
    case tensor_type::f8_e8m0:
      return scan_block<uint8_t, tensor_type::f8_e8m0>;
    case tensor_type::bf16:
      return scan_block<uint16_t, tensor_type::bf16>;
    case tensor_type::f32:
      return scan_block<uint32_t, tensor_type::f32>;
    default:
      return nullptr;
  }
}

std::string place_of(const tensor_claim& claim, uint64_t element) {
  std::string out = "element " + std::to_string(element);
  if (claim.shape.size() != 2) return out;
  return out + " (row " + std::to_string(element / claim.shape[1]) + ", column " +
         std::to_string(element % claim.shape[1]) + ")";
}

class scan {
public:
  scan(const contents& held, const verify_options& options, notebook& notes)
      : held_(held), options_(options), notes_(notes) {
    for (const held_tensor& t : held.tensors)
      if (worth_reading(t)) all_ += t.claim.end - t.claim.begin;
  }

  // In the order of the files, so that the disk reads straight on.
  void run() {
    std::vector<const held_tensor*> order;
    for (const held_tensor& t : held_.tensors)
      if (worth_reading(t)) order.push_back(&t);
    std::ranges::sort(order, {},
                      [](const held_tensor* t) { return std::pair(t->shard, t->claim.begin); });
    for (const held_tensor* t : order) read(*t);
    notes_.report().scanned_bytes = done_;
  }

private:
  static bool worth_reading(const held_tensor& t) {
    return t.whole && scanner_of(t.claim.type) != nullptr;
  }

  void read(const held_tensor& t) {
    const shard& s = held_.shards[t.shard];
    const tensor_claim& claim = t.claim;
    const block_scanner look = scanner_of(claim.type);
    const uint32_t width = element_bytes(claim.type);
    bad_values bad;
    for (uint64_t at = claim.begin; at < claim.end;) {
      const uint64_t end = std::min(claim.end, at + piece_bytes);
      const auto piece = s.file->bytes().subspan(s.data_start + at, end - at);
      for (size_t i = 0; i < piece.size(); i += block_bytes)
        look(piece.subspan(i, std::min(block_bytes, piece.size() - i)),
             (at - claim.begin + i) / width, bad);
      done_ += end - at;
      at = end;
      give_back(s, s.data_start + end);
      if (options_.progress) options_.progress(done_, all_);
    }
    if (bad.count > 0)
      notes_.problem({.file = s.name,
                      .tensor = claim.name,
                      .what = std::to_string(bad.count) +
                              (bad.count == 1 ? " value is" : " values are") +
                              " not finite, the first is " + place_of(claim, bad.first),
                      .expected = "finite " + std::string(to_string(claim.type)) + " values",
                      .found = "NaN or infinity",
                      .advice = "fetch this file again; if it is the same, the export was broken"});
  }

  // Tensors lie one behind the other, so everything before `end` has been read. A page that the
  // next tensor shares stays.
  void give_back(const shard& s, uint64_t end) {
    if (&s != current_) {
      if (current_ != nullptr)
        current_->file->give_back(kept_from_, current_->file->bytes().size());
      current_ = &s;
      kept_from_ = 0;
    }
    if (end - std::min(end, kept_from_) < piece_bytes) return;
    s.file->give_back(kept_from_, end - kept_from_);
    kept_from_ = end / block_bytes * block_bytes;
  }

  const contents& held_;
  const verify_options& options_;
  notebook& notes_;
  const shard* current_ = nullptr;
  uint64_t kept_from_ = 0;  ///< of the current shard
  uint64_t done_ = 0;
  uint64_t all_ = 0;
};

}  // namespace

void scan_data(const contents& held, const verify_options& options, notebook& notes) {
  scan(held, options, notes).run();
}

}  // namespace deepinfer::model::verify
