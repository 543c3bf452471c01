#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace deepinfer::model {

class sequence;

/// The blocks of a prefix hit on their way into a sequence, source layer by source layer: a step
/// over the sequence waits in front of each source layer for that layer's event only (KV-25), so
/// copying overlaps with computing. Used by one thread beside the one that steps; may outlive the
/// sequence, and then does nothing.
class swap_in {
public:
  virtual ~swap_in() = default;

  /// KV source layers, in order of use. At least one.
  [[nodiscard]] virtual uint32_t stages() const = 0;
  [[nodiscard]] virtual uint32_t blocks() const = 0;
  /// Copies one stage's share out of the whole bytes of block `block`. `invalid_argument` for bytes
  /// of another length.
  virtual result<void> load(uint32_t stage, uint32_t block, std::span<const std::byte> whole) = 0;
  /// The event of a stage: all its blocks are in; if they are not, it gives up. In any order, once
  /// each; nothing can be loaded behind it.
  virtual void ready(uint32_t stage) = 0;
  /// The rest will not come: steps that wait, and all later ones of the sequence, fail with
  /// `step_item::state_missing`. Nothing that was computed may be used. Behind the last `ready` it
  /// does nothing.
  virtual void give_up() = 0;
};

/// A sequence that stands where the rest of its prompt is to be computed from.
struct restored_sequence {
  std::unique_ptr<sequence> state;
  std::shared_ptr<swap_in> loading;  ///< null for a hit of no blocks
};

}  // namespace deepinfer::model
