#include "actors/console/text_table.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

const std::vector<column> columns{
    {"KIND"}, {"ID", align::right}, {"STATE", align::left, 6}, {"NOTE", align::left, 0, 1}};

std::vector<std::vector<cell>> rows() {
  return {{{"gateway"}, {"8"}, {"3 requests open"}, {"x"}}, {{"codec"}, {"12"}, {"idle"}, {"yz"}}};
}

using lines = std::vector<std::string>;

}  // namespace

TEST_SUITE("actors/console/text_table") {
  TEST_CASE("columns are as wide as what stands in them") {
    CHECK(draw_table(columns, rows(), any_width, {}) == lines{"KIND     ID  STATE            NOTE",
                                                              "gateway   8  3 requests open  x",
                                                              "codec    12  idle             yz"});
  }

  TEST_CASE("columns that may shrink give way first, then ranked ones go") {
    CHECK(draw_table(columns, rows(), 30, {})[1] == "gateway   8  3 requests…  x");
    CHECK(draw_table(columns, rows(), 22, {})[1] == "gateway   8  3 reques…");
    CHECK(draw_table(columns, rows(), 5, {})[1] == "gate…");
  }

  TEST_CASE("no line is wider than it may be") {
    for (size_t width = 0; width < 60; ++width) {
      CAPTURE(width);
      for (const bool is_on : {false, true})
        for (const std::string& line : draw_table(columns, rows(), width, {is_on}))
          CHECK(display_width(line) <= width);
    }
  }

  TEST_CASE("a table without rows has a title line") {
    CHECK(draw_table(columns, {}, any_width, {}) == lines{"KIND  ID  STATE  NOTE"});
  }
}
