#include "runtime/base/metrics.hpp"

#include "proto/types/check.hpp"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace deepinfer {
namespace {

enum class metric_kind : uint8_t { counter, histogram, watched_counter, watched_gauge };

class prometheus_counter final : public counter {
public:
  explicit prometheus_counter(prometheus::Counter& target) : target_(target) {}
  void add(double amount) noexcept override { target_.Increment(amount); }

private:
  prometheus::Counter& target_;
};

class prometheus_histogram final : public histogram {
public:
  explicit prometheus_histogram(prometheus::Histogram& target) : target_(target) {}
  void observe(double value) noexcept override { target_.Observe(value); }

private:
  prometheus::Histogram& target_;
};

bool is_name(const std::string& text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), fits);
}

struct watched {
  metric_labels labels;
  std::function<double()> read;
};

/// All series of one name.
struct family {
  metric_kind kind;
  std::string help;
  std::map<metric_labels, std::unique_ptr<counter>> counters;
  std::map<metric_labels, std::unique_ptr<histogram>> histograms;
  std::map<uint64_t, watched> watches;

  size_t series() const { return counters.size() + histograms.size() + watches.size(); }
};

metric_labels all_other(metric_labels labels) {
  for (auto& [name, value] : labels) value = "other";
  return labels;
}

std::vector<prometheus::ClientMetric::Label> to_prometheus(const metric_labels& labels) {
  std::vector<prometheus::ClientMetric::Label> out;
  for (const auto& [name, value] : labels) {
    prometheus::ClientMetric::Label label;
    label.name = name;
    label.value = value;
    out.push_back(std::move(label));
  }
  return out;
}

}  // namespace

struct metrics::state {
  mutable std::mutex mutex;
  prometheus::Registry registry;
  std::map<std::string, family> families;
  uint64_t next_watch = 0;

  family& find_or_add(const std::string& name, const std::string& help, metric_kind kind) {
    DEEPINFER_CHECK(name.starts_with("deepinfer_") && is_name(name));
    const bool is_total = kind == metric_kind::counter || kind == metric_kind::watched_counter;
    DEEPINFER_CHECK(name.ends_with("_total") == is_total);
    family& found = families.try_emplace(name, family{kind, help, {}, {}, {}}).first->second;
    DEEPINFER_CHECK(found.kind == kind && found.help == help);
    return found;
  }

  /// `labels`, or "other" for all of them where the family is full.
  static metric_labels bounded(const family& f, bool is_known, const metric_labels& labels) {
    for (const auto& [name, value] : labels) DEEPINFER_CHECK(is_name(name));
    return is_known || f.series() < max_series_per_name ? labels : all_other(labels);
  }

  std::vector<prometheus::MetricFamily> collect_watched() const {
    std::vector<prometheus::MetricFamily> out;
    for (const auto& [name, f] : families) {
      if (f.watches.empty()) continue;
      const bool is_gauge = f.kind == metric_kind::watched_gauge;
      prometheus::MetricFamily shown{
          name,
          f.help,
          is_gauge ? prometheus::MetricType::Gauge : prometheus::MetricType::Counter,
          {}};
      // "other" may stand for several watches: one line, their sum
      std::map<metric_labels, double> sums;
      for (const auto& [id, w] : f.watches) sums[w.labels] += w.read();
      for (const auto& [labels, value] : sums) {
        prometheus::ClientMetric metric;
        metric.label = to_prometheus(labels);
        (is_gauge ? metric.gauge.value : metric.counter.value) = value;
        shown.metric.push_back(std::move(metric));
      }
      out.push_back(std::move(shown));
    }
    return out;
  }
};

namespace {

/// Removes its watch when it goes; the registry may be gone before it.
template <class State>
class watch_registration final : public metric_registration {
public:
  watch_registration(std::weak_ptr<State> state, std::string name, uint64_t id)
      : state_(std::move(state)), name_(std::move(name)), id_(id) {}
  ~watch_registration() override {
    const auto state = state_.lock();
    if (!state) return;
    const std::lock_guard lock{state->mutex};
    state->families.at(name_).watches.erase(id_);
  }

private:
  std::weak_ptr<State> state_;
  std::string name_;
  uint64_t id_;
};

template <class State>
std::unique_ptr<metric_registration> watch(const std::shared_ptr<State>& state,
                                           const std::string& name,
                                           family& f,
                                           watched w) {
  const uint64_t id = state->next_watch++;
  f.watches.emplace(id, std::move(w));
  return std::make_unique<watch_registration<State>>(state, name, id);
}

}  // namespace

metrics::metrics() : state_(std::make_shared<state>()) {}
metrics::~metrics() = default;

counter& metrics::make_counter(const std::string& name,
                               const std::string& help,
                               const metric_labels& labels) {
  const std::lock_guard lock{state_->mutex};
  family& f = state_->find_or_add(name, help, metric_kind::counter);
  const metric_labels used = state::bounded(f, f.counters.contains(labels), labels);
  auto& slot = f.counters[used];
  if (!slot)
    slot = std::make_unique<prometheus_counter>(
        prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry).Add(used));
  return *slot;
}

histogram& metrics::make_histogram(const std::string& name,
                                   const std::string& help,
                                   const std::vector<double>& bounds,
                                   const metric_labels& labels) {
  DEEPINFER_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
  const std::lock_guard lock{state_->mutex};
  family& f = state_->find_or_add(name, help, metric_kind::histogram);
  const metric_labels used = state::bounded(f, f.histograms.contains(labels), labels);
  auto& slot = f.histograms[used];
  if (!slot)
    slot = std::make_unique<prometheus_histogram>(prometheus::BuildHistogram()
                                                      .Name(name)
                                                      .Help(help)
                                                      .Register(state_->registry)
                                                      .Add(used, bounds));
  return *slot;
}

std::unique_ptr<metric_registration> metrics::watch_gauge(const std::string& name,
                                                          const std::string& help,
                                                          std::function<double()> read,
                                                          const metric_labels& labels) {
  const std::lock_guard lock{state_->mutex};
  family& f = state_->find_or_add(name, help, metric_kind::watched_gauge);
  return watch(state_, name, f, {state::bounded(f, false, labels), std::move(read)});
}

std::unique_ptr<metric_registration> metrics::watch_counter(const std::string& name,
                                                            const std::string& help,
                                                            std::function<double()> read,
                                                            const metric_labels& labels) {
  const std::lock_guard lock{state_->mutex};
  family& f = state_->find_or_add(name, help, metric_kind::watched_counter);
  return watch(state_, name, f, {state::bounded(f, false, labels), std::move(read)});
}

std::string metrics::text() const {
  // the lock is held while the callbacks run: a registration that is gone is never called
  const std::lock_guard lock{state_->mutex};
  std::vector<prometheus::MetricFamily> all = state_->registry.Collect();
  for (auto& f : state_->collect_watched()) all.push_back(std::move(f));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return prometheus::TextSerializer{}.Serialize(all);
}

std::vector<double> exponential_bounds(const bucket_shape& shape) {
  std::vector<double> out;
  double bound = shape.first;
  for (size_t i = 0; i < shape.count; ++i, bound *= shape.factor) out.push_back(bound);
  return out;
}

}  // namespace deepinfer
