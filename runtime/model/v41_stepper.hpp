#pragma once

#include "runtime/model/prefix_restore.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/model/v41_drafter.hpp"
#include "runtime/model/v41_graph.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace deepinfer::model {

/// Whether every id names a token.
[[nodiscard]] bool in_vocabulary(std::span<const int32_t> tokens, uint32_t vocabulary);

struct stepper_settings {
  uint32_t pass_rows = 256;  ///< rows computed at once, > ring_slack
  replay_setting replay;
  uint32_t draft_tokens = 0;  ///< most drafts verified in a step; 0: the drafter sleeps
};

/// Cuts a step's items into passes, drafts and verifies, and chooses tokens. Where the cuts fall
/// changes no bit.
class v41_stepper {
public:
  v41_stepper(const graph_context& context,
              const engram_hash* engram,
              const model_info& info,
              const stepper_settings& settings);

  void step(std::span<step_item> items);

  [[nodiscard]] v41_graph& graph() { return graph_; }
  /// Null without a drafter, or when it sleeps.
  [[nodiscard]] v41_drafter* drafter() { return drafter_ ? &*drafter_ : nullptr; }

private:
  /// What is left to do of one item.
  struct share {
    step_item* item;
    v41_sequence* target;
    std::vector<int32_t> decoded;     ///< anchor and drafts, when `item->tokens` is empty
    std::span<const int32_t> tokens;  ///< not computed yet
    uint32_t kept_from = 0;
    uint32_t end = 0;  ///< position behind the item's tokens
  };
  /// One share's rows in the pass at hand.
  struct portion {
    share* of;
    uint32_t start;
    uint32_t rows;
    bool last;  ///< nothing of the item is left behind it
  };
  /// A row whose token is wanted.
  struct wanted_row {
    uint32_t row;  ///< among the finished rows
    share* of;
    uint32_t ordinal;  ///< 0: behind the first of the item's verified rows
  };

  [[nodiscard]] bool acceptable(const step_item& item) const;
  [[nodiscard]] bool images_fit(const step_item& item) const;
  void open(std::span<step_item> items);
  void propose();
  bool gather_pass(size_t& at);
  std::span<const float* const> replacements(const share& from, std::span<const int32_t> tokens);
  void run_pass();
  void choose_tokens();
  void choose(const wanted_row& row, std::span<const float> logits);
  void settle();

  graph_ops ops_;
  const model_info& info_;
  stepper_settings settings_;
  v41_graph graph_;
  swap_patience patience_;  ///< of this step
  std::optional<v41_drafter> drafter_;
  std::vector<share> shares_;
  std::vector<portion> portions_;
  std::vector<graph_segment> segments_;
  std::vector<std::vector<const float*>> instead_;
  std::vector<wanted_row> wanted_;
  std::vector<float> logits_, taps_;
};

}  // namespace deepinfer::model
