#pragma once

#include "actors/messages/codec.hpp"
#include "actors/messages/engine.hpp"
#include "actors/messages/introspection.hpp"
#include "actors/messages/routing.hpp"
#include "runtime/http/server.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <memory>

namespace deepinfer {

/// The client closed its side, or takes no more bytes.
struct client_gone {
  failure why;
};
/// The client has taken what was queued for it.
struct client_drained {};
/// Asks the balancer again.
struct route_again {
  uint32_t choice = 0;
  schedule::ask_route what;
};
struct request_tick {};
/// The process ends: the client gets an error instead of silence.
struct stop_request {
  failure why;
};

/// One request of one client, from its first byte to its last.
using request_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::SequenceReady>>,
                     caf::reacts_to<wire::msg<wire::Tokens>>,
                     caf::reacts_to<client_gone>,
                     caf::reacts_to<client_drained>,
                     caf::reacts_to<route_again>,
                     caf::reacts_to<request_tick>,
                     caf::reacts_to<stop_request>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// A request from the listener's thread.
struct http_exchange {
  std::shared_ptr<const http_request> request;
  std::shared_ptr<http_responder> responder;
};

/// Takes no more requests, answers those that are open with an error after the grace time.
struct drain_gateway {
  std::chrono::milliseconds grace{0};
};

using gateway_actor =
    caf::typed_actor<caf::reacts_to<http_exchange>,
                     caf::reacts_to<engines_available>,
                     caf::reacts_to<wire::msg<wire::Members>>,
                     caf::replies_to<drain_gateway>::with<wire::msg<wire::Ack>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::client_gone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::client_drained)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::route_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::request_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::stop_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::http_exchange)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::drain_gateway)
