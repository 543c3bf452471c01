#include "runtime/schedule/request_machine.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::schedule;
using namespace std::chrono_literals;

namespace {

const engine_key prefill_engine{{1, 1}, 10};
const engine_key decode_engine{{1, 2}, 20};
const failure gone{error_code::unreachable, "gone"};

/// Carries out effects on paper and checks the invariants that hold for every request.
struct ledger {
  std::vector<int32_t> emitted;
  int ended = 0;
  end_reason reason{};
  failure why;
  std::optional<ask_route> asked;
  std::optional<submit_prefill> prefill;
  std::optional<submit_decode> decode;
  uint32_t credit = 0;
  int released = 0;
  int cancelled = 0;

  void apply(const effects& list) {
    for (const effect& e : list) {
      REQUIRE(ended == 0);  // nothing comes after the end
      if (const auto* ask = std::get_if<ask_route>(&e)) asked = *ask;
      if (const auto* p = std::get_if<submit_prefill>(&e)) prefill = *p;
      if (const auto* d = std::get_if<submit_decode>(&e)) decode = *d, credit = d->credit;
      if (const auto* g = std::get_if<grant_credit>(&e)) credit += g->outputs;
      if (std::holds_alternative<release_sequence>(e)) ++released;
      if (std::holds_alternative<cancel_leg>(e)) ++cancelled;
      if (const auto* t = std::get_if<emit_tokens>(&e)) {
        REQUIRE(t->first_index == emitted.size());
        emitted.insert(emitted.end(), t->ids.begin(), t->ids.end());
      }
      if (const auto* end = std::get_if<end_request>(&e))
        ++ended, reason = end->reason, why = end->why;
    }
  }
};

request_machine to_decoding(ledger& book, const request_limits& limits = {}) {
  request_machine m{limits, 0ms, 60s};
  book.apply(m.start());
  book.apply(m.routed(engine_role::prefill, prefill_engine));
  book.apply(m.accepted(m.leg()));
  book.apply(m.sequence_ready(m.leg(), 0, 100, std::nullopt, 0ms));
  book.apply(m.routed(engine_role::decode, decode_engine));
  book.apply(m.accepted(m.leg()));
  return m;
}

}  // namespace

TEST_SUITE("runtime/schedule") {
  TEST_CASE("the straight way: prefill, hand-over, decode, end") {
    ledger book;
    request_machine m = to_decoding(book);
    CHECK(m.state() == request_state::decoding);
    CHECK(book.released == 1);
    const std::vector<int32_t> ids{101, 102};
    book.apply(m.tokens(m.leg(), 1, ids, std::nullopt, {}, 1s));
    book.apply(m.tokens(m.leg(), 3, std::vector<int32_t>{103}, end_reason::stop, {}, 1s));
    CHECK(book.emitted == std::vector<int32_t>{100, 101, 102, 103});
    CHECK(book.ended == 1);
    CHECK(book.reason == end_reason::stop);
    CHECK(book.cancelled == 0);
  }

  TEST_CASE("repeated tokens are dropped, a gap restarts the leg from what is known") {
    ledger book;
    request_machine m = to_decoding(book);
    const std::vector<int32_t> ids{101, 102};
    book.apply(m.tokens(m.leg(), 1, ids, std::nullopt, {}, 1s));
    book.apply(m.tokens(m.leg(), 1, ids, std::nullopt, {}, 1s));
    CHECK(book.emitted.size() == 3);
    const auto old_leg = m.leg();
    book.apply(m.tokens(m.leg(), 9, ids, std::nullopt, {}, 1s));
    CHECK(m.state() == request_state::routing_prefill);
    book.apply(m.tokens(old_leg, 3, ids, std::nullopt, {}, 1s));
    CHECK(book.emitted.size() == 3);
    book.apply(m.routed(engine_role::prefill, prefill_engine));
    CHECK(book.prefill->emitted == 3);
  }

  TEST_CASE("the loss of an engine leads to another one, as often as allowed") {
    ledger book;
    request_machine m = to_decoding(book, {.reroutes = 1});
    book.apply(m.engine_down(prefill_engine, 1s));  // no part of it any more
    CHECK(m.state() == request_state::decoding);
    book.apply(m.engine_down(decode_engine, 1s));
    CHECK(m.state() == request_state::routing_prefill);
    CHECK(book.asked->exclude == std::vector{decode_engine});
    book.apply(m.routed(engine_role::prefill, prefill_engine));
    book.apply(m.engine_down(prefill_engine, 1s));
    CHECK(book.ended == 1);
    CHECK(book.why.code == error_code::unreachable);
  }

  TEST_CASE("the prefill engine's death during the hand-over is noticed") {
    ledger book;
    request_machine m{{}, 0ms, 60s};
    book.apply(m.start());
    book.apply(m.routed(engine_role::prefill, prefill_engine));
    book.apply(m.sequence_ready(m.leg(), 0, 100, std::nullopt, 0ms));
    book.apply(m.engine_down(prefill_engine, 1s));
    CHECK(m.state() == request_state::routing_prefill);
  }

  TEST_CASE("a full engine is asked again until the wait is over, a wrong request fails at once") {
    ledger book;
    request_machine m{{}, 0ms, 60s};
    book.apply(m.start());
    book.apply(m.routed(engine_role::prefill, prefill_engine));
    book.apply(m.refused(m.leg(), {error_code::no_capacity, ""}, 1s));
    CHECK(m.state() == request_state::routing_prefill);
    CHECK(m.reroutes() == 0);
    book.apply(m.route_failed(engine_role::prefill, {error_code::no_capacity, ""}, 2999ms));
    CHECK(book.ended == 0);
    book.apply(m.route_failed(engine_role::prefill, {error_code::no_capacity, ""}, 3000ms));
    CHECK(book.why.code == error_code::no_capacity);

    ledger other;
    request_machine wrong{{}, 0ms, 60s};
    other.apply(wrong.start());
    other.apply(wrong.routed(engine_role::prefill, prefill_engine));
    other.apply(wrong.refused(wrong.leg(), {error_code::too_large, "prompt"}, 1s));
    CHECK(other.why.code == error_code::too_large);
  }

  TEST_CASE("the deadline and the client end it in every state, once, and free what is held") {
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(stage);
      ledger book;
      request_machine m{{}, 0ms, 10s};
      book.apply(m.start());
      if (stage > 0) book.apply(m.routed(engine_role::prefill, prefill_engine));
      if (stage > 1) book.apply(m.sequence_ready(m.leg(), 0, 100, std::nullopt, 0ms));
      if (stage > 2) book.apply(m.routed(engine_role::decode, decode_engine));
      book.apply(m.tick(9999ms));
      CHECK(book.ended == 0);
      if (stage % 2 == 0) book.apply(m.tick(10s));
      if (stage % 2 == 1) book.apply(m.stop(end_reason::cancelled, {}));
      CHECK(book.ended == 1);
      CHECK(book.cancelled == (stage == 1 || stage == 3 ? 1 : 0));
      CHECK(book.released == (stage >= 2 ? 1 : 0));
      book.apply(m.tick(20s));
      book.apply(m.stop(end_reason::cancelled, {}));
      CHECK(book.ended == 1);
    }
  }

  TEST_CASE("an engine is never granted more than the window beyond what the client took") {
    ledger book;
    request_machine m = to_decoding(book, {.credit_window = 8});
    uint32_t drained = 0;
    test::rng random{3};
    for (uint32_t index = 1; index < 500;) {
      const uint32_t allowed = book.credit - (index - 1);
      REQUIRE(index + allowed - drained <= 8 + 1);
      if (allowed > 0 && random.below(2) == 0) {
        book.apply(m.tokens(m.leg(), index, std::vector<int32_t>{1}, std::nullopt, {}, 1s));
        ++index;
      } else if (drained < book.emitted.size()) {
        book.apply(m.drained(1));
        ++drained;
      }
    }
  }

  TEST_CASE(
      "any order of events: tokens in order without gap or repeat, one end, no event after it") {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      ledger book;
      request_machine m{{.reroutes = 1 + random.below(3)}, 0ms, 60s};
      book.apply(m.start());
      for (int step = 0; step < 60 && book.ended == 0; ++step) {
        const auto leg = leg_epoch{static_cast<uint32_t>(m.leg()) - (random.below(8) == 0 ? 1 : 0)};
        const auto index = static_cast<uint32_t>(book.emitted.size()) -
                           (random.below(6) == 0 && !book.emitted.empty() ? 1 : 0);
        const std::vector<int32_t> ids(random.below(3), 5);
        std::optional<end_reason> end;
        if (random.below(20) == 0)
          end = random.below(2) == 0 ? end_reason::length : end_reason::failed;
        switch (random.below(9)) {
          case 0:
            book.apply(m.routed(engine_role::prefill, prefill_engine));
            break;
          case 1:
            book.apply(m.routed(engine_role::decode, decode_engine));
            break;
          case 2:
            book.apply(m.accepted(leg));
            break;
          case 3:
            book.apply(m.sequence_ready(leg, index, 9, end, 1s));
            break;
          case 4:
            book.apply(m.tokens(leg, index, ids, end, gone, 1s));
            break;
          case 5:
            if (random.below(4) == 0)
              book.apply(m.engine_down(random.below(2) ? prefill_engine : decode_engine, 1s));
            break;
          case 6:
            if (random.below(4) == 0) book.apply(m.refused(leg, gone, 1s));
            break;
          case 7:
            book.apply(m.drained(random.below(3)));
            break;
          case 8:
            if (random.below(10) == 0) book.apply(m.route_failed(engine_role::decode, gone, 1s));
            break;
        }
      }
      book.apply(m.tick(60s));
      CHECK(book.ended == 1);
    }
  }
}
