#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/edge/client_party.hpp"
#include "actors/edge/request.hpp"
#include "actors/messages/request.hpp"
#include "runtime/base/rng.hpp"

#include <caf/response_promise.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[gateway]`.
struct gateway_config {
  uint32_t max_open_requests = 1024;
  uint32_t codecs = 2;
  bool trust_tenant_header = false;
  std::vector<std::string> agent_tenants;

  template <class V>
  void describe(V& v) {
    v.field("max_open_requests", max_open_requests, between(1, 1000000),
            "Requests served at once, each further choice counted as one; over: 503.");
    v.field("codecs", codecs, between(1, 64),
            "Codec actors, each with a thread of its own; a huge prompt occupies one.");
    v.field("trust_tenant_header", trust_tenant_header,
            "Believe x-deepinfer-tenant, x-deepinfer-organization and x-deepinfer-class (agent or "
            "chat), which say whose cached blocks a request shares and how long they live. Only "
            "behind a proxy that sets them itself; else a client is known by its credentials.");
    v.field("agent_tenants", agent_tenants,
            "Tenants whose requests are agents' when no header says: names, or key: and the "
            "SHA-256 of the credentials.");
  }
};

/// A codec of the pool, and what waits for it.
struct pooled_codec {
  codec_actor codec;
  std::shared_ptr<codec_load> load;
};

[[nodiscard]] party_rules make_party_rules(const gateway_config& gateway,
                                           const cache_config& cache);

struct gateway_setup {
  gateway_config config;
  request_config requests;
  cache_config cache;
  prompt_matcher_actor check;  ///< null: without
  std::string model;
  remote_hub* hub = nullptr;
  node_id node;
  std::shared_ptr<const protocol_codec> protocol;
  std::vector<pooled_codec> codecs;  ///< at least one
  std::shared_ptr<request_metrics> metrics;
  std::shared_ptr<log_sink> log;  ///< may be null
  std::function<std::chrono::seconds()> unix_time;
  uint64_t seed = 0;  ///< of request ids and default sampling seeds
  uint64_t low_water_bytes = 256 << 10;
  uint64_t piece_bytes = 64 << 10;
  /// Tells the console about a request; may be empty.
  std::function<void(const request_actor&)> track;
};

struct gateway_state {
  gateway_state() : random(0) {}

  actor_card card;
  gateway_setup setup;
  rng random;
  party_rules parties;
  std::shared_ptr<request_setup> requests;
  std::map<caf::actor_addr, request_actor> open;
  std::shared_ptr<answer_places> places;
  std::map<std::string, uint32_t> accepting;  ///< engines by role
  bool has_majority = true;
  bool draining = false;
  caf::typed_response_promise<wire::msg<wire::Ack>> drained;
};

/// The two balancers of this gateway, spawned before it but told to it afterwards, since they
/// report to it.
struct use_balancers {
  balancer_actor prefill;
  balancer_actor decode;
};

using gateway_impl_actor = gateway_actor::extend<caf::reacts_to<use_balancers>>;

/// Admission and routes of the public listener. Everything about one request is in its own actor.
gateway_impl_actor::behavior_type gateway(gateway_impl_actor::stateful_pointer<gateway_state> self,
                                          const gateway_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::use_balancers)
