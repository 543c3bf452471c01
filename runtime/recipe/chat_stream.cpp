#include "runtime/recipe/chat_codec.hpp"
#include "runtime/recipe/control_tokens.hpp"

#include <algorithm>

namespace deepinfer::recipe {

chat_stream::chat_stream(std::shared_ptr<const text::tokenizer> tokenizer,
                         const prepared_request& request,
                         response_identity identity)
    : tokenizer_(std::move(tokenizer)),
      decoder_(tokenizer_),
      parser_(request.parsing),
      identity_(std::move(identity)),
      event_options_{request.thinking, request.include_usage},
      events_(identity_, event_options_),
      streaming_(request.stream),
      ignore_eos_(request.ignore_eos) {
  for (const std::string_view name :
       {token::bos, token::eos, token::system, token::user, token::assistant})
    if (const auto id = tokenizer_->special_id(name)) silent_.push_back(*id);
  usage_.prompt_tokens = static_cast<uint32_t>(request.tokens.size());
  if (request.report_reasoning_tokens) usage_.reasoning_tokens = 0;
}

bool chat_stream::is_silent(int32_t token) const {
  return std::find(silent_.begin(), silent_.end(), token) != silent_.end();
}

std::string chat_stream::start(prompt_facts prompt) {
  usage_.prompt_tokens = prompt.prompt_tokens;
  usage_.cached_tokens = prompt.cached_tokens;
  std::string frames;
  if (streaming_) events_.start(frames);
  return frames;
}

void chat_stream::take(int32_t token) {
  const auto piece = decoder_.push(token);
  usage_.completion_tokens += piece.tokens;
  if (usage_.reasoning_tokens && parser_.in_reasoning()) *usage_.reasoning_tokens += piece.tokens;
  parser_.push(piece.text, chunks_);
}

std::string chat_stream::release() {
  std::string frames;
  for (const output_chunk& piece : chunks_) {
    if (streaming_) {
      events_.chunk(frames, piece);
    } else {
      collector_.chunk(piece);
    }
  }
  chunks_.clear();
  return frames;
}

std::string chat_stream::push(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    if (stopped()) break;
    if (is_silent(token)) {
      // The end of a turn is no part of the answer, and other turn tokens are a mistake of the
      // model: neither shown nor counted. A measurement that ignores the end counts all it got.
      if (ignore_eos_) ++usage_.completion_tokens;
      continue;
    }
    take(token);
  }
  return release();
}

finish_reason chat_stream::resolve(engine_finish reason) const {
  if (stopped()) return finish_reason::stop_sequence;
  switch (reason) {
    case engine_finish::length:
      return finish_reason::length;
    case engine_finish::content_filter:
      return finish_reason::content_filter;
    case engine_finish::stop:
      break;
  }
  return parser_.called() ? finish_reason::tool_calls : finish_reason::stop;
}

std::string chat_stream::finish(engine_finish reason) {
  if (!stopped()) parser_.finish(chunks_);
  std::string frames = release();
  const finish_reason resolved = resolve(reason);
  if (!streaming_) return collector_.body(identity_, event_options_, resolved, usage_);
  events_.finish(frames, resolved, usage_);
  return frames;
}

}  // namespace deepinfer::recipe
