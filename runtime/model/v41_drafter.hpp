#pragma once

#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_attention.hpp"
#include "runtime/model/v41_experts.hpp"
#include "runtime/model/v41_streams.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::model {

/// What the drafter proposes behind one sequence's anchor.
struct draft_proposal {
  std::vector<int32_t> tokens;    ///< [block], greedy
  std::vector<float> confidence;  ///< [block], logits of being accepted
  std::vector<float> logits;  ///< [block][vocabulary], with the Markov bias; only when asked for
};

/// The DSpark drafter: three blocks that propose a few tokens in one pass, each row seeing the last
/// window of committed positions and all rows of its own block (model-v41 6).
class v41_drafter {
public:
  /// The weights must have a drafter.
  explicit v41_drafter(const graph_context& context);

  /// Writes the context rows of positions start, start + 1, ... of each segment (`tokens` gives
  /// their number alone) into the draft rings. `taps` are rows of [target layers * width].
  void commit(std::span<const graph_segment> segments, const float* taps);

  /// Drafts behind anchors[i], the token chosen for position targets[i]->computed. Answers one
  /// proposal per target; `logits` are left out unless `with_logits`.
  enum class detail : uint8_t { tokens, logits };
  [[nodiscard]] std::vector<draft_proposal> draft(std::span<v41_sequence* const> targets,
                                                  std::span<const int32_t> anchors,
                                                  detail wanted);

private:
  void fill(graph_pass& pass);
  void head(std::span<draft_proposal> out, std::span<const int32_t> anchors, detail wanted);

  graph_ops ops_;
  v41_attention attention_;
  v41_experts experts_;
  v41_streams streams_;
  std::vector<float> frequency_;
  graph_pass pass_;
  std::vector<int32_t> ids_;
  std::vector<float> in_, out_, main_, quantised_taps_, quantised_main_;
  std::vector<float> hidden_, normed_, logits_, markov_, bias_, joined_, confidence_;
};

}  // namespace deepinfer::model
