#include "runtime/model/v41_stepper.hpp"

#include "runtime/model/sampler.hpp"

#include <algorithm>

namespace deepinfer::model {
namespace {

constexpr size_t logit_rows = 16;  // logits held at once

}  // namespace

bool in_vocabulary(std::span<const int32_t> tokens, uint32_t vocabulary) {
  return std::ranges::all_of(
      tokens, [=](int32_t t) { return t >= 0 && static_cast<uint32_t>(t) < vocabulary; });
}

v41_stepper::v41_stepper(const graph_context& context,
                         const engram_hash* engram,
                         const model_info& info,
                         const stepper_settings& settings)
    : ops_(context),
      info_(info),
      settings_(settings),
      graph_(context, engram),
      patience_(context.swap_wait) {
  if (settings.draft_tokens != 0 && context.weights.drafter) drafter_.emplace(context);
}

void v41_stepper::step(std::span<step_item> items) {
  open(items);
  propose();
  patience_ = swap_patience{ops_.context.swap_wait};
  for (size_t at = 0; gather_pass(at);) run_pass();
}

bool v41_stepper::acceptable(const step_item& item) const {
  const int32_t last = item.target->last_sampled();
  const auto tokens = item.tokens.empty() ? std::span(&last, 1) : item.tokens;
  return tokens.size() <= info_.context_limit - item.target->computed_tokens() &&
         in_vocabulary(tokens, info_.vocabulary) && images_fit(item) &&
         (!item.sample || (item.tokens_to_come == 0 && validate(item.sampling).has_value()));
}

// Rows may only stand for image tokens. An image token without a row is text: a model may choose
// one, and decoded tokens always are.
bool v41_stepper::images_fit(const step_item& item) const {
  const uint32_t start = item.target->computed_tokens();
  const int32_t image_token = ops_.context.config.image_token;
  size_t image = 0;
  for (uint32_t i = 0; i < item.tokens.size(); ++i) {
    const uint32_t position = start + i;
    while (image < item.images.size() &&
           position >= item.images[image].position + item.images[image].count)
      ++image;
    const bool covered = image < item.images.size() && position >= item.images[image].position;
    if (covered && item.tokens[i] != image_token) return false;
  }
  return true;
}

void v41_stepper::open(std::span<step_item> items) {
  shares_.clear();
  shares_.reserve(items.size());  // portions point into it
  for (step_item& item : items) {
    item.sampled = -1;
    item.accepted.clear();
    item.logprobs.clear();
    item.state_missing = static_cast<const v41_sequence*>(item.target)->missing();
    item.failed = item.state_missing || !acceptable(item);
    if (item.failed) continue;
    share s{&item, static_cast<v41_sequence*>(item.target), {}, item.tokens};
    s.end = s.target->computed + static_cast<uint32_t>(item.tokens.size());
    if (item.tokens.empty()) {
      s.decoded.push_back(s.target->last_sampled());
    } else {
      s.kept_from = kept_from(s.end + item.tokens_to_come, settings_.replay);
    }
    shares_.push_back(std::move(s));
  }
}

void v41_stepper::propose() {
  std::vector<v41_sequence*> targets;
  std::vector<int32_t> anchors;
  std::vector<share*> drafting;
  for (share& s : shares_) {
    if (!s.item->tokens.empty()) continue;
    const bool drafts = drafter_ && s.item->sample && s.item->draft_tokens != 0;
    if (drafts && s.target->computed + 1 < info_.context_limit) {
      targets.push_back(s.target);
      anchors.push_back(s.decoded[0]);
      drafting.push_back(&s);
    }
  }
  if (!targets.empty()) {
    const auto proposals = drafter_->draft(targets, anchors, v41_drafter::detail::tokens);
    for (size_t i = 0; i < drafting.size(); ++i) {
      share& s = *drafting[i];
      const uint32_t room = info_.context_limit - s.target->computed - 1;
      const auto count = std::min({s.item->draft_tokens, settings_.draft_tokens, ring_slack - 1,
                                   room, static_cast<uint32_t>(proposals[i].tokens.size())});
      s.decoded.insert(s.decoded.end(), proposals[i].tokens.begin(),
                       proposals[i].tokens.begin() + count);
    }
  }
  for (share& s : shares_)
    if (s.item->tokens.empty()) s.tokens = s.decoded;
}

// The next pass: shares from `at` on, the last one cut where the rows end. The rows of a verify
// step stay together.
bool v41_stepper::gather_pass(size_t& at) {
  segments_.clear();
  portions_.clear();
  instead_.clear();
  instead_.reserve(shares_.size());
  uint32_t used = 0;
  while (at < shares_.size()) {
    share& s = shares_[at];
    if (s.target->lost) {
      ++at;
      continue;
    }
    const bool whole = !s.decoded.empty();
    const auto left = static_cast<uint32_t>(s.tokens.size());
    const uint32_t space = settings_.pass_rows - used;
    if (space == 0 || (whole && left > space)) break;
    const uint32_t count = std::min(left, space);
    const auto tokens = s.tokens.first(count);
    segments_.push_back({.target = s.target,
                         .tokens = tokens,
                         .start = s.target->computed,
                         .first_row = used,
                         .kept_from = s.kept_from,
                         .instead = replacements(s, tokens)});
    portions_.push_back({&s, s.target->computed, count, count == left});
    used += count;
    s.tokens = s.tokens.subspan(count);
    if (count < left) break;
    ++at;
  }
  return !segments_.empty();
}

std::span<const float* const> v41_stepper::replacements(const share& from,
                                                        std::span<const int32_t> tokens) {
  if (from.item->images.empty()) return {};
  auto& rows = instead_.emplace_back(tokens.size(), nullptr);
  const size_t width = ops_.context.config.width;
  for (const image_rows& image : from.item->images)
    for (uint32_t i = 0; i < image.count; ++i) {
      const int64_t at = int64_t{image.position} + i - from.target->computed;
      if (at >= 0 && at < static_cast<int64_t>(rows.size()))
        rows[static_cast<size_t>(at)] = image.rows + i * width;
    }
  return rows;
}

void v41_stepper::run_pass() {
  graph_.run(segments_, {.taps = drafter_.has_value(), .patience = &patience_});
  for (const portion& p : portions_)
    if (p.of->target->lost) p.of->item->failed = p.of->item->state_missing = true;
  wanted_.clear();
  const auto& finished = graph_.finished().segments;
  size_t at = 0;
  for (const portion& p : portions_) {
    if (at == finished.size() || finished[at].target != p.of->target) continue;
    const graph_segment& rows = finished[at++];
    if (p.of->item->failed) continue;
    if (!p.last || !p.of->item->sample) continue;
    const uint32_t end = rows.first_row + rows.rows();
    const bool verifies = !p.of->decoded.empty();
    for (uint32_t row = verifies ? rows.first_row : end - 1; row < end; ++row)
      wanted_.push_back({row, p.of, row - (verifies ? rows.first_row : end - 1)});
  }
  choose_tokens();
  settle();
}

// In groups, so that the head's weights are read once for several rows.
void v41_stepper::choose_tokens() {
  const size_t vocabulary = info_.vocabulary;
  std::vector<uint32_t> rows;
  for (size_t first = 0; first < wanted_.size(); first += logit_rows) {
    const size_t count = std::min(logit_rows, wanted_.size() - first);
    rows.clear();
    for (size_t i = 0; i < count; ++i) rows.push_back(wanted_[first + i].row);
    float* logits = room(logits_, count * vocabulary);
    graph_.logits(rows, logits);
    for (size_t i = 0; i < count; ++i)
      choose(wanted_[first + i], std::span(logits + i * vocabulary, vocabulary));
  }
}

// A draft is accepted when it is the token that sampling chooses at its place. The choice is a
// function of logits and position alone, so the answer is that of a run without drafts.
void v41_stepper::choose(const wanted_row& row, std::span<const float> logits) {
  step_item& item = *row.of->item;
  if (item.failed || item.sampled >= 0) return;  // behind a rejected draft
  const auto& decoded = row.of->decoded;
  const uint32_t verified = static_cast<uint32_t>(decoded.size());
  const uint32_t position =
      row.of->target->computed - (verified == 0 ? 0 : verified - 1 - row.ordinal);
  // Refuses logits that are no numbers: they mean broken weights or state.
  const auto token = choose_token(logits, item.sampling, position);
  item.failed = !token;
  if (!token) return;
  if (item.sampling.logprobs != 0)
    item.logprobs.push_back(*log_probabilities(logits, *token, item.sampling.logprobs - 1));
  if (row.ordinal + 1 < verified && decoded[row.ordinal + 1] == *token) {
    item.accepted.push_back(*token);
    return;
  }
  item.sampled = *token;
  item.target->set_last_sampled(*token);
}

// Takes rejected rows back and tells the drafter what was committed.
void v41_stepper::settle() {
  for (const portion& p : portions_) {
    share& s = *p.of;
    if (s.decoded.empty() || !s.item->sample) continue;
    // A step that failed leaves the sequence where it stood: its anchor was not computed.
    const uint32_t kept = s.item->failed ? 0 : 1 + static_cast<uint32_t>(s.item->accepted.size());
    s.target->roll_back(p.start + kept);
  }
  if (!drafter_) return;
  const size_t width = ops_.context.config.drafter.target_layers.size() * ops_.context.config.width;
  std::vector<graph_segment> committed;
  uint32_t rows = 0;
  for (const graph_segment& segment : graph_.finished().segments) {
    const auto p = std::ranges::find_if(
        portions_, [&](const portion& q) { return q.of->target == segment.target; });
    // Of a chunk its last window alone is ever read: by drafts, or after an export behind it.
    const uint32_t slots = segment.target->draft_rings[0].slots();
    const uint32_t useful = p->of->end - std::min(p->of->end, slots);
    const uint32_t first = std::max(segment.start, useful);
    const uint32_t end = std::min(segment.end(), segment.target->computed);
    if (first >= end) continue;
    const float* from =
        graph_.taps().data() + (segment.first_row + size_t{first} - segment.start) * width;
    std::copy_n(from, size_t{end - first} * width,
                room(taps_, (size_t{rows} + end - first) * width) + rows * width);
    committed.push_back({.target = segment.target,
                         .tokens = segment.tokens.subspan(first - segment.start, end - first),
                         .start = first,
                         .first_row = rows});
    rows += end - first;
  }
  drafter_->commit(committed, taps_.data());
}

}  // namespace deepinfer::model
