#pragma once

#include "actors/cache/hit_metrics.hpp"
#include "actors/cache/kv_check.hpp"
#include "actors/edge/prompt_encoding.hpp"
#include "actors/edge/request.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/metrics.hpp"
#include "runtime/http/server.hpp"
#include "runtime/net/transport.hpp"

#include <memory>
#include <string>
#include <vector>

namespace deepinfer {

/// The numbers of a node process for `/metrics`: histograms of requests, and gauges read from
/// transport, hub and listeners at the moment of the scrape. What is watched must outlive the last
/// scrape, that is, the console's listener.
class process_metrics {
public:
  process_metrics(const net::transport& transport, const remote_hub& hub);

  [[nodiscard]] std::shared_ptr<request_metrics> requests() const { return requests_; }
  [[nodiscard]] std::shared_ptr<encoding_metrics> prompts() const { return prompts_; }
  [[nodiscard]] std::shared_ptr<match_metrics> matches() const { return matches_; }
  [[nodiscard]] std::shared_ptr<const hit_metrics> hits() const { return hits_; }
  [[nodiscard]] std::shared_ptr<const store_metrics> stored() const { return stored_; }
  [[nodiscard]] std::shared_ptr<const metrics> all() const { return all_; }
  void watch(const std::string& listener, const http_server& server);
  void watch(std::shared_ptr<const text::part_cache> reuse);

private:
  void make_match_metrics();
  void make_hit_metrics();
  void make_cache_use_metrics();
  void total(const std::string& name,
             const std::string& help,
             std::function<double()> read,
             const metric_labels& labels = {});
  void gauge(const std::string& name,
             const std::string& help,
             std::function<double()> read,
             const metric_labels& labels = {});

  std::shared_ptr<metrics> all_ = std::make_shared<metrics>();
  std::shared_ptr<request_metrics> requests_ = std::make_shared<request_metrics>();
  std::shared_ptr<encoding_metrics> prompts_ = std::make_shared<encoding_metrics>();
  std::shared_ptr<match_metrics> matches_ = std::make_shared<match_metrics>();
  std::shared_ptr<hit_metrics> hits_ = std::make_shared<hit_metrics>();
  std::shared_ptr<store_metrics> stored_ = std::make_shared<store_metrics>();
  std::vector<std::unique_ptr<metric_registration>> watched_;
};

}  // namespace deepinfer
