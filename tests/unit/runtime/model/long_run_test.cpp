#include "tests/unit/runtime/model/sequence_runs.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

// Decode steps of the run; DEEPINFER_LONG_RUN_STEPS=10000 for the figure of record.
uint32_t steps_wanted() {
  const char* text = std::getenv("DEEPINFER_LONG_RUN_STEPS");
  const long steps = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return steps <= 0 ? 800 : static_cast<uint32_t>(std::min(steps, 1'000'000l));
}

uint64_t resident_bytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Pages of rows are taken whole, so a store holds up to one page more than its rows.
uint64_t state_bound(const v41_model& model, uint32_t tokens) {
  const model_info& info = model.info();
  const uint64_t page =
      row_pages::page_rows * info.state_bytes_per_token * model.config().kv_sources.size() * 2;
  return info.state_bytes_fixed + uint64_t{tokens} * info.state_bytes_per_token + page;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("a long run holds its sequences' state and no more with every step") {
    constexpr uint64_t slack = uint64_t{512} << 10;  // of the allocator
    constexpr uint32_t sequences = 8;
    const uint32_t steps = steps_wanted(), each = std::clamp(steps / sequences, 1u, 7000u);
    const auto model = test::load_named("tiny", {.draft_tokens = 5});
    test::prompt_maker maker(*model, 21);
    uint64_t behind_first = 0, highest = 0, largest_state = 0;
    uint32_t done = 0;
    // The first sequence touches weights and scratch memory; the others must not need more.
    for (uint32_t number = 0; done < steps; ++number) {
      {
        const auto target = model->make_sequence();
        test::feed(*model, maker.text(300), *target);
        for (uint32_t i = 0; i < each; ++i, ++done) {
          step_item item = test::sampling(*target, {}, {.temperature = 1, .seed = number});
          item.draft_tokens = number % 2 == 0 ? 3 : 0;
          if (target->computed_tokens() + 4 > model->info().context_limit) break;
          model->step({&item, 1});
          REQUIRE_FALSE(item.failed);
          REQUIRE(target->state_bytes() <= state_bound(*model, target->computed_tokens()));
        }
        largest_state = std::max(largest_state, target->state_bytes());
        if (number != 0) highest = std::max(highest, resident_bytes());
      }
      if (number == 0) behind_first = resident_bytes();
    }
    MESSAGE(done, " decode steps: largest state ", largest_state, " bytes; resident ",
            behind_first >> 10, " KiB behind the first sequence, then at most ", highest >> 10,
            " KiB");
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
    CHECK(highest <= behind_first + largest_state + slack);
#endif
  }
}
