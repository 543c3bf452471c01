#include "runtime/recipe/openai_parts.hpp"

#include "runtime/tokenizer/utf8.hpp"

#include <algorithm>

namespace deepinfer::recipe {

std::string_view openai_finish(finish_reason reason) {
  switch (reason) {
    case finish_reason::stop:
    case finish_reason::stop_sequence:
      return "stop";
    case finish_reason::tool_calls:
      return "tool_calls";
    case finish_reason::length:
      return "length";
    case finish_reason::content_filter:
      return "content_filter";
  }
  return "stop";
}

void write_openai_head(json_writer& json,
                       const response_identity& identity,
                       std::string_view object) {
  json.text("id", identity.id);
  json.text("object", object);
  json.number("created", identity.created_s);
  json.text("model", identity.model);
  if (identity.fingerprint) {
    json.text("system_fingerprint", *identity.fingerprint);
  } else {
    json.null("system_fingerprint");
  }
}

void write_openai_usage(json_writer& json, const token_usage& usage) {
  const uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  json.key("usage");
  json.begin_object();
  json.number("prompt_tokens", usage.prompt_tokens);
  json.number("completion_tokens", usage.completion_tokens);
  json.number("total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.key("prompt_tokens_details");
  json.begin_object();
  json.number("cached_tokens", usage.cached_tokens);
  json.end_object();
  if (usage.reasoning_tokens) {
    json.key("completion_tokens_details");
    json.begin_object();
    json.number("reasoning_tokens", *usage.reasoning_tokens);
    json.end_object();
  }
  json.number("prompt_cache_hit_tokens", usage.cached_tokens);
  json.number("prompt_cache_miss_tokens", usage.prompt_tokens - cached);
  json.end_object();
}

std::string openai_error_frame(const api_error& error) {
  return "data: " + error_body(error) + "\n\n";
}

std::string shown_text(std::string_view bytes) {
  std::string out;
  text::append_lossy(out, bytes);
  return out;
}

}  // namespace deepinfer::recipe
