#pragma once

#include "runtime/model/swap_gate.hpp"
#include "runtime/model/swap_in.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace deepinfer::model {

/// Where the blocks of a prefix hit come to lie: owned by the sequence, which reads a stage's share
/// behind `gate` only. A place is written by one thread, and not moved before all gates are open.
class swap_landing {
public:
  swap_landing(uint32_t stages, uint32_t blocks) : gate(stages), stages_(stages), blocks_(blocks) {}
  virtual ~swap_landing() = default;

  [[nodiscard]] uint32_t stages() const { return stages_; }
  [[nodiscard]] uint32_t blocks() const { return blocks_; }
  /// Bytes of the whole block.
  [[nodiscard]] virtual uint64_t bytes_of(uint32_t block) const = 0;
  /// Copies a stage's share out of a whole block of that length.
  virtual void land(uint32_t stage, uint32_t block, std::span<const std::byte> whole) = 0;

  swap_gate gate;

private:
  uint32_t stages_;
  uint32_t blocks_;
};

/// The loader's end. It does not keep the landing alive, and does nothing once that is gone. A
/// stage declared ready with a block missing gives up: a hole must not be computed with.
[[nodiscard]] std::shared_ptr<swap_in> make_swap_in(const std::shared_ptr<swap_landing>& to);

/// Loads whole blocks behind each other, all stages: for those who have everything at hand.
[[nodiscard]] result<void> load_all(swap_in& to,
                                    std::span<const std::span<const std::byte>> blocks);

}  // namespace deepinfer::model
