#include "runtime/base/metrics.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;

TEST_SUITE_BEGIN("runtime/base");

TEST_CASE("counters, histograms and watched values come out as Prometheus text") {
  metrics all;
  all.make_counter("deepinfer_test_things_total", "Things.", {{"kind", "a"}}).add(2);
  all.make_counter("deepinfer_test_things_total", "Things.", {{"kind", "a"}}).add();
  all.make_histogram("deepinfer_test_seconds", "Time.", {0.1, 1}).observe(0.5);
  double depth = 4;
  const auto watch = all.watch_gauge("deepinfer_test_depth", "Depth.", [&depth] { return depth; });
  depth = 5;
  CHECK(all.text() ==
        "# HELP deepinfer_test_depth Depth.\n"
        "# TYPE deepinfer_test_depth gauge\n"
        "deepinfer_test_depth 5\n"
        "# HELP deepinfer_test_seconds Time.\n"
        "# TYPE deepinfer_test_seconds histogram\n"
        "deepinfer_test_seconds_count 1\n"
        "deepinfer_test_seconds_sum 0.5\n"
        "deepinfer_test_seconds_bucket{le=\"0.1\"} 0\n"
        "deepinfer_test_seconds_bucket{le=\"1\"} 1\n"
        "deepinfer_test_seconds_bucket{le=\"+Inf\"} 1\n"
        "# HELP deepinfer_test_things_total Things.\n"
        "# TYPE deepinfer_test_things_total counter\n"
        "deepinfer_test_things_total{kind=\"a\"} 3\n");
}

TEST_CASE("a watch that is gone is not read any more") {
  metrics all;
  auto watch = all.watch_counter("deepinfer_test_seen_total", "Seen.", [] { return 7.0; });
  CHECK(all.text().find("deepinfer_test_seen_total 7\n") != std::string::npos);
  watch.reset();
  CHECK(all.text().empty());
}

TEST_CASE("a watch may outlive the metrics it belongs to") {
  std::unique_ptr<metric_registration> watch;
  {
    metrics all;
    watch = all.watch_gauge("deepinfer_test_depth", "Depth.", [] { return 1.0; });
  }
  watch.reset();
}

TEST_CASE("label values beyond the limit share one series") {
  metrics all;
  const auto make = [&all](size_t i) -> counter& {
    return all.make_counter("deepinfer_test_things_total", "Things.",
                            {{"kind", std::string("k").append(std::to_string(i))}});
  };
  for (size_t i = 0; i < metrics::max_series_per_name; ++i) make(i).add();
  CHECK(all.text().find("other") == std::string::npos);
  make(metrics::max_series_per_name).add();
  make(metrics::max_series_per_name + 1).add();
  make(0).add();  // a known one keeps its series
  CHECK(all.text().find("{kind=\"other\"} 2\n") != std::string::npos);
  CHECK(all.text().find("{kind=\"k0\"} 2\n") != std::string::npos);
}

TEST_CASE("label values are escaped") {
  metrics all;
  all.make_counter("deepinfer_test_things_total", "Things.", {{"kind", "a\"\n\\"}}).add();
  CHECK(all.text().find(R"({kind="a\"\n\\"} 1)") != std::string::npos);
}

TEST_CASE("exponential bounds grow by their factor") {
  CHECK(exponential_bounds({1, 2, 4}) == std::vector<double>{1, 2, 4, 8});
}

TEST_SUITE_END();
