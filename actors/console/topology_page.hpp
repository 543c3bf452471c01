#pragma once

#include <string_view>

namespace deepinfer {

/// The console's web page: one document, nothing loaded from elsewhere; it reads `/api/topology`
/// and `/api/events` of the listener it came from.
extern const std::string_view topology_page;

}  // namespace deepinfer
