#include "runtime/recipe/messages/format.hpp"

#include "runtime/recipe/json_writer.hpp"
#include "runtime/recipe/messages/block_format.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace deepinfer::recipe::messages {
namespace {

std::string_view stop_reason(finish_reason reason) {
  switch (reason) {
    case finish_reason::stop:
      return "end_turn";
    case finish_reason::stop_sequence:
      return "stop_sequence";
    case finish_reason::tool_calls:
      return "tool_use";
    case finish_reason::length:
      return "max_tokens";
    case finish_reason::content_filter:
      return "refusal";
  }
  return "end_turn";
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 402:
      return "billing_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

void write_usage(json_writer& json, const token_usage& usage) {
  const uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  json.key("usage");
  json.begin_object();
  json.number("input_tokens", usage.prompt_tokens - cached);
  json.number("cache_creation_input_tokens", 0);
  json.number("cache_read_input_tokens", cached);
  json.number("output_tokens", usage.completion_tokens);
  if (usage.reasoning_tokens) {
    json.key("output_tokens_details");
    json.begin_object();
    json.number("thinking_tokens", *usage.reasoning_tokens);
    json.end_object();
  }
  json.text("service_tier", "standard");
  json.end_object();
}

void write_head(json_writer& json, const response_identity& identity) {
  json.text("id", identity.id);
  json.text("type", "message");
  json.text("role", "assistant");
  json.text("model", identity.model);
}

void write_stop(json_writer& json, const choice_end& how) {
  json.text("stop_reason", stop_reason(how.reason));
  if (how.reason == finish_reason::stop_sequence) {
    json.text("stop_sequence", how.stop_sequence);
  } else {
    json.null("stop_sequence");
  }
}

std::string tool_use_id(const response_identity& identity, uint32_t call) {
  return "toolu_" + identity.id + "_" + std::to_string(call);
}

class event_format final : public block_format {
public:
  event_format(response_identity identity, answer_traits traits)
      : block_format(std::move(traits)), identity_(std::move(identity)) {}

  void fail(std::string& out, const api_error& error) override {
    out += "event: error\ndata: " + error_body(error, identity_.request_id) + "\n\n";
  }

private:
  /// One event: its type, then what `write_rest` adds to it.
  template <class WriteRest>
  static void event(std::string& out, std::string_view type, WriteRest&& write_rest) {
    out.append("event: ").append(type).append("\ndata: ");
    json_writer json(out);
    json.begin_object();
    json.text("type", type);
    write_rest(json);
    json.end_object();
    out += "\n\n";
  }

  static void delta(std::string& out,
                    const block& which,
                    std::string_view type,
                    std::pair<std::string_view, std::string_view> member) {
    event(out, "content_block_delta", [&](json_writer& json) {
      json.number("index", which.index);
      json.key("delta");
      json.begin_object();
      json.text("type", type);
      json.text(member.first, member.second);
      json.end_object();
    });
  }

  void start_message(std::string& out, const token_usage& prompt) override {
    event(out, "message_start", [&](json_writer& json) {
      json.key("message");
      json.begin_object();
      write_head(json, identity_);
      json.raw("content", "[]");
      json.null("stop_reason");
      json.null("stop_sequence");
      write_usage(json, {prompt.prompt_tokens, prompt.cached_tokens, 0, std::nullopt});
      json.end_object();
    });
  }

  void start_block(std::string& out, const block& which) override {
    event(out, "content_block_start", [&](json_writer& json) {
      json.number("index", which.index);
      json.key("content_block");
      json.begin_object();
      if (which.what == block_kind::thinking) {
        json.text("type", "thinking");
        json.text("thinking", "");
        json.text("signature", "");
      } else if (which.what == block_kind::text) {
        json.text("type", "text");
        json.text("text", "");
      } else {
        json.text("type", "tool_use");
        json.text("id", tool_use_id(identity_, which.call));
        json.text("name", which.name);
        json.raw("input", "{}");
      }
      json.end_object();
    });
    if (which.index == 0) event(out, "ping", [](json_writer&) {});
  }

  void extend_block(std::string& out, const block& which, std::string_view text) override {
    switch (which.what) {
      case block_kind::thinking:
        return delta(out, which, "thinking_delta", {"thinking", text});
      case block_kind::text:
        return delta(out, which, "text_delta", {"text", text});
      case block_kind::tool_use:
        return delta(out, which, "input_json_delta", {"partial_json", text});
    }
  }

  void stop_block(std::string& out, const block& which) override {
    // There is nothing to sign; clients want some signature to send back.
    if (which.what == block_kind::thinking)
      delta(out, which, "signature_delta", {"signature", identity_.id});
    event(out, "content_block_stop", [&](json_writer& json) { json.number("index", which.index); });
  }

  void stop_message(std::string& out, const choice_end& how) override {
    event(out, "message_delta", [&](json_writer& json) {
      json.key("delta");
      json.begin_object();
      write_stop(json, how);
      json.end_object();
      write_usage(json, how.usage);
    });
    event(out, "message_stop", [](json_writer&) {});
  }

  response_identity identity_;
};

class body_format final : public block_format {
public:
  body_format(response_identity identity, answer_traits traits)
      : block_format(std::move(traits)), identity_(std::move(identity)) {}

  void fail(std::string&, const api_error&) override {}

private:
  struct collected {
    block_kind what;
    std::string id, name;  // of a tool
    std::string text;      // or thoughts, or arguments
  };

  void start_message(std::string&, const token_usage&) override {}

  void start_block(std::string&, const block& which) override {
    blocks_.push_back(
        {which.what, tool_use_id(identity_, which.call), std::string(which.name), {}});
  }

  void extend_block(std::string&, const block&, std::string_view text) override {
    blocks_.back().text += text;
  }

  void stop_block(std::string&, const block&) override {}

  void stop_message(std::string& out, const choice_end& how) override {
    json_writer json(out);
    json.begin_object();
    write_head(json, identity_);
    json.key("content");
    json.begin_array();
    for (const collected& one : blocks_) write_block(json, one);
    json.end_array();
    write_stop(json, how);
    write_usage(json, how.usage);
    json.end_object();
  }

  void write_block(json_writer& json, const collected& one) const {
    json.begin_object();
    if (one.what == block_kind::thinking) {
      json.text("type", "thinking");
      json.text("thinking", one.text);
      json.text("signature", identity_.id);
    } else if (one.what == block_kind::text) {
      json.text("type", "text");
      json.text("text", one.text);
    } else {
      json.text("type", "tool_use");
      json.text("id", one.id);
      json.text("name", one.name);
      json.raw("input", parsed_input(one.text));
    }
    json.end_object();
  }

  /// The arguments as an object. What is cut off or no object is an empty one, since clients
  /// rely on the type.
  static std::string parsed_input(std::string_view arguments) {
    const auto parsed = parse_json(arguments);
    if (!parsed || parsed->as<json_object>() == nullptr) return "{}";
    std::string out;
    append_compact_json(out, *parsed);
    return out;
  }

  response_identity identity_;
  std::vector<collected> blocks_;
};

}  // namespace

std::unique_ptr<answer_format> make_events(response_identity identity, answer_traits traits) {
  return std::make_unique<event_format>(std::move(identity), std::move(traits));
}

std::unique_ptr<answer_format> make_body(response_identity identity, answer_traits traits) {
  return std::make_unique<body_format>(std::move(identity), std::move(traits));
}

std::string error_body(const api_error& error, std::string_view request_id) {
  std::string out;
  json_writer json(out);
  json.begin_object();
  json.text("type", "error");
  json.key("error");
  json.begin_object();
  json.text("type", error_type(error.status));
  json.text("message", error.message);
  json.end_object();
  if (request_id.empty()) {
    json.null("request_id");
  } else {
    json.text("request_id", request_id);
  }
  json.end_object();
  return out;
}

std::string count_body(size_t tokens) {
  std::string out;
  json_writer json(out);
  json.begin_object();
  json.number("input_tokens", tokens);
  json.end_object();
  return out;
}

}  // namespace deepinfer::recipe::messages
