#pragma once

#include "proto/types/ids.hpp"
#include "runtime/http/message.hpp"

#include <utility>

namespace deepinfer {

/// The headers that tell a client its request's id, as the log and error bodies spell it, and more.
/// Clients of Messages look for the second name, all others for the first.
[[nodiscard]] inline http_headers with_request_id(const request_id& id, http_headers more = {}) {
  more.push_back({"x-request-id", to_string(id)});
  more.push_back({"request-id", more.back().value});
  return more;
}

}  // namespace deepinfer
