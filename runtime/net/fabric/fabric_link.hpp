#pragma once

#include "runtime/net/fabric/hello.hpp"
#include "runtime/net/fabric/link_sender.hpp"
#include "runtime/net/fabric/socket_address.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace deepinfer::net {

enum class link_phase : uint8_t {
  connecting,  ///< until libfabric says connected
  proving,     ///< until the proof of the other side has come
  up,
  closed,  ///< kept until libfabric has handed back every operation
};

/// One connection of the control lane. Lives on the control thread.
struct fabric_link {
  fabric_link(uint64_t which, link_role side, link_environment& environment)
      : number(which), role(side), sender(*this, environment) {
    gate->link = which;
  }

  uint64_t number;
  link_role role;
  link_phase phase = link_phase::connecting;
  ofi_endpoint endpoint;
  link_sender sender;
  std::shared_ptr<send_gate> gate = std::make_shared<send_gate>();

  hello peer;             ///< known to a dialer from the connection event on
  std::string own_hello;  ///< as it travelled
  digest256 about{};      ///< transcript of both hellos
  socket_address target;  ///< of a dialer: where the bulk lane goes, too
  uint64_t dial = 0;      ///< the dial this link belongs to
  steady_time deadline;   ///< of the handshake
  steady_time last_heard;

  std::optional<failure> doomed;  ///< to be closed at the end of this turn, and why
  bool duplicate = false;         ///< doomed because it leads to a linked peer, or to oneself
  uint64_t frames_received = 0;   ///< the sequence number of the last one
  uint64_t ticket = 0;            ///< of the own long frame under way
  bool fetching = false;          ///< a long frame is being read; no other may follow it
  std::vector<std::pair<receive_op*, size_t>> early;  ///< came before the connection event
  std::vector<std::unique_ptr<receive_op>> buffers;
  size_t posted = 0;  ///< receive operations with libfabric
};

}  // namespace deepinfer::net
