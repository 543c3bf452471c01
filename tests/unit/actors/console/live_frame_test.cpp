#include "actors/console/live_frame.hpp"

#include "tests/support/rng.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

live_state golden() {
  auto parsed = parse_topology(test::read_source("tests/golden/console/topology.json"));
  REQUIRE(parsed);
  live_state state;
  state.source = "127.0.0.1:8001";
  state.latest = reading{*std::move(parsed), {}};
  state.events = {{"0c1d", {"first", "second"}}};
  return state;
}

constexpr screen_size small{100, 10};

std::string last_line(live_state& state, screen_size size) {
  return draw_frame(state, size, {}).back();
}

}  // namespace

TEST_SUITE("actors/console/live_frame") {
  TEST_CASE("a frame fills the terminal exactly, however small") {
    for (size_t rows = 1; rows < 40; ++rows)
      for (const size_t columns : {1, 2, 7, 20, 60, 100, 160}) {
        CAPTURE(rows);
        CAPTURE(columns);
        live_state state = golden();
        const auto frame = draw_frame(state, {columns, rows}, {true});
        CHECK(frame.size() == rows);
        for (const std::string& line : frame) CHECK(display_width(line) <= columns);
      }
  }

  TEST_CASE("digits and Tab choose the page") {
    live_state state = golden();
    CHECK(apply_keys(state, "2", small) == live_step::redraw);
    CHECK(state.page == live_page::actors);
    CHECK(apply_keys(state, "\t", small) == live_step::redraw);
    CHECK(state.page == live_page::requests);
    CHECK(apply_keys(state, "4", small) == live_step::redraw);
    CHECK(draw_frame(state, small, {})[3] == "first");
    CHECK(apply_keys(state, "\t", small) == live_step::redraw);
    CHECK(state.page == live_page::cluster);
    CHECK(last_line(state, small).starts_with("[1 cluster]  2 actors"));
  }

  TEST_CASE("scrolling stays inside the page") {
    live_state state = golden();
    static_cast<void>(draw_frame(state, small, {}));
    CHECK(apply_keys(state, "k\x1b[A\x1b[5~", small) == live_step::redraw);
    CHECK(state.scroll == 0);
    CHECK(apply_keys(state, "jj\x1b[B", small) == live_step::redraw);
    CHECK(state.scroll == 3);
    CHECK(apply_keys(state, "\x1b[6~", small) == live_step::redraw);
    CHECK(state.scroll == 8);  // a page of six lines, one of which stays
    CHECK(apply_keys(state, "G", small) == live_step::redraw);
    CHECK(last_line(state, small).find("more lines") == std::string::npos);
    const size_t end = state.scroll;
    CHECK(apply_keys(state, "j", small) == live_step::redraw);
    static_cast<void>(draw_frame(state, small, {}));
    CHECK(state.scroll == end);
    CHECK(apply_keys(state, "\x1b[H", small) == live_step::redraw);
    CHECK(state.scroll == 0);
    CHECK(last_line(state, small).find("more lines") != std::string::npos);
  }

  TEST_CASE("q, Ctrl-C and Ctrl-D leave") {
    for (const char* keys : {"q", "Q", "\x03", "\x04", "jjq"}) {
      live_state state = golden();
      CHECK(apply_keys(state, keys, small) == live_step::leave);
    }
  }

  TEST_CASE("unknown keys and sequences do nothing, also those with a q inside") {
    for (const char* keys : {"x", "\x1b", "\x1b[1;5q", "\x1b[99~", "é", ""}) {
      CAPTURE(keys);
      live_state state = golden();
      CHECK(apply_keys(state, keys, small) == live_step::stay);
      CHECK(state.page == live_page::cluster);
    }
  }

  TEST_CASE("any keys end in a frame of the right size") {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      live_state state = golden();
      std::string keys;
      for (int i = 0; i < 20; ++i) keys += static_cast<char>(random.below(256));
      static_cast<void>(apply_keys(state, keys, small));
      CHECK(draw_frame(state, small, {}).size() == small.rows);
    }
  }

  TEST_CASE("lost contact is shown with its age, over the last reading") {
    live_state state = golden();
    state.trouble = "Connection \x1b[31mrefused";
    state.age_s = 75;
    const auto frame = draw_frame(state, {100, 20}, {});
    CHECK(frame[0].find("for 1m15s: Connection \\x1b[31mrefused") != std::string::npos);
    CHECK(frame[3].find("0c1d2e3f") != std::string::npos);
  }
}
