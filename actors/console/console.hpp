#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/console.hpp"
#include "actors/messages/membership.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/config.hpp"

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

/// Section `[console]`.
struct console_config {
  std::chrono::milliseconds answer_within{1000};  ///< local actors
  std::chrono::milliseconds peers_within{2000};   ///< other nodes
  uint32_t max_tracked = 4096;
  uint32_t max_queries = 32;

  template <class V>
  void describe(V& v) {
    v.field("answer_within", answer_within, between(10, 60000),
            "How long an actor may take to describe itself.");
    v.field("peers_within", peers_within, between(10, 60000),
            "How long another node may take to answer.");
    v.field("max_tracked", max_tracked, between(16, 1000000),
            "Most actors of this node that are shown.");
    v.field("max_queries", max_queries, between(1, 1000), "Most questions at once.");
  }
};

struct console_setup {
  console_config config;
  remote_hub* hub = nullptr;
  node_id node;
  std::function<std::vector<std::string>()> recent_log;  ///< last lines; may be empty
};

/// A question that waits for answers; ends when all have come or time is up, whichever is first.
struct local_survey {
  std::map<uint64_t, wire::msg<wire::ActorInfo>> answers;  ///< by actor number
  std::map<uint64_t, std::string> open;                    ///< number -> kind
  size_t waiting = 0;                                      ///< answers and refusals to come
  caf::typed_response_promise<wire::msg<wire::LocalTopology>> promise;
};

struct cluster_survey {
  wire::msg<wire::Members> members;  ///< as this node's membership sees it now
  std::map<node_id, wire::msg<wire::LocalTopology>> answers;
  size_t open = 0;
  std::vector<node_id> silent;
  caf::typed_response_promise<wire::msg<wire::Topology>> promise;
};

struct console_state {
  actor_card card;
  console_setup setup;
  std::map<caf::actor_addr, std::pair<std::string, inspectable_actor>> tracked;
  uint32_t queries = 0;
};

/// Answers what the actors of this node and of the whole cluster are doing; everything is asked of
/// the living actors at the moment of the question.
console_impl_actor::behavior_type console(console_impl_actor::stateful_pointer<console_state> self,
                                          const console_setup& setup);

}  // namespace deepinfer
