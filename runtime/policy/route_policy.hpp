#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace deepinfer::policy {

/// What a balancer knows about one engine at the moment of the decision: its last report plus what
/// the balancer itself has placed there since.
struct engine_view {
  uint64_t queued_tokens = 0;  ///< prompt tokens accepted and not computed
  uint32_t running_sequences = 0;
  uint32_t max_sequences = 0;
  uint64_t context_tokens = 0;  ///< held by running sequences
  uint64_t free_tokens = 0;     ///< state space left, in tokens
  bool accepting = false;       ///< reports are fresh and the engine takes work
};

/// What is to be placed.
struct route_request {
  uint32_t prompt_tokens = 0;
  uint32_t max_tokens = 0;
};

/// Picks an engine; pure. `no_capacity` if none can take the request.
class route_policy {
public:
  virtual ~route_policy() = default;
  /// Index into `engines`. Equal engines: the lowest index, so that a replay routes alike.
  [[nodiscard]] virtual result<size_t> choose(std::span<const engine_view> engines,
                                              const route_request& what) const = 0;
};

/// LB-P4: least outstanding work, in prompt tokens.
[[nodiscard]] std::unique_ptr<route_policy> make_least_work_prefill();

/// Step model t = a + b*n + c*K of LB-D2.
struct decode_cost {
  double per_sequence = 1.0;        ///< b, in units of one sequence
  double per_context_token = 1e-3;  ///< c
};

/// LB-D2: where the predicted step time after placing is least; engines without room for context
/// and expected output are left out (LB-D3).
[[nodiscard]] std::unique_ptr<route_policy> make_least_work_decode(const decode_cost& cost);

}  // namespace deepinfer::policy
