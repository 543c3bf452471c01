#pragma once

#include "actors/cache/cache_config.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/edge/answer_places.hpp"
#include "actors/edge/choice_state.hpp"
#include "actors/messages/cache.hpp"
#include "actors/messages/protocol.hpp"
#include "actors/messages/request.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/config.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/metrics.hpp"

#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[request]`.
struct request_config {
  schedule::request_limits limits;
  std::chrono::milliseconds time_limit{600000};
  std::chrono::milliseconds ping{5000};
  std::chrono::milliseconds plain_keep_alive{30000};
  std::chrono::milliseconds codec_within{60000};
  std::chrono::milliseconds route_within{2000};
  std::chrono::milliseconds accept_within{5000};
  std::chrono::milliseconds hand_over_within{15000};
  uint32_t max_choices = 8;

  template <class V>
  void describe(V& v) {
    v.field("reroutes", limits.reroutes, between(0, 16),
            "How often a request may start again on another engine.");
    v.field("route_retry", limits.route_retry, between(1, 60000),
            "Pause between two questions for an engine.");
    v.field("route_wait", limits.route_wait, between(0, 600000),
            "How long a request waits for an engine.");
    v.field("credit_window", limits.credit_window, between(1, 65536),
            "Output tokens engines may be ahead of the client, all choices together.");
    v.field("time_limit", time_limit, between(100, 86400000), "Longest life of a request.");
    v.field("ping", ping, between(10, 600000),
            "Quiet time after which a waiting stream gets a comment.");
    v.field("plain_keep_alive", plain_keep_alive, between(0, 600000),
            "Quiet time after which a waiting answer in one piece gets empty lines in front, and "
            "with them status 200, also if it becomes an error; 0: never.");
    v.field("codec_within", codec_within, between(10, 600000),
            "Longest time to tokenize a prompt.");
    v.field("route_within", route_within, between(10, 60000), "Longest time a balancer may take.");
    v.field("accept_within", accept_within, between(10, 60000),
            "Longest time a prefill engine may take to accept.");
    v.field("hand_over_within", hand_over_within, between(10, 600000),
            "Longest time a decode engine may take to pull a sequence.");
    v.field("max_choices", max_choices, between(1, 128), "Most answers to one request (`n`).");
  }
};

/// How often a request looks at the clock.
[[nodiscard]] inline std::chrono::milliseconds tick_interval(const request_config& config) {
  auto every = std::min<std::chrono::milliseconds>(config.ping, std::chrono::seconds{1});
  if (config.plain_keep_alive.count() > 0) every = std::min(every, config.plain_keep_alive);
  return every;
}

/// Prompts of one traffic class and what engines took of them from the cache, thread-safe. Blocks
/// are whole ones.
struct cache_use {
  std::atomic<uint64_t> prompt_tokens{0}, cached_tokens{0}, prompt_blocks{0}, cached_blocks{0};
};
struct cache_uses {
  cache_use agent, chat;
};

/// The same for metrics; members may be null.
struct cache_use_counters {
  counter* prompt_tokens = nullptr;
  counter* cached_tokens = nullptr;
  counter* prompt_blocks = nullptr;
  counter* cached_blocks = nullptr;
};

/// What operators want to know of all requests together; thread-safe.
struct request_metrics {
  histogram* first_token_seconds = nullptr;
  histogram* between_tokens_seconds = nullptr;
  histogram* whole_seconds = nullptr;
  cache_use_counters agent, chat;
};

/// What a gateway gives each of its requests.
struct request_setup {
  request_config config;
  std::string model;  ///< name that engines know it by
  remote_hub* hub = nullptr;
  node_id node;
  std::shared_ptr<const protocol_codec> protocol;
  std::function<std::chrono::seconds()> unix_time;
  std::shared_ptr<held_places> places;  ///< of this request: one until its choices are known
  codec_actor codec;
  balancer_actor prefill_balancer;
  balancer_actor decode_balancer;
  cache_config cache;
  prompt_matcher_actor check;  ///< null: prompts are not looked up
  cache_party party;           ///< of this request's client
  uint64_t low_water_bytes =
      256 << 10;                    ///< unsent bytes up to which a connection counts as drained
  uint64_t piece_bytes = 64 << 10;  ///< longest single write
  std::shared_ptr<request_metrics> metrics;  ///< may be null
  std::shared_ptr<cache_uses> uses;          ///< of all requests of the gateway; may be null
  std::shared_ptr<log_sink> log;             ///< may be null
};

struct request_state_data {
  actor_card card;
  std::shared_ptr<const request_setup> setup;
  request_id id;
  exchange_context context;
  http_exchange client;
  std::shared_ptr<prepared_exchange> exchange;
  std::vector<choice_state> choices;  ///< empty until the prompt is encoded, then of one size
  std::map<schedule::engine_key, engine_actor> engines;  ///< that this request has talked to
  actor_ref sink_ref;
  uint32_t cached_tokens = 0;  ///< of the prompt, in the first choice's prefill
  bool begun = false;          ///< the stream's head is out
  bool kept_alive = false;     ///< the head of a plain answer is out, with empty lines
  bool ended = false;
  bool finishing = false;  ///< over, but the connection has not taken the end yet
  std::string unsent;      ///< refused by a full connection
  std::chrono::nanoseconds started{};
  std::chrono::nanoseconds last_bytes{};
};

/// Owns one request until its last byte: choices with their legs and retries, deadline, cancel,
/// token numbering.
request_actor::behavior_type request(request_actor::stateful_pointer<request_state_data> self,
                                     const std::shared_ptr<const request_setup>& setup,
                                     const http_exchange& client,
                                     const exchange_context& context);

}  // namespace deepinfer
