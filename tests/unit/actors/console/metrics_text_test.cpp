#include "actors/console/metrics_text.hpp"

#include "runtime/recipe/json_value.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::view;

TEST_SUITE("actors/console/metrics_text") {
  TEST_CASE("samples become JSON in their order") {
    const auto json = metrics_json(
        "# HELP up says so\n# TYPE up gauge\nup "
        "1\n\nreq_total{code=\"200\",path=\"a\\\"b\\\\c\\n\"} 1.5e+06 1700000000\r\n"
        "h_bucket{le=\"+Inf\",} NaN\nempty{} -Inf\nsmall 2.5e-07");
    REQUIRE(json);
    CHECK(
        *json ==
        R"({"metrics":[{"name":"up","labels":{},"value":1},)"
        R"({"name":"req_total","labels":{"code":"200","path":"a\"b\\c\n"},"value":1500000},)"
        R"({"name":"h_bucket","labels":{"le":"+Inf"},"value":"NaN"},)"
        R"({"name":"empty","labels":{},"value":"-Inf"},{"name":"small","labels":{},"value":2.5e-07}]})");
    CHECK(recipe::parse_json(*json));
    CHECK(*metrics_json("") == R"({"metrics":[]})");
  }

  TEST_CASE("the first wrong line is named") {
    for (const char* line : {"up", "up x", "{a=\"b\"} 1", "up{a=b} 1", "up{a=\"b} 1",
                             "up{a=\"b\" 1", "up{a=\"\\", "up 1e999", "up{=\"b\"} 1", "<html>"}) {
      CAPTURE(line);
      const auto json = metrics_json("ok 1\n" + std::string{line} + "\n");
      REQUIRE_FALSE(json);
      CHECK(json.error().code == error_code::corrupt);
      CHECK(json.error().detail.find("line 2") != std::string::npos);
    }
  }
}
