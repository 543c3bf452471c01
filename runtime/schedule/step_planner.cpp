#include "runtime/schedule/step_planner.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::schedule {

uint64_t step_planner::space(const slot_request& what) {
  return uint64_t{what.computed_tokens} + what.prefill_tokens + what.max_outputs;
}

result<slot_id> step_planner::add(const slot_request& what) {
  if (what.max_outputs == 0 || what.prefill_tokens == 0)
    return failure{error_code::invalid_argument,
                   "a sequence without outputs or without a token to compute"};
  if (space(what) > config_.state_tokens)
    return failure{error_code::invalid_argument,
                   "the sequence needs " + std::to_string(space(what)) +
                       " tokens of state, the engine has " + std::to_string(config_.state_tokens) +
                       ": raise state_tokens or lower max_tokens"};
  if (waiting_.size() >= config_.max_waiting)
    return failure{error_code::no_capacity, "the engine's queue is full"};
  const slot_id id{next_slot_++};
  slots_.emplace(id, slot{.what = what, .waits = what.held});
  waiting_.push_back(id);
  admit();
  return id;
}

void step_planner::arrived(slot_id id) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second.waits) return;
  found->second.waits = false;
  admit();
}

std::vector<slot_id> step_planner::placed() {
  return std::exchange(placed_, {});
}

// As `admit` and `plan_prefill` go through them, with those that wait as if they did not.
std::vector<slot_id> step_planner::due() const {
  std::vector<slot_id> out;
  if (in_flight_.size() >= config_.steps_in_flight) return out;
  size_t places = slots_.size() - waiting_.size();
  uint64_t used = used_tokens_;
  const auto decoding = std::count_if(
      slots_.begin(), slots_.end(), [this](const auto& entry) { return can_decode(entry.second); });
  uint64_t tokens =
      std::min<uint64_t>(static_cast<uint64_t>(decoding), std::max(1u, config_.step_tokens - 1));
  for (const auto& [id, s] : slots_) {
    if (s.finished || (s.admitted && !can_prefill(s))) continue;
    if (!s.admitted) {
      const bool fits =
          places < config_.max_sequences && used + space(s.what) <= config_.state_tokens;
      if (!fits && !s.waits) break;  // nobody passes it
      if (!fits) continue;
      ++places;
      used += space(s.what);
    }
    const uint32_t count = chunk_at(s);
    if (tokens != 0 && tokens + count > config_.step_tokens) continue;
    if (s.prefilled + count == s.what.prefill_tokens && s.outputs >= s.what.credit) continue;
    tokens += count;
    if (s.waits) out.push_back(id);
  }
  return out;
}

void step_planner::begin(slot_id id, uint32_t computed_tokens) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.finished || !found->second.what.held) return;
  slot& s = found->second;
  DEEPINFER_CHECK(computed_tokens == 0 || s.admitted);
  DEEPINFER_CHECK(computed_tokens < s.what.prefill_tokens);
  // The space that is reserved stays the same.
  s.what.computed_tokens = computed_tokens;
  s.what.prefill_tokens -= computed_tokens;
  s.what.held = s.waits = false;
  std::erase(placed_, id);
  admit();
}

void step_planner::restart(slot_id id) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.finished || found->second.what.held) return;
  slot& s = found->second;
  s.what.prefill_tokens += std::exchange(s.what.computed_tokens, 0);
  s.prefilled = s.outputs = 0;
}

void step_planner::grant(slot_id id, uint32_t outputs) {
  const auto found = slots_.find(id);
  if (found == slots_.end()) return;
  uint32_t& credit = found->second.what.credit;
  credit = outputs > UINT32_MAX - credit ? UINT32_MAX : credit + outputs;
}

void step_planner::finish(slot_id id) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.finished) return;
  found->second.finished = true;
  if (!found->second.admitted) std::erase(waiting_, id);
  std::erase(placed_, id);
  release_if_done(id);
}

void step_planner::release_if_done(slot_id id) {
  const auto found = slots_.find(id);
  const slot& s = found->second;
  if (!s.finished || s.references > 0) return;
  if (s.admitted) used_tokens_ -= space(s.what);
  slots_.erase(found);
  freed_.push_back(id);
  admit();
}

// First come, first served: a long one at the head is not overtaken, so it cannot starve. Only one
// that is held is: it has no use for a place yet.
void step_planner::admit() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    slot& s = slots_.at(*next);
    if (s.waits) {
      ++next;
      continue;
    }
    const size_t admitted = slots_.size() - waiting_.size();
    if (admitted >= config_.max_sequences || used_tokens_ + space(s.what) > config_.state_tokens)
      return;
    used_tokens_ += space(s.what);
    s.admitted = true;
    if (s.what.held) placed_.push_back(*next);
    next = waiting_.erase(next);
  }
}

bool step_planner::can_prefill(const slot& s) {
  return s.admitted && !s.finished && !s.what.held && s.prefilled < s.what.prefill_tokens;
}

bool step_planner::can_decode(const slot& s) const {
  return s.admitted && !s.finished && s.prefilled == s.what.prefill_tokens &&
         s.outputs < s.what.max_outputs && s.outputs < s.what.credit;
}

// Running sequences leave one token of the step to those that have not begun: they would otherwise
// wait until others end.
uint32_t step_planner::decode_budget() const {
  const bool somebody_waits = std::any_of(slots_.begin(), slots_.end(), [](const auto& entry) {
    const slot& s = entry.second;
    return can_prefill(s) && s.what.credit > 0;
  });
  return somebody_waits && config_.step_tokens > 1 ? config_.step_tokens - 1 : config_.step_tokens;
}

void step_planner::plan_decode(step_plan& step) {
  if (slots_.empty()) return;
  const uint32_t budget = decode_budget();
  auto it = slots_.lower_bound(decode_cursor_);
  for (size_t visited = 0; visited < slots_.size(); ++visited, ++it) {
    if (it == slots_.end()) it = slots_.begin();
    slot& s = it->second;
    if (!can_decode(s)) continue;
    if (step.tokens >= budget) {
      decode_cursor_ = it->first;
      return;
    }
    // The first output was sampled behind the last prefill token; this row computes the newest one.
    const uint32_t position = s.what.computed_tokens + s.prefilled + s.outputs - 1;
    step.rows.push_back(
        {it->first, position, 1, false, true, (position + 1) % config_.block_tokens == 0});
    ++s.outputs;
    ++s.references;
    ++step.tokens;
  }
}

// Chunk borders are multiples of chunk_tokens of the position, whatever else is in the step, and
// the cut that was asked for.
uint32_t step_planner::chunk_at(const slot& s) const {
  const uint32_t first = s.what.computed_tokens + s.prefilled;
  uint32_t end = first + config_.chunk_tokens - first % config_.chunk_tokens;
  if (first < s.what.cut_at) end = std::min(end, s.what.cut_at);
  return std::min(end - first, s.what.prefill_tokens - s.prefilled);
}

void step_planner::plan_prefill(step_plan& step) {
  for (auto& [id, s] : slots_) {
    if (!can_prefill(s)) continue;
    const uint32_t first = s.what.computed_tokens + s.prefilled;
    const uint32_t count = chunk_at(s);
    const bool ends = s.prefilled + count == s.what.prefill_tokens;
    if (ends && s.outputs >= s.what.credit) continue;  // nobody can take its output yet
    const bool first_row = step.rows.empty();
    if (!first_row && step.tokens + count > config_.step_tokens) continue;
    s.prefilled += count;
    ++s.references;
    if (ends) ++s.outputs;
    step.rows.push_back(
        {id, first, count, true, ends, (first + count) % config_.block_tokens == 0});
    step.tokens += count;
    if (step.tokens >= config_.step_tokens) return;
  }
}

std::optional<step_plan> step_planner::plan() {
  if (in_flight_.size() >= config_.steps_in_flight) return std::nullopt;
  step_plan step;
  plan_decode(step);
  plan_prefill(step);
  if (step.rows.empty()) return std::nullopt;
  step.number = next_step_++;
  in_flight_.push_back(step);
  return step;
}

void step_planner::complete(uint64_t number) {
  DEEPINFER_CHECK(!in_flight_.empty() && in_flight_.front().number == number);
  const step_plan step = std::move(in_flight_.front());
  in_flight_.pop_front();
  for (const planned_row& row : step.rows) {
    const auto found = slots_.find(row.slot);
    DEEPINFER_CHECK(found != slots_.end() && found->second.references > 0);
    --found->second.references;
    release_if_done(row.slot);
  }
}

std::vector<slot_id> step_planner::freed() {
  return std::exchange(freed_, {});
}

planner_load step_planner::load() const {
  planner_load l;
  l.steps_in_flight = static_cast<uint32_t>(in_flight_.size());
  l.waiting = static_cast<uint32_t>(waiting_.size());
  l.running = static_cast<uint32_t>(slots_.size() - waiting_.size());
  uint64_t reserved = used_tokens_;
  for (const auto& [id, s] : slots_) {
    l.queued_tokens += s.what.prefill_tokens - s.prefilled;
    if (s.admitted) l.context_tokens += s.what.computed_tokens + s.prefilled + s.outputs;
    if (!s.admitted) reserved += space(s.what);
  }
  l.free_tokens = config_.state_tokens - std::min(config_.state_tokens, reserved);
  return l;
}

}  // namespace deepinfer::schedule
