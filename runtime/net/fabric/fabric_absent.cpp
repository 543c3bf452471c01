// In place of the rest of this room when the build has no libfabric (-Dfabric=disabled).
#include "runtime/net/fabric/fabric_bench.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"

namespace deepinfer::net {
namespace {

failure absent() {
  return {error_code::unsupported, "this build has no libfabric: configure with -Dfabric=enabled"};
}

}  // namespace

result<std::unique_ptr<transport>> make_fabric_transport(const fabric_config&) {
  return absent();
}

// without libfabric nobody changes the signal handlers
void restore_signal_defaults() {}
void choose_provider(const char*) {}

result<std::vector<fabric_figure>> measure_fabric(const fabric_bench_options&) {
  return absent();
}

result<void> serve_bench(const std::string&) {
  return absent();
}

}  // namespace deepinfer::net
