#include "runtime/schedule/step_planner.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::schedule;

namespace {

struct watched {
  slot_request what;
  uint32_t computed = 0;
  uint32_t outputs = 0;
  uint32_t in_flight = 0;
  bool finished = false;
};

}  // namespace

TEST_SUITE("runtime/schedule") {
  TEST_CASE("a sequence is computed position by position, once, to its last output") {
    step_planner planner{{.chunk_tokens = 4}};
    const auto id = planner.add({.prefill_tokens = 10, .max_outputs = 3, .credit = 3});
    REQUIRE(id);
    std::vector<std::pair<uint32_t, uint32_t>> rows;
    std::vector<uint64_t> open;
    while (auto step = planner.plan()) {
      for (const auto& row : step->rows) rows.emplace_back(row.first, row.count);
      planner.complete(step->number);
    }
    const std::vector<std::pair<uint32_t, uint32_t>> want{{0, 4}, {4, 4}, {8, 2}, {10, 1}, {11, 1}};
    CHECK(rows == want);
    planner.finish(*id);
    CHECK(planner.freed() == std::vector{*id});
    CHECK(planner.idle());
  }

  TEST_CASE("chunk borders do not move with the start of the prefill") {
    step_planner planner{{.chunk_tokens = 8}};
    REQUIRE(
        planner.add({.prefill_tokens = 10, .computed_tokens = 5, .max_outputs = 1, .credit = 1}));
    const auto first = planner.plan();
    REQUIRE(first);
    CHECK(first->rows[0].first == 5);
    CHECK(first->rows[0].count == 3);
  }

  TEST_CASE("no more steps than configured are in flight") {
    step_planner planner{{.chunk_tokens = 1, .steps_in_flight = 2}};
    REQUIRE(planner.add({.prefill_tokens = 9, .max_outputs = 1, .credit = 1}));
    const auto a = planner.plan();
    const auto b = planner.plan();
    REQUIRE(a);
    REQUIRE(b);
    CHECK_FALSE(planner.plan());
    planner.complete(a->number);
    CHECK(planner.plan());
  }

  TEST_CASE("a finished slot is freed only after the last step that refers to it") {
    step_planner planner{{}};
    const auto id = planner.add({.prefill_tokens = 1, .max_outputs = 9, .credit = 9});
    const auto a = planner.plan();
    const auto b = planner.plan();
    planner.finish(*id);
    CHECK(planner.freed().empty());
    planner.complete(a->number);
    CHECK(planner.freed().empty());
    planner.complete(b->number);
    CHECK(planner.freed() == std::vector{*id});
  }

  TEST_CASE("without credit a sequence waits, and goes on when it is granted") {
    step_planner planner{{}};
    const auto id = planner.add({.prefill_tokens = 1, .max_outputs = 5, .credit = 2});
    for (int i = 0; i < 2; ++i) planner.complete(planner.plan()->number);
    CHECK_FALSE(planner.plan());
    planner.grant(*id, 1);
    CHECK(planner.plan());
    CHECK_FALSE(planner.plan());
  }

  TEST_CASE("a newcomer gets into the next step although running sequences could fill it") {
    step_planner planner{{.step_tokens = 2}};
    for (int i = 0; i < 2; ++i) {
      REQUIRE(planner.add({.prefill_tokens = 1, .max_outputs = 1000, .credit = 1000}));
      planner.complete(planner.plan()->number);
    }
    const auto late = planner.add({.prefill_tokens = 1, .max_outputs = 5, .credit = 5});
    const auto step = planner.plan();
    REQUIRE(step);
    CHECK(std::any_of(step->rows.begin(), step->rows.end(),
                      [&](const planned_row& row) { return row.slot == *late; }));
  }

  TEST_CASE("a held sequence is passed by others, and gets its place in its turn when it arrived") {
    step_planner planner{{.max_sequences = 1}};
    const auto held =
        planner.add({.prefill_tokens = 300, .max_outputs = 1, .credit = 1, .held = true});
    const auto first = planner.add({.prefill_tokens = 5, .max_outputs = 1, .credit = 1});
    const auto second = planner.add({.prefill_tokens = 5, .max_outputs = 1, .credit = 1});
    CHECK(planner.load().waiting == 2);
    CHECK(planner.load().queued_tokens == 310);
    const auto step = planner.plan();
    REQUIRE(step);
    CHECK(step->rows[0].slot == *first);
    planner.arrived(*held);
    CHECK(planner.placed().empty());
    planner.complete(step->number);
    planner.finish(*first);
    CHECK(planner.placed() == std::vector{*held});
    CHECK(planner.placed().empty());
    CHECK_FALSE(planner.plan());  // nothing is computed before its state is begun
    planner.begin(*held, 256);
    const auto rest = planner.plan();
    REQUIRE(rest);
    CHECK(rest->rows[0].slot == *held);
    CHECK(rest->rows[0].first == 256);
    CHECK(rest->rows[0].count == 44);
    CHECK(rest->rows[0].sample);
    planner.finish(*held);
    planner.finish(*second);
    planner.complete(rest->number);
    CHECK(planner.idle());
  }

  TEST_CASE("a hold that ends without anything waits for its turn as any other") {
    step_planner planner{{.max_sequences = 1}};
    const auto running = planner.add({.prefill_tokens = 5, .max_outputs = 1, .credit = 1});
    const auto held =
        planner.add({.prefill_tokens = 9, .max_outputs = 1, .credit = 1, .held = true});
    planner.begin(*held, 0);
    planner.complete(planner.plan()->number);
    CHECK_FALSE(planner.plan());
    planner.finish(*running);
    CHECK(planner.placed().empty());
    CHECK(planner.plan()->rows[0].first == 0);
  }

  TEST_CASE("a held sequence is due when the next step would have room for it") {
    const slot_request held{.prefill_tokens = 40, .max_outputs = 1, .credit = 1, .held = true};
    slot_request plain = held;
    plain.held = false;
    step_planner planner{
        {.max_sequences = 2, .step_tokens = 64, .chunk_tokens = 64, .steps_in_flight = 1}};
    const auto first = planner.add(held);
    CHECK(planner.due() == std::vector{*first});
    const auto second = planner.add(plain);
    CHECK(planner.due() == std::vector{*first});  // added before, so before it
    const auto third = planner.add(held);
    CHECK(planner.due() == std::vector{*first});  // no room in the step, and no place
    const auto step = planner.plan();
    REQUIRE(step);
    CHECK(planner.due().empty());  // no step can be planned
    planner.complete(step->number);
    planner.finish(*second);
    CHECK(planner.due() == std::vector{*first});  // 80 tokens are more than a step
    planner.arrived(*first);
    CHECK(planner.due() == std::vector{*third});
    planner.begin(*first, 0);
    CHECK(planner.due().empty());
    planner.finish(*first);
    CHECK(planner.due() == std::vector{*third});
    planner.finish(*third);
    CHECK(planner.due().empty());
  }

  TEST_CASE("who is due is computed in the very next step, and the first who is not is not") {
    int dues = 0, not_due = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      step_planner planner{{.max_sequences = 4,
                            .step_tokens = 1 + static_cast<uint32_t>(random.below(64)),
                            .chunk_tokens = 1 + static_cast<uint32_t>(random.below(32)),
                            .state_tokens = 200,
                            .steps_in_flight = 1 + static_cast<uint32_t>(random.below(2))}};
      std::vector<slot_id> held;
      std::vector<uint64_t> open;
      for (int round = 0; round < 60; ++round) {
        slot_request r{.prefill_tokens = 1 + static_cast<uint32_t>(random.below(60)),
                       .max_outputs = 1 + static_cast<uint32_t>(random.below(4)),
                       .credit = static_cast<uint32_t>(random.below(5)),
                       .held = random.below(2) == 0};
        if (random.below(3) == 0) {
          const auto id = planner.add(r);
          if (id && r.held) held.push_back(*id);
        }
        const auto due = planner.due();
        step_planner then = planner;
        for (const slot_id id : due) then.begin(id, 0);
        const auto step = then.plan();
        std::set<slot_id> rows;
        if (step)
          for (const auto& row : step->rows) rows.insert(row.slot);
        for (const slot_id id : due) CHECK(rows.contains(id));
        dues += static_cast<int>(due.size());
        const auto missed = std::find_if(held.begin(), held.end(), [&due](slot_id id) {
          return std::find(due.begin(), due.end(), id) == due.end();
        });
        if (missed != held.end()) {
          step_planner other = planner;
          for (const slot_id id : due)
            if (id < *missed) other.begin(id, 0);
          other.begin(*missed, 0);
          const auto without = other.plan();
          if (without)
            for (const auto& row : without->rows) CHECK(row.slot != *missed);
          ++not_due;
        }
        if (!held.empty() && random.below(4) == 0) {
          const size_t at = random.below(held.size());
          planner.begin(held[at], 0);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        }
        if (random.below(2) == 0)
          if (const auto real = planner.plan()) open.push_back(real->number);
        if (!open.empty() && random.below(2) == 0) {
          planner.complete(open.front());
          open.erase(open.begin());
        }
        for (const slot_id id : planner.freed()) std::erase(held, id);
        static_cast<void>(planner.placed());
        if (random.below(10) == 0 && !held.empty()) {
          planner.finish(held.front());
          held.erase(held.begin());
        }
      }
    }
    CHECK(dues > 500);
    CHECK(not_due > 500);
  }

  TEST_CASE("a held sequence that is finished is freed, wherever it stood") {
    step_planner planner{{.max_sequences = 1}};
    const slot_request what{.prefill_tokens = 9, .max_outputs = 1, .credit = 1, .held = true};
    const auto placed = planner.add(what);
    const auto waiting = planner.add(what);
    planner.arrived(*placed);
    planner.finish(*placed);
    CHECK(planner.placed().empty());
    planner.finish(*waiting);
    CHECK(planner.freed() == std::vector{*placed, *waiting});
    CHECK(planner.load().free_tokens == planner_config{}.state_tokens);
  }

  TEST_CASE("a restarted sequence is computed from position 0 to its output") {
    step_planner planner{{.chunk_tokens = 64}};
    const auto id =
        planner.add({.prefill_tokens = 300, .max_outputs = 1, .credit = 1, .held = true});
    planner.arrived(*id);
    planner.begin(*id, 256);
    const auto lost = planner.plan();
    REQUIRE(lost);
    CHECK(lost->rows[0].sample);
    planner.restart(*id);
    planner.complete(lost->number);
    CHECK(planner.freed().empty());
    uint32_t next = 0;
    while (auto step = planner.plan()) {
      CHECK(step->rows[0].first == next);
      next += step->rows[0].count;
      planner.complete(step->number);
    }
    CHECK(next == 300);
    planner.finish(*id);
    CHECK(planner.load().free_tokens == planner_config{}.state_tokens);
  }

  TEST_CASE("a chunk ends where it is asked to, and rows say when they end a block") {
    step_planner planner{{.chunk_tokens = 256}};
    REQUIRE(planner.add({.prefill_tokens = 450, .max_outputs = 1, .credit = 1, .cut_at = 384}));
    std::vector<std::pair<uint32_t, bool>> ends;
    while (auto step = planner.plan()) {
      ends.emplace_back(step->rows[0].first + step->rows[0].count, step->rows[0].ends_block);
      planner.complete(step->number);
    }
    CHECK(ends == std::vector<std::pair<uint32_t, bool>>{{256, true}, {384, true}, {450, false}});
    step_planner decoding{{}};
    REQUIRE(
        decoding.add({.prefill_tokens = 1, .computed_tokens = 126, .max_outputs = 3, .credit = 3}));
    for (const bool end : {false, true, false}) {
      const auto step = decoding.plan();
      CHECK(step->rows[0].ends_block == end);
      decoding.complete(step->number);
    }
  }

  TEST_CASE("random holds: no row before the state is begun, every position once, all space back") {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const planner_config config{.max_sequences = 1 + random.below(4),
                                  .step_tokens = 1 + random.below(12),
                                  .chunk_tokens = 1 + random.below(6),
                                  .state_tokens = 40 + random.below(60),
                                  .steps_in_flight = 1 + random.below(3),
                                  .block_tokens = 4};
      step_planner planner{config};
      struct held_slot {
        uint32_t total = 0, next = 0, life = 0;
        bool begun = false, placed = false, finished = false;
      };
      std::map<slot_id, held_slot> all;
      std::vector<step_plan> open;
      size_t freed = 0;
      for (int step = 0; step < 500; ++step) {
        const uint32_t what = random.below(8);
        auto it = all.begin();
        if (!all.empty()) std::advance(it, random.below(static_cast<uint32_t>(all.size())));
        if (what == 0) {
          const slot_request r{.prefill_tokens = 2 + random.below(20),
                               .max_outputs = 1,
                               .credit = 1,
                               .cut_at = random.below(3) * 4,
                               .held = random.below(3) != 0};
          if (const auto id = planner.add(r))
            all.emplace(*id, held_slot{r.prefill_tokens, 0, 0, !r.held, false, false});
        } else if (what == 1 && !all.empty()) {
          planner.arrived(it->first);
        } else if (what == 2 && !all.empty() && !it->second.finished && !it->second.begun) {
          held_slot& s = it->second;
          s.next = s.placed ? random.below(s.total) : 0;
          s.begun = true;
          planner.begin(it->first, s.next);
        } else if (what == 3 && !all.empty() && it->second.begun && !it->second.finished) {
          planner.restart(it->first);
          it->second.next = 0;
        } else if (what == 4 && !all.empty() && random.below(3) == 0) {
          planner.finish(it->first);
          it->second.finished = true;
        } else if (what == 5 && !open.empty()) {
          planner.complete(open.front().number);
          open.erase(open.begin());
        } else if (auto plan = planner.plan()) {
          for (const planned_row& row : plan->rows) {
            held_slot& s = all.at(row.slot);
            REQUIRE(s.begun);
            REQUIRE_FALSE(s.finished);
            REQUIRE(row.first == s.next);
            s.next += row.count;
            REQUIRE(s.next <= s.total);
            REQUIRE(row.sample == (s.next == s.total));
            REQUIRE(row.ends_block == (s.next % 4 == 0));
          }
          open.push_back(*std::move(plan));
        }
        for (const slot_id id : planner.placed()) {
          held_slot& s = all.at(id);
          REQUIRE_FALSE(s.begun);
          REQUIRE_FALSE(std::exchange(s.placed, true));
        }
        freed += planner.freed().size();
        REQUIRE(planner.load().running <= config.max_sequences);
        REQUIRE(planner.load().running + planner.load().waiting == all.size() - freed);
      }
      for (const auto& [id, s] : all) planner.finish(id);
      for (const auto& plan : open) planner.complete(plan.number);
      freed += planner.freed().size();
      CHECK(freed == all.size());
      CHECK(planner.idle());
      CHECK(planner.load().free_tokens == config.state_tokens);
    }
  }

  TEST_CASE("limits refuse with what to do") {
    step_planner planner{{.max_sequences = 1, .max_waiting = 1, .state_tokens = 100}};
    CHECK(planner.add({.prefill_tokens = 99, .max_outputs = 2, .credit = 1}).error().code ==
          error_code::invalid_argument);
    CHECK(planner.add({.prefill_tokens = 0, .max_outputs = 2, .credit = 1}).error().code ==
          error_code::invalid_argument);
    CHECK(planner.add({.prefill_tokens = 5, .max_outputs = 2, .credit = 1}));
    CHECK(planner.add({.prefill_tokens = 5, .max_outputs = 2, .credit = 1}));
    CHECK(planner.add({.prefill_tokens = 5, .max_outputs = 2, .credit = 1}).error().code ==
          error_code::no_capacity);
  }

  TEST_CASE("random load: every position once and in order, bounds kept, all space back") {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const planner_config config{.max_sequences = 1 + random.below(5),
                                  .max_waiting = random.below(6),
                                  .step_tokens = 1 + random.below(12),
                                  .chunk_tokens = 1 + random.below(6),
                                  .state_tokens = 40 + random.below(60),
                                  .steps_in_flight = 1 + random.below(3)};
      step_planner planner{config};
      std::map<slot_id, watched> all;
      std::vector<step_plan> open;
      std::set<slot_id> freed;
      const auto collect = [&] {
        for (const slot_id id : planner.freed()) {
          REQUIRE(freed.insert(id).second);
          REQUIRE(all.at(id).in_flight == 0);
          REQUIRE(all.at(id).finished);
        }
      };
      for (int step = 0; step < 400; ++step) {
        const uint32_t what = random.below(6);
        if (what == 0 && step < 300) {
          slot_request r{1 + random.below(15), random.below(10), 1 + random.below(6),
                         random.below(3)};
          if (const auto id = planner.add(r)) all.emplace(*id, watched{r, r.computed_tokens});
        } else if (what == 1 && !all.empty()) {
          auto it = all.begin();
          std::advance(it, random.below(static_cast<uint32_t>(all.size())));
          if (random.below(3) != 0 && step < 300) {
            planner.grant(it->first, 2);
            it->second.what.credit += 2;
          } else {
            planner.finish(it->first);
            it->second.finished = true;
          }
        } else if (what == 2 && !open.empty()) {
          for (const auto& row : open.front().rows) --all.at(row.slot).in_flight;
          planner.complete(open.front().number);
          open.erase(open.begin());
        } else if (auto plan = planner.plan()) {
          REQUIRE(open.size() < config.steps_in_flight);
          REQUIRE((plan->tokens <= config.step_tokens || plan->rows.size() == 1));
          for (const auto& row : plan->rows) {
            watched& w = all.at(row.slot);
            REQUIRE_FALSE(w.finished);
            REQUIRE(row.first == w.computed);
            w.computed += row.count;
            ++w.in_flight;
            if (row.sample) ++w.outputs;
            REQUIRE(w.outputs <= w.what.max_outputs);
            REQUIRE(w.outputs <= w.what.credit);
            if (row.prefill) REQUIRE(w.computed <= w.what.computed_tokens + w.what.prefill_tokens);
          }
          open.push_back(*std::move(plan));
        }
        collect();
        uint64_t running = 0;
        for (const auto& [id, w] : all) running += freed.contains(id) ? 0 : 1;
        REQUIRE(planner.load().running + planner.load().waiting == running);
        REQUIRE(planner.load().running <= config.max_sequences);
      }
      for (const auto& [id, w] : all) planner.finish(id);
      for (auto& [id, w] : all) w.finished = true;
      for (const auto& plan : open) {
        for (const auto& row : plan.rows) --all.at(row.slot).in_flight;
        planner.complete(plan.number);
      }
      collect();
      CHECK(planner.idle());
      CHECK(freed.size() == all.size());
      CHECK(planner.load().free_tokens == config.state_tokens);
    }
  }
}
