#pragma once

#include "runtime/model/step_model.hpp"
#include "runtime/model/v41_config.hpp"

#include <algorithm>
#include <cstdint>

/// Where a sequence starts again after a prefix hit (serving-system KV-33..38): the entries of the
/// first `hit` tokens are there, the window rings may not be.
namespace deepinfer::model {

/// Decoder replay of a prompt: its last `rows` positions pass the decoder; 0: all do.
struct replay_setting {
  uint32_t rows = 0;
};

/// First position of a prompt of `tokens` that passes the decoder; 0: all.
[[nodiscard]] constexpr uint32_t kept_from(uint32_t tokens, replay_setting replay) {
  return replay.rows == 0 || tokens <= replay.rows ? 0 : tokens - replay.rows;
}

struct prefix_hit {
  uint32_t hit = 0;     ///< tokens whose entries are there, a multiple of the block size
  uint32_t prompt = 0;  ///< all tokens of the prompt, > hit
};

struct stored_prefix {
  uint32_t blocks = 0;  ///< from the first on
  uint32_t prompt = 0;  ///< all tokens of the prompt
};

/// Which rows an exact replay must have behind each layer: every layer needs the rows of a window
/// before those that the next one needs. Rows outside would be wrong, and nobody reads them.
struct replay_cone {
  uint32_t end = 0;     ///< from here on every row is needed behind every layer; 0: no replay
  uint32_t layers = 0;  ///< with rings that must be right
  uint32_t back = 0;    ///< positions a window reaches back
  uint32_t group = 1;   ///< where every source begins a group of tokens

  /// First position whose window key layer `layer` needs, and with it a row behind the layer below.
  [[nodiscard]] constexpr uint32_t first_key(uint32_t layer) const {
    const uint64_t depth = layers > layer ? layers - layer : 1;
    const uint64_t first = end - std::min<uint64_t>(end, depth * back);
    return static_cast<uint32_t>(first - first % group);
  }
};

/// Exact: window rows of layer i need those of layer i - 1 one window earlier, so the depth is a
/// window for every layer with rings that must be right: the encoder's and the decoder's first, or
/// all when no replay trims the prompt. Rounded down to where all sources begin a group, so that
/// no row of an open one is missing.
[[nodiscard]] replay_cone exact_cone(const v41_config& config,
                                     replay_setting replay,
                                     const prefix_hit& at);

/// The first position to compute again, <= hit: of an exact replay the cone's first key.
[[nodiscard]] uint32_t restore_start(const v41_config& config,
                                     replay_setting replay,
                                     const prefix_hit& at,
                                     restore_mode mode);

/// The longest usable part of a hit: with kept rings, tokens that the cold run would send through
/// the decoder must be computed, so the hit ends before them.
[[nodiscard]] uint32_t usable_hit(replay_setting replay, const prefix_hit& at, restore_mode mode);

/// What to do with `blocks` stored blocks of a prompt: as much of them as leaves a token to compute
/// and can be used. No hit when everything would be computed again.
[[nodiscard]] restore_plan plan_prefix(const v41_config& config,
                                       replay_setting replay,
                                       const stored_prefix& at,
                                       restore_mode mode);

}  // namespace deepinfer::model
