#pragma once

#include "proto/types/result.hpp"
#include "runtime/http/server.hpp"

#include <chrono>
#include <memory>

namespace deepinfer::bench {

/// The floor: the gateway's HTTP server with nothing behind it. Answers a known request
/// (`known_protocol.hpp`) at once, or one event a step from a thread that does only that.
class bare_site {
public:
  static result<std::unique_ptr<bare_site>> make(std::chrono::microseconds step);
  virtual ~bare_site() = default;
  [[nodiscard]] virtual std::string address() const = 0;
};

}  // namespace deepinfer::bench
