#include "runtime/model/swap_landing.hpp"

#include "proto/types/check.hpp"

#include <string>
#include <utility>
#include <vector>

namespace deepinfer::model {
namespace {

class landing_swap_in final : public swap_in {
public:
  explicit landing_swap_in(const std::shared_ptr<swap_landing>& to)
      : to_(to),
        blocks_(to->blocks()),
        stages_(to->stages(), {std::vector<bool>(blocks_, false), blocks_, false}) {}

  [[nodiscard]] uint32_t stages() const override { return static_cast<uint32_t>(stages_.size()); }
  [[nodiscard]] uint32_t blocks() const override { return blocks_; }

  result<void> load(uint32_t stage, uint32_t block, std::span<const std::byte> whole) override {
    if (stage >= stages() || block >= blocks_)
      return failure{error_code::invalid_argument,
                     "a hit of " + std::to_string(stages()) + " stages and " +
                         std::to_string(blocks_) + " blocks has no place " + std::to_string(stage) +
                         "." + std::to_string(block)};
    stage_log& log = stages_[stage];
    if (log.ready)
      return failure{error_code::invalid_argument, "the stage is ready: it may be read already"};
    const std::shared_ptr<swap_landing> to = to_.lock();
    if (to == nullptr) return {};
    if (whole.size() != to->bytes_of(block))
      return failure{error_code::invalid_argument,
                     "block " + std::to_string(block) + " of the prefix has " +
                         std::to_string(whole.size()) + " bytes instead of " +
                         std::to_string(to->bytes_of(block))};
    to->land(stage, block, whole);
    if (!log.loaded[block]) --log.missing;
    log.loaded[block] = true;
    return {};
  }

  void ready(uint32_t stage) override {
    DEEPINFER_CHECK(stage < stages());
    stage_log& log = stages_[stage];
    log.ready = true;
    const std::shared_ptr<swap_landing> to = to_.lock();
    if (to == nullptr) return;
    if (log.missing != 0) {
      to->gate.give_up();
    } else {
      to->gate.open(stage);
    }
  }

  void give_up() override {
    if (const std::shared_ptr<swap_landing> to = to_.lock()) to->gate.give_up();
  }

private:
  struct stage_log {
    std::vector<bool> loaded;  ///< [blocks]
    uint32_t missing;
    bool ready;
  };

  std::weak_ptr<swap_landing> to_;
  uint32_t blocks_;
  std::vector<stage_log> stages_;
};

}  // namespace

std::shared_ptr<swap_in> make_swap_in(const std::shared_ptr<swap_landing>& to) {
  return std::make_shared<landing_swap_in>(to);
}

result<void> load_all(swap_in& to, std::span<const std::span<const std::byte>> blocks) {
  for (uint32_t stage = 0; stage < to.stages(); ++stage) {
    for (uint32_t block = 0; block < blocks.size(); ++block)
      if (auto done = to.load(stage, block, blocks[block]); !done) return done.error();
    to.ready(stage);
  }
  return {};
}

}  // namespace deepinfer::model
