#include "runtime/model/toy_sequence.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace deepinfer::model::toy {

chain_hash start_hash(const toy_options& options) {
  return {mix(options.weights + 0x9E3779B97F4A7C15u), mix(options.weights ^ 0x2545F4914F6CDD1Du)};
}

chain_hash extended(const chain_hash& h, uint64_t word) {
  const uint64_t lo = mix(h.lo ^ (word + 0x9E3779B97F4A7C15u));
  const uint64_t hi = mix(h.hi + std::rotl(lo, 17) + word);
  return {hi, lo ^ std::rotl(hi, 41)};
}

uint64_t sum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte b : bytes) sum = mix(sum ^ static_cast<uint64_t>(b));
  return sum;
}

namespace {

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), raw, raw + sizeof(T));
}

// Bytes that only the right tokens before and in the block can explain.
std::vector<std::byte> bytes_of(const chain_hash& h, size_t count) {
  std::vector<std::byte> out;
  out.reserve(count + sizeof(uint64_t));
  chain_hash stream = h;
  while (out.size() < count) {
    append(out, stream.lo);
    stream = extended(stream, out.size());
  }
  out.resize(count);
  return out;
}

}  // namespace

void arrivals::land(uint32_t stage, uint32_t block, std::span<const std::byte> whole) {
  const size_t middle = block_bytes_ / halves;
  const size_t first = stage == 0 ? 0 : middle, last = stage == 0 ? middle : block_bytes_;
  std::memcpy(bytes_.data() + size_t{block} * block_bytes_ + first, whole.data() + first,
              last - first);
}

toy_sequence::toy_sequence(const toy_options& options)
    : hash_(start_hash(options)), block_bytes_(options.block_bytes) {}

toy_sequence::toy_sequence(const toy_options& options,
                           std::span<const int32_t> prefix,
                           uint32_t start)
    : toy_sequence(options) {
  toy_sequence whole(options);
  for (const int32_t token : prefix) {
    whole.push(token);
    if (computed_ < start) push(token);
  }
  ring_.clear();
  expected_ = whole.block_ends_;
  if (!expected_.empty())
    landing_ = std::make_shared<arrivals>(static_cast<uint32_t>(expected_.size()), block_bytes_);
}

uint64_t toy_sequence::state_bytes() const {
  return uint64_t{block_bytes_} * std::max(block_ends_.size(), expected_.size()) +
         sizeof(uint64_t) * tail_.size() + sizeof(int32_t) * ring_.size() + sizeof(hash_);
}

void toy_sequence::push(int32_t token) {
  hash_ = extended(hash_, static_cast<uint32_t>(token));
  ++computed_;
  tail_.push_back(hash_.lo);
  ring_.push_back(token);
  if (ring_.size() > toy_ring_tokens) ring_.pop_front();
  if (computed_ % toy_block_tokens == 0) {
    block_ends_.push_back(hash_);
    tail_.clear();
  }
}

void toy_sequence::keep_ring(std::span<const int32_t> prefix) {
  const auto last = prefix.last(std::min<size_t>(prefix.size(), toy_ring_tokens));
  ring_.assign(last.begin(), last.end());
}

std::vector<state_part> toy_sequence::blocks(uint32_t first, uint32_t last) const {
  std::vector<state_part> out;
  for (uint32_t i = first; i < last; ++i)
    out.push_back({part_kind::block, i, bytes_of(block_ends_[i], block_bytes_)});
  return out;
}

std::vector<state_part> toy_sequence::rest() const {
  std::vector<state_part> out;
  if (!ring_.empty()) {
    state_part part{part_kind::ring, 0, {}};
    for (const int32_t token : ring_) append(part.bytes, token);
    out.push_back(std::move(part));
  }
  state_part state{part_kind::state, 0, {}};
  append(state.bytes, hash_);
  append(state.bytes, computed_);
  out.push_back(std::move(state));
  return out;
}

std::vector<state_part> toy_sequence::parts() const {
  std::vector<state_part> out = blocks(0, static_cast<uint32_t>(block_ends_.size()));
  if (!tail_.empty()) {
    state_part part{part_kind::block_tail, 0, {}};
    for (const uint64_t word : tail_) append(part.bytes, word);
    out.push_back(std::move(part));
  }
  for (state_part& part : rest()) out.push_back(std::move(part));
  return out;
}

std::shared_ptr<swap_in> toy_sequence::loading() const {
  return landing_ ? make_swap_in(landing_) : nullptr;
}

toy_sequence::arrival toy_sequence::await_blocks(swap_patience& patience, toy_import import) {
  if (lost_) return arrival::missing;
  if (wrong_) return arrival::wrong;
  if (!landing_) return arrival::complete;
  const std::shared_ptr<arrivals> came = std::exchange(landing_, nullptr);
  for (uint32_t half = 0; half < came->stages(); ++half)
    if (!came->gate.pass(half, patience)) {
      lost_ = true;
      return arrival::missing;
    }
  for (uint32_t i = 0; i < came->blocks(); ++i) {
    if (std::ranges::equal(came->block(i), bytes_of(expected_[i], block_bytes_))) continue;
    wrong_ = import == toy_import::refuse;
    if (wrong_) return arrival::wrong;
    taint(sum_of(came->block(i)));
  }
  return arrival::complete;
}

}  // namespace deepinfer::model::toy
