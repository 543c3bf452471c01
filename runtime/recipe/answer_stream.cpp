#include "runtime/recipe/answer_stream.hpp"

#include "proto/types/check.hpp"
#include "runtime/recipe/control_tokens.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe {

answer_stream::answer_stream(std::shared_ptr<const text::tokenizer> tokenizer,
                             const prepared_request& request,
                             response_identity identity)
    : tokenizer_(std::move(tokenizer)),
      open_choices_(request.choices),
      echo_(request.echo),
      ignore_eos_(request.ignore_eos) {
  answer_traits traits{request.thinking, request.include_usage, request.logprobs.has_value(),
                       request.custom_tools};
  format_ = request.stream
                ? make_event_format(request.protocol, std::move(identity), std::move(traits))
                : make_body_format(request.protocol, std::move(identity), std::move(traits));
  choices_.reserve(request.choices);
  for (uint32_t i = 0; i < request.choices; ++i)
    choices_.push_back(
        {text::stream_decoder(tokenizer_), output_parser(request.parsing), {}, false});
  for (const std::string_view name :
       {token::bos, token::eos, token::system, token::user, token::assistant})
    if (const auto id = tokenizer_->special_id(name)) silent_.push_back(*id);
  usage_.prompt_tokens = static_cast<uint32_t>(request.tokens.size());
  if (request.report_reasoning_tokens) usage_.reasoning_tokens = 0;
}

bool answer_stream::is_silent(int32_t token) const {
  return std::find(silent_.begin(), silent_.end(), token) != silent_.end();
}

std::string answer_stream::start(prompt_facts prompt) {
  usage_.prompt_tokens = prompt.prompt_tokens;
  usage_.cached_tokens = prompt.cached_tokens;
  std::string out;
  format_->begin(out, usage_);
  if (!echo_.empty())
    for (uint32_t i = 0; i < choices_.size(); ++i)
      format_->chunk(out, {i, output_chunk::kind::text, echo_, {}});
  return out;
}

void answer_stream::take(choice_state& to, int32_t token) {
  const auto piece = to.decoder.push(token);
  usage_.completion_tokens += piece.tokens;
  if (usage_.reasoning_tokens && to.parser.in_reasoning()) *usage_.reasoning_tokens += piece.tokens;
  to.parser.push(piece.text, chunks_);
}

void answer_stream::take_scored(choice_state& to, int32_t token, const token_logprobs& scores) {
  const bool reasoning = to.parser.in_reasoning();
  const bool shown_before = to.parser.is_shown();
  take(to, token);
  // Told for what clients can see, part of it included: not for markup and what JSON mode hides.
  if ((!shown_before && !to.parser.is_shown()) || tokenizer_->is_added(token)) return;
  const auto shown = [this](int32_t id, float logprob) {
    return shown_token{std::string(tokenizer_->token_text(id)), logprob};
  };
  shown_logprobs made{reasoning, shown(token, scores.chosen), {}};
  for (const scored_token& other : scores.best) made.best.push_back(shown(other.id, other.logprob));
  to.logprobs.push_back(std::move(made));
}

void answer_stream::release(uint32_t choice, std::string& out) {
  auto& logprobs = choices_[choice].logprobs;
  for (const output_chunk& piece : chunks_) {
    format_->chunk(out, {choice, piece.what, piece.text, logprobs});
    logprobs.clear();
  }
  chunks_.clear();
}

std::string answer_stream::push(const choice_tokens& what) {
  DEEPINFER_CHECK(what.choice < choices_.size());
  DEEPINFER_CHECK(what.logprobs.empty() || what.logprobs.size() == what.tokens.size());
  choice_state& to = choices_[what.choice];
  std::string out;
  for (size_t i = 0; i < what.tokens.size() && !to.ended && !to.parser.stopped(); ++i) {
    const int32_t token = what.tokens[i];
    if (is_silent(token)) {
      // The end of a turn is no part of the answer, and other turn tokens are a mistake of the
      // model: neither shown nor counted. A measurement that ignores the end counts all it got.
      if (ignore_eos_) ++usage_.completion_tokens;
      continue;
    }
    if (what.logprobs.empty()) {
      take(to, token);
    } else {
      take_scored(to, token, what.logprobs[i]);
      release(what.choice, out);
    }
  }
  release(what.choice, out);
  return out;
}

finish_reason answer_stream::resolve(const choice_state& of, engine_finish reason) const {
  if (of.parser.stopped()) return finish_reason::stop_sequence;
  switch (reason) {
    case engine_finish::length:
      return finish_reason::length;
    case engine_finish::content_filter:
      return finish_reason::content_filter;
    case engine_finish::stop:
      break;
  }
  return of.parser.called() ? finish_reason::tool_calls : finish_reason::stop;
}

std::string answer_stream::finish(const choice_finish& how) {
  DEEPINFER_CHECK(how.choice < choices_.size());
  choice_state& of = choices_[how.choice];
  std::string out;
  if (std::exchange(of.ended, true)) return out;
  if (!of.parser.stopped()) of.parser.finish(chunks_);
  release(how.choice, out);
  --open_choices_;
  if (how.cached_tokens) usage_.cached_tokens = *how.cached_tokens;
  format_->end(out, {how.choice, resolve(of, how.reason), of.parser.stop_sequence(), of.logprobs,
                     usage_, how.now_s, open_choices_ == 0});
  return out;
}

std::string answer_stream::fail(const api_error& error) {
  std::string out;
  format_->fail(out, error);
  return out;
}

}  // namespace deepinfer::recipe
