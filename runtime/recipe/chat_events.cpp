#include "runtime/recipe/chat_events.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

namespace deepinfer::recipe {
namespace {

using writer = rapidjson::Writer<rapidjson::StringBuffer>;

void key(writer& json, std::string_view name) {
  json.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
}
void text(writer& json, std::string_view name, std::string_view value) {
  key(json, name);
  json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}
void number(writer& json, std::string_view name, uint64_t value) {
  key(json, name);
  json.Uint64(value);
}
void null(writer& json, std::string_view name) {
  key(json, name);
  json.Null();
}

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

void write_head(writer& json, const response_identity& identity, std::string_view object) {
  json.StartObject();
  text(json, "id", identity.id);
  text(json, "object", object);
  number(json, "created", identity.created_s);
  text(json, "model", identity.model);
  if (identity.fingerprint) {
    text(json, "system_fingerprint", *identity.fingerprint);
  } else {
    null(json, "system_fingerprint");
  }
  key(json, "choices");
  json.StartArray();
  json.StartObject();
  number(json, "index", 0);
}

void write_usage(writer& json, const token_usage& usage) {
  const uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  key(json, "usage");
  json.StartObject();
  number(json, "prompt_tokens", usage.prompt_tokens);
  number(json, "completion_tokens", usage.completion_tokens);
  number(json, "total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  key(json, "prompt_tokens_details");
  json.StartObject();
  number(json, "cached_tokens", usage.cached_tokens);
  json.EndObject();
  if (usage.reasoning_tokens) {
    key(json, "completion_tokens_details");
    json.StartObject();
    number(json, "reasoning_tokens", *usage.reasoning_tokens);
    json.EndObject();
  }
  number(json, "prompt_cache_hit_tokens", usage.cached_tokens);
  number(json, "prompt_cache_miss_tokens", usage.prompt_tokens - cached);
  json.EndObject();
}

/// One frame; `write_delta` writes the members of `delta`, `usage` is set on the last one.
template <class WriteDelta>
void append_frame(std::string& out,
                  const response_identity& identity,
                  chat_event_options options,
                  WriteDelta&& write_delta,
                  const finish_reason* reason = nullptr,
                  const token_usage* usage = nullptr) {
  rapidjson::StringBuffer buffer;
  writer json(buffer);
  write_head(json, identity, "chat.completion.chunk");
  key(json, "delta");
  json.StartObject();
  write_delta(json);
  json.EndObject();
  null(json, "logprobs");
  if (reason != nullptr) {
    text(json, "finish_reason", name_of(*reason));
  } else {
    null(json, "finish_reason");
  }
  json.EndObject();
  json.EndArray();
  if (usage != nullptr) {
    write_usage(json, *usage);
  } else if (options.include_usage) {
    null(json, "usage");
  }
  json.EndObject();
  out.append("data: ").append(buffer.GetString(), buffer.GetSize()).append("\n\n");
}

void begin_call(writer& json, uint32_t index) {
  key(json, "tool_calls");
  json.StartArray();
  json.StartObject();
  number(json, "index", index);
}

void end_call(writer& json) {
  json.EndObject();
  json.EndArray();
}

void write_model(writer& json, const model_entry& model) {
  json.StartObject();
  text(json, "id", model.name);
  text(json, "object", "model");
  number(json, "created", model.created_s);
  text(json, "owned_by", model.owner);
  json.EndObject();
}

}  // namespace

void chat_event_writer::start(std::string& out) const {
  append_frame(out, identity_, options_, [this](writer& json) {
    text(json, "role", "assistant");
    if (options_.thinking) {
      null(json, "content");
      text(json, "reasoning_content", "");
    } else {
      text(json, "content", "");
    }
  });
}

void chat_event_writer::chunk(std::string& out, const output_chunk& piece) {
  using kind = output_chunk::kind;
  if (piece.what == kind::call) ++calls_;
  append_frame(out, identity_, options_, [this, &piece](writer& json) {
    const uint32_t index = calls_ == 0 ? 0 : calls_ - 1;
    switch (piece.what) {
      case kind::reasoning:
        null(json, "content");
        text(json, "reasoning_content", piece.text);
        break;
      case kind::text:
        text(json, "content", piece.text);
        if (options_.thinking) null(json, "reasoning_content");
        break;
      case kind::call:
        begin_call(json, index);
        text(json, "id", call_id(identity_, index));
        text(json, "type", "function");
        key(json, "function");
        json.StartObject();
        text(json, "name", piece.text);
        text(json, "arguments", "");
        json.EndObject();
        end_call(json);
        break;
      case kind::arguments:
        begin_call(json, index);
        key(json, "function");
        json.StartObject();
        text(json, "arguments", piece.text);
        json.EndObject();
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
      [this](writer& json) {
        text(json, "content", "");
        if (options_.thinking) null(json, "reasoning_content");
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
  rapidjson::StringBuffer buffer;
  writer json(buffer);
  write_head(json, identity, "chat.completion");
  key(json, "message");
  json.StartObject();
  text(json, "role", "assistant");
  text(json, "content", content_);
  if (options.thinking || !reasoning_.empty()) text(json, "reasoning_content", reasoning_);
  if (!calls_.empty()) {
    key(json, "tool_calls");
    json.StartArray();
    for (size_t i = 0; i < calls_.size(); ++i) {
      json.StartObject();
      text(json, "id", call_id(identity, i));
      text(json, "type", "function");
      key(json, "function");
      json.StartObject();
      text(json, "name", calls_[i].name);
      text(json, "arguments", calls_[i].arguments);
      json.EndObject();
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  null(json, "logprobs");
  text(json, "finish_reason", name_of(reason));
  json.EndObject();
  json.EndArray();
  write_usage(json, usage);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string error_frame(const api_error& error) {
  return "data: " + error_body(error) + "\n\n";
}

std::string model_body(const model_entry& model) {
  rapidjson::StringBuffer buffer;
  writer json(buffer);
  write_model(json, model);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string models_body(const std::vector<model_entry>& models) {
  rapidjson::StringBuffer buffer;
  writer json(buffer);
  json.StartObject();
  text(json, "object", "list");
  key(json, "data");
  json.StartArray();
  for (const model_entry& model : models) write_model(json, model);
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace deepinfer::recipe
