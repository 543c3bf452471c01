#include "runtime/policy/route_policy.hpp"

#include <optional>

namespace deepinfer::policy {
namespace {

const failure nobody{error_code::no_capacity, "no engine can take the request now; retry later"};

class least_work_prefill final : public route_policy {
public:
  result<size_t> choose(std::span<const engine_view> engines, const route_request&) const override {
    std::optional<size_t> best;
    for (size_t i = 0; i < engines.size(); ++i) {
      if (!engines[i].accepting) continue;
      if (!best || engines[i].queued_tokens < engines[*best].queued_tokens) best = i;
    }
    if (!best) return nobody;
    return *best;
  }
};

class least_work_decode final : public route_policy {
public:
  explicit least_work_decode(const decode_cost& cost) : cost_(cost) {}

  result<size_t> choose(std::span<const engine_view> engines,
                        const route_request& what) const override {
    std::optional<size_t> best;
    for (size_t i = 0; i < engines.size(); ++i) {
      if (!fits(engines[i], what)) continue;
      if (!best || step_time(engines[i]) < step_time(engines[*best])) best = i;
    }
    if (!best) return nobody;
    return *best;
  }

private:
  static bool fits(const engine_view& e, const route_request& what) {
    return e.accepting && e.running_sequences < e.max_sequences &&
           e.free_tokens >= uint64_t{what.prompt_tokens} + what.max_tokens;
  }

  // The request adds the same to every engine, so the time before placing ranks them.
  double step_time(const engine_view& e) const {
    return cost_.per_sequence * e.running_sequences +
           cost_.per_context_token * static_cast<double>(e.context_tokens);
  }

  decode_cost cost_;
};

}  // namespace

std::unique_ptr<route_policy> make_least_work_prefill() {
  return std::make_unique<least_work_prefill>();
}

std::unique_ptr<route_policy> make_least_work_decode(const decode_cost& cost) {
  return std::make_unique<least_work_decode>(cost);
}

}  // namespace deepinfer::policy
