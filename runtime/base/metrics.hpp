#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What a process counts, as Prometheus text. Counters and histograms are pushed to; gauges are
/// read from the state they show at the moment of the scrape, so that they cannot drift from it.
namespace deepinfer {

using metric_labels = std::map<std::string, std::string>;

/// A number that only grows. Safe to use from any thread.
class counter {
public:
  virtual ~counter() = default;
  virtual void add(double amount = 1) noexcept = 0;
};

/// How observations spread over buckets. Safe to use from any thread.
class histogram {
public:
  virtual ~histogram() = default;
  virtual void observe(double value) noexcept = 0;
};

/// Keeps a callback metric alive; the callback is not called any more once this is gone.
class metric_registration {
public:
  virtual ~metric_registration() = default;
};

/// The metrics of a process. Names are `deepinfer_<room>_<what>_<unit>` in snake_case, of counters
/// ending in `_total`; one name has one kind and one help text. Anything else is a bug.
class metrics {
public:
  /// Series of one name. More label values than this (a mistake, or an attack through a label)
  /// share one series whose values are all "other".
  static constexpr size_t max_series_per_name = 256;

  metrics();
  ~metrics();
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  /// The same name and labels give the same counter. Valid as long as this object.
  [[nodiscard]] counter& make_counter(const std::string& name,
                                      const std::string& help,
                                      const metric_labels& labels = {});
  /// `bounds`: upper ends of the buckets, rising; the last bucket (to infinity) is implied.
  [[nodiscard]] histogram& make_histogram(const std::string& name,
                                          const std::string& help,
                                          const std::vector<double>& bounds,
                                          const metric_labels& labels = {});
  /// `read` is called at each scrape, from the scraping thread; it must not call back into here.
  [[nodiscard]] std::unique_ptr<metric_registration> watch_gauge(const std::string& name,
                                                                 const std::string& help,
                                                                 std::function<double()> read,
                                                                 const metric_labels& labels = {});
  /// The same for a total that somebody else counts.
  [[nodiscard]] std::unique_ptr<metric_registration> watch_counter(
      const std::string& name,
      const std::string& help,
      std::function<double()> read,
      const metric_labels& labels = {});

  /// Prometheus text exposition format, version 0.0.4.
  [[nodiscard]] std::string text() const;

private:
  struct state;
  std::shared_ptr<state> state_;
};

/// `count` bounds, each `factor` times the one before.
struct bucket_shape {
  double first;
  double factor;
  size_t count;
};
[[nodiscard]] std::vector<double> exponential_bounds(const bucket_shape& shape);

}  // namespace deepinfer
