#pragma once

#include "runtime/base/metrics.hpp"
#include "runtime/http/server.hpp"

#include <memory>
#include <string>
#include <vector>

namespace deepinfer {

/// Shows a server's numbers as `deepinfer_http_*{listener="..."}`, read at each scrape. The server
/// must outlive what is returned.
[[nodiscard]] std::vector<std::unique_ptr<metric_registration>> watch_http_server(
    metrics& all, const http_server& server, const std::string& listener);

}  // namespace deepinfer
