#pragma once

#include "runtime/net/fabric/fabric_config.hpp"
#include "runtime/net/transport.hpp"

#include <memory>

namespace deepinfer::net {

/// The transport between real processes. Opens the provider and its listening port (so
/// `address()` is valid); `start` begins to accept. `invalid_argument`: no node id, an empty
/// secret beyond loopback, an unusable address or limit; `no_capacity`: the port is taken;
/// `unsupported`: the provider is not there.
[[nodiscard]] result<std::unique_ptr<transport>> make_fabric_transport(const fabric_config& config);

/// Call first in `main`, before any thread. The libraries behind libfabric install signal
/// handlers from load-time constructors that may hang a process on TERM or a crash; this restores
/// the defaults for INT, TERM, SEGV, BUS, ABRT and ILL, and keeps children from the same by
/// setting IPATH_NO_BACKTRACE and HFI_NO_BACKTRACE. SIGPIPE is ignored: a write to a dead peer is
/// an error code here.
void restore_signal_defaults();

/// Call before the first transport: limits libfabric to `provider` (FI_PROVIDER), which also
/// silences its warnings about absent hardware. Does not override what the user has set.
void choose_provider(const char* provider);

}  // namespace deepinfer::net
