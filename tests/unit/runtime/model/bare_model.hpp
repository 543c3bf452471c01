#pragma once

#include "kernels/api/table.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/v41_drafter.hpp"
#include "runtime/model/v41_graph.hpp"
#include "runtime/model/v41_weights.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::test {

struct checkpoint_folder {
  std::filesystem::path path;
};

/// Graph and drafter of a checkpoint without the step machinery around them: a test says which
/// rows run and sees every row's logits.
class bare_model {
public:
  bare_model(std::string_view shape,
             model::numeric_level level,
             model::replay_variant replay = model::replay_variant::late)
      : bare_model(checkpoint_folder{mini_checkpoint(shape)}, level, replay) {}

  /// Of any checkpoint with Engram and drafter.
  bare_model(const checkpoint_folder& folder,
             model::numeric_level level,
             model::replay_variant replay = model::replay_variant::late)
      : files_(open(folder.path)),
        config(*model::parse_v41_config(files_.config_text())),
        ops_(cpu_ops()),
        weights_(load(files_, config, ops_)),
        engram_(hash(files_, config)),
        context_{config, weights_, ops_, {}, level, replay},
        graph_(context_, &*engram_),
        drafter_(context_) {}

  [[nodiscard]] model::v41_sequence fresh() const { return {config, context_.level}; }

  /// Computes `tokens` next; logits of the rows from position `kept_from` on.
  std::vector<float> run(model::v41_sequence& target,
                         std::span<const int32_t> tokens,
                         uint32_t kept_from = 0) {
    const model::graph_segment segment{
        .target = &target, .tokens = tokens, .start = target.computed, .kept_from = kept_from};
    graph_.run({&segment, 1}, {.taps = true});
    std::vector<uint32_t> rows(graph_.finished().rows);
    std::iota(rows.begin(), rows.end(), 0u);
    std::vector<float> logits(rows.size() * config.vocabulary);
    graph_.logits(rows, logits.data());
    return logits;
  }

  /// Of the rows of the last `run`.
  [[nodiscard]] std::vector<float> taps() const {
    const size_t width = config.drafter.target_layers.size() * config.width;
    const auto first = graph_.taps().begin();
    return {first, first + static_cast<std::ptrdiff_t>(graph_.finished().rows * width)};
  }

  /// The drafter's rows of the target's first `count` positions, from taps; the target then stands
  /// behind them.
  void commit(model::v41_sequence& target, std::span<const float> taps, uint32_t count) {
    const std::vector<int32_t> tokens(count, 0);  // their number matters alone
    const model::graph_segment segment{.target = &target, .tokens = tokens};
    drafter_.commit({&segment, 1}, taps.data());
    target.computed = count;
  }
  model::draft_proposal draft(model::v41_sequence& target, int32_t anchor) {
    model::v41_sequence* one = &target;
    return drafter_.draft({&one, 1}, {&anchor, 1}, model::v41_drafter::detail::logits).front();
  }

  /// A row of a store or ring as floats.
  [[nodiscard]] std::vector<float> unpacked(const uint8_t* row,
                                            uint32_t width,
                                            kernels::row_format format) const {
    REQUIRE(row != nullptr);
    std::vector<float> out(width);
    kernels::stream queue;
    ops_.unpack_rows(queue, {out.data(), row, 1, width, format});
    return out;
  }

private:
  static model::checkpoint open(const std::filesystem::path& folder) {
    auto files = model::checkpoint::open(folder);
    REQUIRE(files);
    return *std::move(files);
  }
  static kernels::op_table cpu_ops() {
    kernels::op_table ops;
    kernels::register_cpu(ops);
    return ops;
  }
  static model::v41_weights load(const model::checkpoint& files,
                                 const model::v41_config& config,
                                 const kernels::op_table& ops) {
    auto weights = model::load_v41_weights(files, config, ops);
    REQUIRE(weights);
    return *std::move(weights);
  }
  static std::optional<model::engram_hash> hash(const model::checkpoint& files,
                                                const model::v41_config& config) {
    auto made = model::engram_hash::make(config.engram, config.vocabulary,
                                         file_text(files.folder() / "engram_meta.json"));
    REQUIRE(made);
    return *std::move(made);
  }

  model::checkpoint files_;

public:
  const model::v41_config config;

private:
  kernels::op_table ops_;
  model::v41_weights weights_;
  std::optional<model::engram_hash> engram_;
  model::graph_context context_;
  model::v41_graph graph_;
  model::v41_drafter drafter_;
};

}  // namespace deepinfer::test
