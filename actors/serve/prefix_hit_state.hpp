#pragma once

#include "actors/messages/cache.hpp"
#include "actors/serve/kv_swap.hpp"
#include "runtime/schedule/restore_choice.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace deepinfer {

/// A prompt's hit on its way into a sequence. What was asked for is given back when this ends
/// early (`engine_core::abandon_hit`).
struct prefix_hit_state {
  schedule::restore_choice choice;
  uint32_t hinted_blocks = 0;
  std::shared_ptr<const std::vector<storage::block_key>> keys;  ///< of the prompt's full blocks

  kv_fetch_actor fetcher;    ///< who was asked
  bool fetching = false;     ///< asked, not answered
  bool holding = false;      ///< the fetch process keeps blocks for us
  bool pulling = false;      ///< rings: asked, not here
  bool hurried = false;      ///< its turn has come: nothing more is waited for
  bool copying = false;      ///< kv_swap copies blocks for us, or has
  uint64_t came_before = 0;  ///< bytes of all hits that had come when this one was asked for
  /// For the answer of their host, and again for the pull: no longer than blocks are waited for.
  std::chrono::milliseconds rings_within{};
  std::chrono::nanoseconds asked{};
  std::chrono::nanoseconds held_until{};  ///< by the fetch process; its memory changes behind that
  std::shared_ptr<const fetched_prefix> fetched;
  std::vector<model::state_part> rings;  ///< empty: not to be had
};

}  // namespace deepinfer
