#pragma once

#include "runtime/model/v41_model.hpp"
#include "runtime/model/v41_sequence.hpp"
#include "tests/support/rng.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Runs of sequences over the models whose invariants are tested, and comparison of what they
/// leave.
namespace deepinfer::test {

inline constexpr model::numeric_level all_levels[] = {
    model::numeric_level::L0, model::numeric_level::L1, model::numeric_level::L2};

/// `mini`, `mini8`, `mini12`, or the bundled model under the name `tiny`. Options are taken as they
/// are: without `kept_rows`, decoder replay is on.
inline std::unique_ptr<model::v41_model> load_named(std::string_view name,
                                                    const model::v41_options& options) {
  const auto folder = name == "tiny"
                          ? std::filesystem::path(source_path("examples/models/tiny-v41"))
                          : mini_checkpoint(name);
  auto loaded = model::v41_model::load(folder, options);
  REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().detail));
  return *std::move(loaded);
}

/// The state as parts. The layout fingerprint is blanked: it names the setting, not the state.
inline std::vector<model::state_part> state_of(const model::step_model& model,
                                               const model::sequence& of) {
  auto parts = model.export_state(of);
  REQUIRE(parts.back().kind == model::part_kind::state);
  std::memset(parts.back().bytes.data() + 8, 0, 8);
  return parts;
}

/// Names the first part in which two states differ; empty when they are the same.
inline std::string difference(std::span<const model::state_part> a,
                              std::span<const model::state_part> b) {
  if (a.size() != b.size())
    return std::to_string(a.size()) + " parts and " + std::to_string(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string name =
        "part " + std::to_string(static_cast<int>(a[i].kind)) + "." + std::to_string(a[i].index);
    if (a[i].kind != b[i].kind || a[i].index != b[i].index) return name + ": another part";
    if (a[i].bytes.size() != b[i].bytes.size()) return name + ": another size";
    const auto at = std::ranges::mismatch(a[i].bytes, b[i].bytes).in1;
    if (at != a[i].bytes.end())
      return name + ": byte " + std::to_string(at - a[i].bytes.begin()) + " of " +
             std::to_string(a[i].bytes.size());
  }
  return {};
}

inline std::string difference(const model::step_model& model_a,
                              const model::sequence& a,
                              const model::step_model& model_b,
                              const model::sequence& b) {
  return difference(state_of(model_a, a), state_of(model_b, b));
}

/// One ring of a ring part: first held position, and the rows behind each other.
struct ring_view {
  uint32_t first = 0;
  std::vector<std::byte> rows;
};

inline std::vector<ring_view> rings_of(std::span<const model::state_part> parts,
                                       uint32_t number,
                                       uint32_t computed,
                                       size_t row_bytes) {
  std::vector<ring_view> out;
  for (const model::state_part& part : parts) {
    if (part.kind != model::part_kind::ring || part.index != number) continue;
    for (size_t at = 0; at < part.bytes.size();) {
      ring_view& ring = out.emplace_back();
      std::memcpy(&ring.first, part.bytes.data() + at, sizeof ring.first);
      at += sizeof ring.first;
      const size_t size = (computed - ring.first) * row_bytes;
      REQUIRE(at + size <= part.bytes.size());
      ring.rows.assign(part.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                       part.bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
      at += size;
    }
  }
  return out;
}

/// A prompt, how it is continued, and its images.
struct prompt_case {
  std::vector<int32_t> tokens;
  std::vector<model::image_rows> images;
  model::sampling_params sampling;

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
};

/// Random prompts of text for one model, some with images of random rows.
class prompt_maker {
public:
  prompt_maker(const model::v41_model& model, uint64_t seed)
      : config_(model.config()), random_{seed} {}

  prompt_case text(uint32_t count) {
    prompt_case out;
    out.tokens.resize(count);
    for (int32_t& token : out.tokens) {
      token = static_cast<int32_t>(random_.below(config_.vocabulary));
      if (token == config_.image_token) token = 0;
    }
    return out;
  }

  /// Puts an image over [position, position + count), which must lie behind earlier images.
  void add_image(prompt_case& to, uint32_t position, uint32_t count) {
    auto& rows = *rows_.emplace_back(std::make_unique<std::vector<float>>(count * config_.width));
    for (float& v : rows) v = static_cast<float>(random_.real() - 0.5);
    for (uint32_t i = 0; i < count; ++i) to.tokens[position + i] = config_.image_token;
    to.images.push_back({position, count, rows.data()});
  }

  /// A third of the time greedy, otherwise with temperature and sometimes a nucleus.
  model::sampling_params sampling() {
    if (random_.below(3) == 0) return {};
    return {.temperature = 1,
            .top_p = random_.below(2) == 0 ? 0.8f : 1.0f,
            .seed = random_.below(1000)};
  }

  rng& random() { return random_; }

private:
  const model::v41_config& config_;
  rng random_;
  std::vector<std::unique_ptr<std::vector<float>>> rows_;
};

/// The step item that computes `count` tokens of the prompt from where the sequence stands, and
/// samples behind the last of them.
inline model::step_item chunk_of(const prompt_case& prompt,
                                 model::sequence& target,
                                 uint32_t count) {
  const uint32_t at = target.computed_tokens();
  model::step_item item;
  item.target = &target;
  item.tokens = std::span(prompt.tokens).subspan(at, count);
  item.tokens_to_come = prompt.size() - at - count;
  item.images = prompt.images;
  item.sample = item.tokens_to_come == 0;
  item.sampling = prompt.sampling;
  return item;
}

/// Feeds the rest of the prompt in one step; the token behind it.
inline int32_t feed(model::step_model& model, const prompt_case& prompt, model::sequence& target) {
  model::step_item item = chunk_of(prompt, target, prompt.size() - target.computed_tokens());
  model.step({&item, 1});
  REQUIRE_FALSE(item.failed);
  return item.sampled;
}

/// The prompt's tokens up to `end`, which is not its end.
inline void feed_until(model::step_model& model,
                       const prompt_case& prompt,
                       model::sequence& target,
                       uint32_t end) {
  model::step_item item = chunk_of(prompt, target, end - target.computed_tokens());
  item.sample = false;
  model.step({&item, 1});
  REQUIRE_FALSE(item.failed);
}

/// At least `count` more tokens, with up to `drafts` verified a step.
inline std::vector<int32_t> continued(model::step_model& model,
                                      model::sequence& target,
                                      const model::sampling_params& sampling,
                                      uint32_t count,
                                      uint32_t drafts = 0) {
  std::vector<int32_t> out;
  while (out.size() < count) {
    model::step_item item = test::sampling(target, {}, sampling);
    item.draft_tokens = drafts;
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.insert(out.end(), item.accepted.begin(), item.accepted.end());
    out.push_back(item.sampled);
  }
  return out;
}

}  // namespace deepinfer::test
