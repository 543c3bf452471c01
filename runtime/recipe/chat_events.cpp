#include "runtime/recipe/chat_events.hpp"

#include "runtime/recipe/json_writer.hpp"

#include <algorithm>

namespace deepinfer::recipe {
namespace {

std::string_view name_of(finish_reason reason) {
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

std::string call_id(const response_identity& identity, size_t index) {
  return "call_" + identity.id + "_" + std::to_string(index);
}

void write_head(json_writer& json, const response_identity& identity, std::string_view object) {
  json.begin_object();
  json.text("id", identity.id);
  json.text("object", object);
  json.number("created", identity.created_s);
  json.text("model", identity.model);
  if (identity.fingerprint) {
    json.text("system_fingerprint", *identity.fingerprint);
  } else {
    json.null("system_fingerprint");
  }
  json.key("choices");
  json.begin_array();
  json.begin_object();
  json.number("index", 0);
}

void write_usage(json_writer& json, const token_usage& usage) {
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

/// One frame; `write_delta` writes the members of `delta`, `usage` is set on the last one.
template <class WriteDelta>
void append_frame(std::string& out,
                  const response_identity& identity,
                  chat_event_options options,
                  WriteDelta&& write_delta,
                  const finish_reason* reason = nullptr,
                  const token_usage* usage = nullptr) {
  out += "data: ";
  json_writer json(out);
  write_head(json, identity, "chat.completion.chunk");
  json.key("delta");
  json.begin_object();
  write_delta(json);
  json.end_object();
  json.null("logprobs");
  if (reason != nullptr) {
    json.text("finish_reason", name_of(*reason));
  } else {
    json.null("finish_reason");
  }
  json.end_object();
  json.end_array();
  if (usage != nullptr) {
    write_usage(json, *usage);
  } else if (options.include_usage) {
    json.null("usage");
  }
  json.end_object();
  out += "\n\n";
}

void begin_call(json_writer& json, uint32_t index) {
  json.key("tool_calls");
  json.begin_array();
  json.begin_object();
  json.number("index", index);
}

void end_call(json_writer& json) {
  json.end_object();
  json.end_array();
}

void write_model(json_writer& json, const model_entry& model) {
  json.begin_object();
  json.text("id", model.name);
  json.text("object", "model");
  json.number("created", model.created_s);
  json.text("owned_by", model.owner);
  json.end_object();
}

}  // namespace

void chat_event_writer::start(std::string& out) const {
  append_frame(out, identity_, options_, [this](json_writer& json) {
    json.text("role", "assistant");
    if (options_.thinking) {
      json.null("content");
      json.text("reasoning_content", "");
    } else {
      json.text("content", "");
    }
  });
}

void chat_event_writer::chunk(std::string& out, const output_chunk& piece) {
  using kind = output_chunk::kind;
  if (piece.what == kind::call) ++calls_;
  append_frame(out, identity_, options_, [this, &piece](json_writer& json) {
    const uint32_t index = calls_ == 0 ? 0 : calls_ - 1;
    switch (piece.what) {
      case kind::reasoning:
        json.null("content");
        json.text("reasoning_content", piece.text);
        break;
      case kind::text:
        json.text("content", piece.text);
        if (options_.thinking) json.null("reasoning_content");
        break;
      case kind::call:
        begin_call(json, index);
        json.text("id", call_id(identity_, index));
        json.text("type", "function");
        json.key("function");
        json.begin_object();
        json.text("name", piece.text);
        json.text("arguments", "");
        json.end_object();
        end_call(json);
        break;
      case kind::arguments:
        begin_call(json, index);
        json.key("function");
        json.begin_object();
        json.text("arguments", piece.text);
        json.end_object();
        end_call(json);
        break;
    }
  });
}

void chat_event_writer::finish(std::string& out,
                               finish_reason reason,
                               const token_usage& usage) const {
  append_frame(
      out, identity_, options_,
      [this](json_writer& json) {
        json.text("content", "");
        if (options_.thinking) json.null("reasoning_content");
      },
      &reason, &usage);
  out.append("data: [DONE]\n\n");
}

void chat_collector::chunk(const output_chunk& piece) {
  switch (piece.what) {
    case output_chunk::kind::reasoning:
      reasoning_ += piece.text;
      break;
    case output_chunk::kind::text:
      content_ += piece.text;
      break;
    case output_chunk::kind::call:
      calls_.push_back({piece.text, {}});
      break;
    case output_chunk::kind::arguments:
      if (!calls_.empty()) calls_.back().arguments += piece.text;
      break;
  }
}

std::string chat_collector::body(const response_identity& identity,
                                 chat_event_options options,
                                 finish_reason reason,
                                 const token_usage& usage) const {
  std::string body;
  json_writer json(body);
  write_head(json, identity, "chat.completion");
  json.key("message");
  json.begin_object();
  json.text("role", "assistant");
  json.text("content", content_);
  if (options.thinking || !reasoning_.empty()) json.text("reasoning_content", reasoning_);
  if (!calls_.empty()) {
    json.key("tool_calls");
    json.begin_array();
    for (size_t i = 0; i < calls_.size(); ++i) {
      json.begin_object();
      json.text("id", call_id(identity, i));
      json.text("type", "function");
      json.key("function");
      json.begin_object();
      json.text("name", calls_[i].name);
      json.text("arguments", calls_[i].arguments);
      json.end_object();
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  json.null("logprobs");
  json.text("finish_reason", name_of(reason));
  json.end_object();
  json.end_array();
  write_usage(json, usage);
  json.end_object();
  return body;
}

std::string error_frame(const api_error& error) {
  return "data: " + error_body(error) + "\n\n";
}

std::string model_body(const model_entry& model) {
  std::string body;
  json_writer json(body);
  write_model(json, model);
  return body;
}

std::string models_body(const std::vector<model_entry>& models) {
  std::string body;
  json_writer json(body);
  json.begin_object();
  json.text("object", "list");
  json.key("data");
  json.begin_array();
  for (const model_entry& model : models) write_model(json, model);
  json.end_array();
  json.end_object();
  return body;
}

}  // namespace deepinfer::recipe
