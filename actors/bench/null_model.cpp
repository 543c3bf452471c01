#include "actors/bench/null_model.hpp"

#include <poll.h>
#include <time.h>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace deepinfer::bench {
namespace {

constexpr int32_t stop_token = 0;

class null_sequence final : public model::sequence {
public:
  explicit null_sequence(uint32_t computed) : computed_(computed) {}
  [[nodiscard]] uint32_t computed_tokens() const override { return computed_; }
  [[nodiscard]] uint64_t state_bytes() const override { return sizeof computed_; }
  void add(uint32_t tokens) { computed_ += tokens; }

private:
  uint32_t computed_;
};

class null_model final : public model::step_model {
public:
  explicit null_model(const null_model_options& options) : options_(options) {
    info_.name = "null";
    info_.vocabulary = uint32_t{1} << 31;
    info_.context_limit = 1u << 20;
    info_.stop_tokens = {stop_token};
    info_.layout = 1;
    info_.state_bytes_fixed = sizeof(uint32_t);
  }

  [[nodiscard]] const model::model_info& info() const override { return info_; }
  [[nodiscard]] std::unique_ptr<model::sequence> make_sequence() const override {
    return std::make_unique<null_sequence>(0);
  }

  void step(std::span<model::step_item> items) override {
    wait();
    const int32_t now = stamp_now();
    for (model::step_item& item : items) {
      auto& target = static_cast<null_sequence&>(*item.target);
      target.add(item.tokens.empty() ? 1 : static_cast<uint32_t>(item.tokens.size()));
      if (!item.sample) continue;
      item.sampled = now;
      if (item.sampling.logprobs != 0)
        item.logprobs.assign(1, {0, std::vector<scored_token>(item.sampling.logprobs - 1)});
      target.set_last_sampled(now);
    }
  }

  [[nodiscard]] std::vector<model::state_part> export_state(
      const model::sequence& from) const override {
    model::state_part part;
    const uint32_t computed = from.computed_tokens();
    part.bytes.resize(sizeof computed);
    std::memcpy(part.bytes.data(), &computed, sizeof computed);
    std::vector<model::state_part> parts;
    parts.push_back(std::move(part));
    return parts;
  }

  [[nodiscard]] result<std::unique_ptr<model::sequence>> import_state(
      std::span<const model::state_part> parts, std::span<const int32_t> tokens) const override {
    uint32_t computed = 0;
    if (parts.size() == 1 && parts[0].bytes.size() == sizeof computed)
      std::memcpy(&computed, parts[0].bytes.data(), sizeof computed);
    if (computed != tokens.size())
      return failure{error_code::corrupt, "the state does not belong to these tokens"};
    return std::unique_ptr<model::sequence>{std::make_unique<null_sequence>(computed)};
  }

private:
  // A step ends on the beat, not one pause after the call: what the engine does between two steps
  // is hidden behind the computation, as with a device.
  void wait() {
    if (options_.step.count() == 0) return;
    const auto now = std::chrono::steady_clock::now();
    beat_ = std::max(beat_ + options_.step, now);
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(beat_ - now);
    const timespec pause{static_cast<time_t>(left.count() / 1'000'000'000),
                         static_cast<long>(left.count() % 1'000'000'000)};
    ::ppoll(nullptr, 0, &pause, nullptr);
  }

  null_model_options options_;
  model::model_info info_;
  std::chrono::steady_clock::time_point beat_{};
};

}  // namespace

std::shared_ptr<model::step_model> make_null_model(const null_model_options& options) {
  return std::make_shared<null_model>(options);
}

int32_t stamp_now() {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count();
  // Never the stop token.
  return static_cast<int32_t>((us & std::numeric_limits<int32_t>::max()) | 1);
}

int32_t stamp_age(int32_t then, int32_t now) {
  return (now - then) & std::numeric_limits<int32_t>::max();
}

}  // namespace deepinfer::bench
