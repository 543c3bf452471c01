#include "runtime/http/http_metrics.hpp"

#include <array>

namespace deepinfer {
namespace {

struct shown_number {
  const char* name;
  const char* help;
  uint64_t http_stats::*number;
};

constexpr std::array gauges{
    shown_number{"deepinfer_http_open_connections", "Open connections.",
                 &http_stats::open_connections},
    shown_number{"deepinfer_http_open_answers", "Requests being answered.",
                 &http_stats::open_answers},
    shown_number{"deepinfer_http_body_bytes", "Bodies of open requests.", &http_stats::body_bytes}};

constexpr std::array totals{
    shown_number{"deepinfer_http_connections_total", "Connections accepted.",
                 &http_stats::accepted},
    shown_number{"deepinfer_http_refused_connections_total", "Connections over the limit.",
                 &http_stats::refused_connections},
    shown_number{"deepinfer_http_accept_errors_total", "Accepts without descriptor or memory.",
                 &http_stats::accept_errors},
    shown_number{"deepinfer_http_requests_total", "Requests given to the handler.",
                 &http_stats::requests},
    shown_number{"deepinfer_http_rejected_requests_total", "Requests malformed or over a limit.",
                 &http_stats::rejected_requests},
    shown_number{"deepinfer_http_timeouts_total", "Requests and quiet connections out of time.",
                 &http_stats::timeouts},
    shown_number{"deepinfer_http_stalled_writes_total", "Clients cut off for not reading.",
                 &http_stats::stalled_writes},
    shown_number{"deepinfer_http_clients_gone_total", "Clients that left during an answer.",
                 &http_stats::clients_gone},
    shown_number{"deepinfer_http_refused_writes_total", "Stream writes over the unsent bound.",
                 &http_stats::refused_writes},
    shown_number{"deepinfer_http_received_bytes_total", "Bytes received.", &http_stats::bytes_in},
    shown_number{"deepinfer_http_sent_bytes_total", "Bytes sent.", &http_stats::bytes_out}};

constexpr std::array class_names{"1xx", "2xx", "3xx", "4xx", "5xx"};

}  // namespace

std::vector<std::unique_ptr<metric_registration>> watch_http_server(metrics& all,
                                                                    const http_server& server,
                                                                    const std::string& listener) {
  std::vector<std::unique_ptr<metric_registration>> out;
  const auto reader = [&server](uint64_t http_stats::*number) {
    return [&server, number] { return static_cast<double>(server.stats().*number); };
  };
  for (const shown_number& g : gauges)
    out.push_back(all.watch_gauge(g.name, g.help, reader(g.number), {{"listener", listener}}));
  for (const shown_number& t : totals)
    out.push_back(all.watch_counter(t.name, t.help, reader(t.number), {{"listener", listener}}));
  for (size_t i = 0; i < class_names.size(); ++i)
    out.push_back(
        all.watch_counter("deepinfer_http_responses_total", "Answers by status class.",
                          [&server, i] { return static_cast<double>(server.stats().responses[i]); },
                          {{"listener", listener}, {"class", class_names[i]}}));
  return out;
}

}  // namespace deepinfer
