#pragma once

#include "runtime/model/step_model.hpp"
#include "runtime/model/swap_landing.hpp"
#include "runtime/model/toy_model.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

/// The state of the toy model: one running hash, and parts that nothing but the right tokens can
/// explain.
namespace deepinfer::model::toy {

struct chain_hash {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend bool operator==(const chain_hash&, const chain_hash&) = default;
};

/// Finaliser of splitmix64: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

[[nodiscard]] chain_hash start_hash(const toy_options& options);
[[nodiscard]] chain_hash extended(const chain_hash& h, uint64_t word);
/// One word out of bytes.
[[nodiscard]] uint64_t sum_of(std::span<const std::byte> bytes);

/// The blocks of a hit as they came. Each stage brings its half of a block's bytes.
class arrivals final : public swap_landing {
public:
  static constexpr uint32_t halves = 2;

  arrivals(uint32_t blocks, uint32_t block_bytes)
      : swap_landing(halves, blocks), block_bytes_(block_bytes) {
    bytes_.resize(size_t{blocks} * block_bytes);
  }
  [[nodiscard]] uint64_t bytes_of(uint32_t) const override { return block_bytes_; }
  void land(uint32_t stage, uint32_t block, std::span<const std::byte> whole) override;
  [[nodiscard]] std::span<const std::byte> block(uint32_t number) const {
    return std::span(bytes_).subspan(size_t{number} * block_bytes_, block_bytes_);
  }

private:
  uint32_t block_bytes_;
  std::vector<std::byte> bytes_;
};

class toy_sequence final : public sequence {
public:
  explicit toy_sequence(const toy_options& options);
  /// Stands at `start` <= hit with an empty ring; the blocks of `prefix` come through `loading`.
  toy_sequence(const toy_options& options, std::span<const int32_t> prefix, uint32_t start);

  [[nodiscard]] uint32_t computed_tokens() const override { return computed_; }
  [[nodiscard]] uint64_t state_bytes() const override;

  void push(int32_t token);
  /// The ring behind these tokens, which were kept.
  void keep_ring(std::span<const int32_t> prefix);
  /// A wrong byte in a part that was taken over: from here on every token is another.
  void taint(uint64_t by) { hash_ = extended(hash_, by); }
  [[nodiscard]] const chain_hash& hash() const { return hash_; }

  [[nodiscard]] std::vector<state_part> parts() const;
  [[nodiscard]] std::vector<state_part> blocks(uint32_t first, uint32_t last) const;
  /// What is not blocks.
  [[nodiscard]] std::vector<state_part> rest() const;

  /// Null when nothing is on its way.
  [[nodiscard]] std::shared_ptr<swap_in> loading() const;
  [[nodiscard]] bool arrived() const { return !lost_ && (!landing_ || landing_->gate.all_open()); }
  /// Waits for the blocks of the hit and looks at them.
  enum class arrival : uint8_t { complete, missing, wrong };
  [[nodiscard]] arrival await_blocks(swap_patience& patience, toy_import import);

private:
  chain_hash hash_;
  uint32_t block_bytes_;
  uint32_t computed_ = 0;
  std::vector<chain_hash> block_ends_;  ///< hash behind each full block
  std::vector<uint64_t> tail_;          ///< one word per token behind the last full block
  std::deque<int32_t> ring_;            ///< the last `toy_ring_tokens` tokens
  std::shared_ptr<arrivals> landing_;   ///< null: nothing is on its way
  std::vector<chain_hash> expected_;    ///< behind each block of the hit
  bool lost_ = false;                   ///< its blocks did not come, for good
  bool wrong_ = false;                  ///< or were of other tokens
};

}  // namespace deepinfer::model::toy
