#pragma once

#include "proto/types/ids.hpp"
#include "proto/types/result.hpp"
#include "runtime/policy/engine_table.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// The life of a request after its prompt is known, as a pure state machine: events in, effects
/// out. The request actor carries out the effects. Invariants I-4 and I-5 live here: every output
/// index is emitted once and in order over any number of legs, and only the newest leg is heard.
namespace deepinfer::schedule {

using policy::engine_key;

enum class request_state : uint8_t {
  routing_prefill,  ///< waiting for a prefill engine
  prefilling,
  routing_decode,  ///< the sequence lies on the prefill engine under a lease
  handing_off,     ///< the decode engine is taking it over
  decoding,
  done,
};
[[nodiscard]] std::string_view to_string(request_state state);

enum class engine_role : uint8_t { prefill, decode };

enum class end_reason : uint8_t { stop, length, stop_string, cancelled, failed };

struct request_limits {
  uint32_t reroutes = 2;                       ///< FT-3
  std::chrono::milliseconds route_retry{100};  ///< between two questions to a balancer
  std::chrono::milliseconds route_wait{3000};  ///< for an engine, per leg
  uint32_t credit_window = 512;                ///< outputs an engine may be ahead of the client
};

// Effects.
struct ask_route {
  engine_role role{};
  std::vector<engine_key> exclude;
  std::chrono::milliseconds delay{0};  ///< before asking
};
struct submit_prefill {
  engine_key engine;
  leg_epoch leg{};
  uint32_t emitted = 0;  ///< outputs that follow the prompt as input
};
struct submit_decode {
  engine_key engine;
  leg_epoch leg{};
  uint32_t credit = 0;
};
struct cancel_leg {
  engine_key engine;
  leg_epoch leg{};
};
/// The sequence under lease on the prefill engine is not needed any more.
struct release_sequence {};
struct grant_credit {
  engine_key engine;
  leg_epoch leg{};
  uint32_t outputs = 0;
};
/// Outputs first_index, first_index + 1, ...: never repeated, never skipped.
struct emit_tokens {
  uint32_t first_index = 0;
  std::vector<int32_t> ids;
};
/// The last effect of a request.
struct end_request {
  end_reason reason{};
  failure why;  ///< for `failed`
};
using effect = std::variant<ask_route,
                            submit_prefill,
                            submit_decode,
                            cancel_leg,
                            release_sequence,
                            grant_credit,
                            emit_tokens,
                            end_request>;
using effects = std::vector<effect>;

class request_machine {
public:
  using time_point = std::chrono::nanoseconds;

  /// `deadline`: of the whole request.
  request_machine(const request_limits& limits, time_point now, time_point deadline);

  [[nodiscard]] effects start();

  // Events. Those of an older leg, or that do not fit the state, change nothing.
  [[nodiscard]] effects routed(engine_role role, const engine_key& engine);
  [[nodiscard]] effects route_failed(engine_role role, const failure& why, time_point now);
  [[nodiscard]] effects refused(leg_epoch leg, const failure& why, time_point now);
  [[nodiscard]] effects accepted(leg_epoch leg);
  /// A prefill leg is over: output `index`, and with `end` no sequence behind it.
  [[nodiscard]] effects sequence_ready(
      leg_epoch leg, uint32_t index, int32_t token, std::optional<end_reason> end, time_point now);
  [[nodiscard]] effects tokens(leg_epoch leg,
                               uint32_t first_index,
                               std::span<const int32_t> ids,
                               std::optional<end_reason> end,
                               const failure& why,
                               time_point now);
  [[nodiscard]] effects engine_down(const engine_key& engine, time_point now);
  /// The client has taken so many outputs more.
  [[nodiscard]] effects drained(uint32_t outputs);
  [[nodiscard]] effects tick(time_point now);
  /// Client gone, stop string matched, shutdown.
  [[nodiscard]] effects stop(end_reason reason, failure why);

  [[nodiscard]] request_state state() const { return state_; }
  [[nodiscard]] leg_epoch leg() const { return leg_; }
  [[nodiscard]] uint32_t emitted() const { return emitted_; }
  [[nodiscard]] uint32_t reroutes() const { return reroutes_; }
  [[nodiscard]] const std::optional<engine_key>& engine() const { return engine_; }

private:
  void next_leg() { leg_ = leg_epoch{static_cast<uint32_t>(leg_) + 1}; }
  effects reroute(const failure& why, time_point now);
  effects finish(end_reason reason, failure why);
  void drop_leg(effects& out);

  request_limits limits_;
  time_point deadline_;
  time_point routing_since_;
  request_state state_ = request_state::routing_prefill;
  leg_epoch leg_{0};
  uint32_t emitted_ = 0;
  uint32_t undrained_ = 0;  ///< emitted, not yet taken by the client
  uint32_t granted_ = 0;    ///< outputs this decode leg may send, in all
  uint32_t leg_first_ = 0;  ///< first output index of this decode leg
  uint32_t reroutes_ = 0;
  std::optional<engine_key> engine_;  ///< of the present leg
  std::optional<engine_key> holder_;  ///< prefill engine that holds the sequence
  std::vector<engine_key> failed_;
};

}  // namespace deepinfer::schedule
