#include "runtime/schedule/request_machine.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::schedule {
namespace {

bool routing(request_state state) {
  return state == request_state::routing_prefill || state == request_state::routing_decode;
}

// Another engine may do better; the caller's own mistakes fail everywhere.
bool worth_another_engine(error_code code) {
  return code != error_code::invalid_argument && code != error_code::too_large &&
         code != error_code::unsupported;
}

}  // namespace

std::string_view to_string(request_state state) {
  constexpr std::string_view names[] = {"routing_prefill", "prefilling", "routing_decode",
                                        "handing_off",     "decoding",   "done"};
  return names[static_cast<size_t>(state)];
}

request_machine::request_machine(const request_limits& limits, time_point now, time_point deadline)
    : limits_(limits), deadline_(deadline), routing_since_(now) {}

effects request_machine::start() {
  return {ask_route{engine_role::prefill, {}, {}}};
}

effects request_machine::routed(engine_role role, const engine_key& engine) {
  if (role == engine_role::prefill && state_ == request_state::routing_prefill) {
    next_leg();
    engine_ = engine;
    state_ = request_state::prefilling;
    return {submit_prefill{engine, leg_, emitted_}};
  }
  if (role == engine_role::decode && state_ == request_state::routing_decode) {
    next_leg();
    engine_ = engine;
    state_ = request_state::handing_off;
    leg_first_ = emitted_;
    granted_ = limits_.credit_window - std::min(limits_.credit_window - 1, undrained_);
    return {submit_decode{engine, leg_, granted_}};
  }
  return {};
}

effects request_machine::route_failed(engine_role role, const failure& why, time_point now) {
  const auto wanted =
      role == engine_role::prefill ? request_state::routing_prefill : request_state::routing_decode;
  if (state_ != wanted) return {};
  if (now - routing_since_ >= limits_.route_wait) return finish(end_reason::failed, why);
  // An engine that failed once is better than none: it may only have been full.
  failed_.clear();
  return {ask_route{role, {}, limits_.route_retry}};
}

effects request_machine::accepted(leg_epoch leg) {
  if (leg != leg_ || state_ != request_state::handing_off) return {};
  // The decode engine has pulled and verified the sequence.
  state_ = request_state::decoding;
  holder_.reset();
  return {release_sequence{}};
}

effects request_machine::refused(leg_epoch leg, const failure& why, time_point now) {
  if (leg != leg_ || (state_ != request_state::prefilling && state_ != request_state::handing_off))
    return {};
  if (!worth_another_engine(why.code)) return finish(end_reason::failed, why);
  if (engine_) failed_.push_back(*engine_);
  if (why.code ==
      error_code::no_capacity) {  // full, not broken: ask again, the sequence stays where it is
    const engine_role role =
        state_ == request_state::prefilling ? engine_role::prefill : engine_role::decode;
    state_ = role == engine_role::prefill ? request_state::routing_prefill
                                          : request_state::routing_decode;
    engine_.reset();
    if (now - routing_since_ >= limits_.route_wait) return finish(end_reason::failed, why);
    return {ask_route{role, failed_, limits_.route_retry}};
  }
  return reroute(why, now);
}

effects request_machine::sequence_ready(
    leg_epoch leg, uint32_t index, int32_t token, std::optional<end_reason> end, time_point now) {
  if (leg != leg_ || state_ != request_state::prefilling || index != emitted_) return {};
  effects out;
  out.push_back(emit_tokens{emitted_, {token}});
  ++emitted_;
  ++undrained_;
  if (end) {
    engine_.reset();
    effects last = finish(*end, {});
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }
  holder_ = engine_;
  engine_.reset();
  failed_.clear();
  state_ = request_state::routing_decode;
  routing_since_ = now;
  out.push_back(ask_route{engine_role::decode, {}, {}});
  return out;
}

effects request_machine::tokens(leg_epoch leg,
                                uint32_t first_index,
                                std::span<const int32_t> ids,
                                std::optional<end_reason> end,
                                const failure& why,
                                time_point now) {
  if (leg != leg_ || (state_ != request_state::decoding && state_ != request_state::handing_off))
    return {};
  effects out;
  if (state_ == request_state::handing_off)
    out = accepted(leg);  // the answer was overtaken by the tokens
  if (first_index >
      emitted_) {  // a gap: something was lost on the way, start over from what is known
    effects more = reroute({error_code::internal, "output tokens were lost on the way"}, now);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  const size_t known = std::min<size_t>(emitted_ - first_index, ids.size());
  if (const auto fresh = ids.subspan(known); !fresh.empty()) {
    out.push_back(emit_tokens{emitted_, {fresh.begin(), fresh.end()}});
    emitted_ += static_cast<uint32_t>(fresh.size());
    undrained_ += static_cast<uint32_t>(fresh.size());
  }
  if (!end) return out;
  if (*end != end_reason::failed) engine_.reset();  // the engine has already let go of it
  effects last = *end == end_reason::failed && worth_another_engine(why.code) ? reroute(why, now)
                                                                              : finish(*end, why);
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

effects request_machine::engine_down(const engine_key& engine, time_point now) {
  const bool ours = engine_ == engine;
  // While it is handed over the sequence is still read from the prefill engine.
  const bool holder = holder_ == engine;
  if (state_ == request_state::done || (!ours && !holder)) return {};
  if (ours) failed_.push_back(engine);
  if (holder) holder_.reset();
  return reroute({error_code::unreachable, "the engine that ran this request is gone"}, now);
}

effects request_machine::drained(uint32_t outputs) {
  undrained_ -= std::min(undrained_, outputs);
  if (state_ != request_state::decoding && state_ != request_state::handing_off) return {};
  const uint32_t used = emitted_ - leg_first_;
  const uint32_t wanted =
      used + limits_.credit_window - std::min(limits_.credit_window, undrained_);
  // Not for every token: half a window is kept outstanding.
  if (wanted <= granted_ || wanted - granted_ < limits_.credit_window / 2) return {};
  const uint32_t more = wanted - granted_;
  granted_ = wanted;
  return {grant_credit{*engine_, leg_, more}};
}

effects request_machine::tick(time_point now) {
  if (state_ == request_state::done || now < deadline_) return {};
  return finish(end_reason::failed,
                {error_code::deadline_exceeded, "the request did not end within its time limit"});
}

effects request_machine::stop(end_reason reason, failure why) {
  if (state_ == request_state::done) return {};
  return finish(reason, std::move(why));
}

effects request_machine::reroute(const failure& why, time_point now) {
  if (reroutes_ >= limits_.reroutes || now >= deadline_) return finish(end_reason::failed, why);
  effects out;
  drop_leg(out);
  ++reroutes_;
  next_leg();  // from here on the old leg is not heard
  state_ = request_state::routing_prefill;
  routing_since_ = now;
  out.push_back(ask_route{engine_role::prefill, failed_, {}});
  return out;
}

void request_machine::drop_leg(effects& out) {
  if (engine_ && !routing(state_)) out.push_back(cancel_leg{*engine_, leg_});
  if (holder_) out.push_back(release_sequence{});
  engine_.reset();
  holder_.reset();
}

effects request_machine::finish(end_reason reason, failure why) {
  effects out;
  drop_leg(out);
  next_leg();
  state_ = request_state::done;
  out.push_back(end_request{reason, std::move(why)});
  return out;
}

}  // namespace deepinfer::schedule
