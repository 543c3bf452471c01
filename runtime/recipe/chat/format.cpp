#include "runtime/recipe/chat/format.hpp"

#include "runtime/recipe/openai_parts.hpp"

#include <map>
#include <utility>
#include <vector>

namespace deepinfer::recipe::chat {
namespace {

/// Unique over all choices of a response; the first choice's are those of the published format.
std::string call_id(const response_identity& identity, uint32_t choice, size_t index) {
  const std::string head = "call_" + identity.id + "_";
  return (choice == 0 ? head : head + std::to_string(choice) + "_") + std::to_string(index);
}

void write_token(json_writer& json, const shown_token& token) {
  json.text("token", shown_text(token.bytes));
  json.real("logprob", token.logprob);
  json.key("bytes");
  json.begin_array();
  for (const char byte : token.bytes) json.element(uint64_t{static_cast<unsigned char>(byte)});
  json.end_array();
}

/// The tokens of one of the two texts, which `reasoning_content` and `content` are.
enum class told_text : uint8_t { content, reasoning };

void write_tokens(json_writer& json, told_text which, std::span<const shown_logprobs> all) {
  json.key(which == told_text::content ? "content" : "reasoning_content");
  json.begin_array();
  for (const shown_logprobs& one : all) {
    if (one.reasoning != (which == told_text::reasoning)) continue;
    json.begin_object();
    write_token(json, one.chosen);
    json.key("top_logprobs");
    json.begin_array();
    for (const shown_token& other : one.best) {
      json.begin_object();
      write_token(json, other);
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

/// The member `logprobs` of a choice.
void write_logprobs(json_writer& json,
                    const answer_traits& traits,
                    std::span<const shown_logprobs> all) {
  if (!traits.logprobs || all.empty()) return json.null("logprobs");
  json.key("logprobs");
  json.begin_object();
  write_tokens(json, told_text::content, all);
  if (traits.thinking) write_tokens(json, told_text::reasoning, all);
  json.end_object();
}

class event_format final : public answer_format {
public:
  event_format(response_identity identity, answer_traits traits)
      : identity_(std::move(identity)), traits_(std::move(traits)) {}

  void begin(std::string& out, const token_usage&) override { start(out, 0); }

  void chunk(std::string& out, const choice_chunk& piece) override {
    uint32_t& calls = started(out, piece.choice);
    if (piece.what == output_chunk::kind::call) ++calls;
    const uint32_t index = calls == 0 ? 0 : calls - 1;
    frame(out, {.choice = piece.choice, .logprobs = piece.logprobs},
          [this, &piece, index](json_writer& json) { write_delta(json, piece, index); });
  }

  void end(std::string& out, const choice_end& how) override {
    started(out, how.choice);
    frame(out,
          {.choice = how.choice,
           .logprobs = how.logprobs,
           .reason = &how.reason,
           .usage = how.is_last ? &how.usage : nullptr},
          [this](json_writer& json) {
            json.text("content", "");
            if (traits_.thinking) json.null("reasoning_content");
          });
    if (how.is_last) out += "data: [DONE]\n\n";
  }

  void fail(std::string& out, const api_error& error) override { out += openai_error_frame(error); }

private:
  struct frame_parts {
    uint32_t choice = 0;
    std::span<const shown_logprobs> logprobs = {};
    const finish_reason* reason = nullptr;
    const token_usage* usage = nullptr;
  };

  void start(std::string& out, uint32_t choice) {
    calls_.emplace(choice, 0);
    frame(out, {.choice = choice}, [this](json_writer& json) {
      json.text("role", "assistant");
      if (traits_.thinking) {
        json.null("content");
        json.text("reasoning_content", "");
      } else {
        json.text("content", "");
      }
    });
  }

  /// Opens the choice if that is still to do; how many calls of it were announced.
  uint32_t& started(std::string& out, uint32_t choice) {
    if (calls_.find(choice) == calls_.end()) start(out, choice);
    return calls_[choice];
  }

  void write_delta(json_writer& json, const choice_chunk& piece, uint32_t index) const {
    using kind = output_chunk::kind;
    if (piece.what == kind::reasoning) {
      json.null("content");
      json.text("reasoning_content", piece.text);
    } else if (piece.what == kind::text) {
      json.text("content", piece.text);
      if (traits_.thinking) json.null("reasoning_content");
    } else {
      json.key("tool_calls");
      json.begin_array();
      json.begin_object();
      json.number("index", index);
      if (piece.what == kind::call) {
        json.text("id", call_id(identity_, piece.choice, index));
        json.text("type", "function");
      }
      json.key("function");
      json.begin_object();
      if (piece.what == kind::call) json.text("name", piece.text);
      json.text("arguments", piece.what == kind::call ? std::string_view{} : piece.text);
      json.end_object();
      json.end_object();
      json.end_array();
    }
  }

  template <class WriteDelta>
  void frame(std::string& out, const frame_parts& parts, WriteDelta&& write_delta) const {
    out += "data: ";
    json_writer json(out);
    json.begin_object();
    write_openai_head(json, identity_, "chat.completion.chunk");
    json.key("choices");
    json.begin_array();
    json.begin_object();
    json.number("index", parts.choice);
    json.key("delta");
    json.begin_object();
    write_delta(json);
    json.end_object();
    write_logprobs(json, traits_, parts.logprobs);
    if (parts.reason != nullptr) {
      json.text("finish_reason", openai_finish(*parts.reason));
    } else {
      json.null("finish_reason");
    }
    json.end_object();
    json.end_array();
    if (parts.usage != nullptr) {
      write_openai_usage(json, *parts.usage);
    } else if (traits_.include_usage) {
      json.null("usage");
    }
    json.end_object();
    out += "\n\n";
  }

  response_identity identity_;
  answer_traits traits_;
  std::map<uint32_t, uint32_t> calls_;  // of each begun choice, announced so far
};

class body_format final : public answer_format {
public:
  body_format(response_identity identity, answer_traits traits)
      : identity_(std::move(identity)), traits_(std::move(traits)) {}

  void begin(std::string&, const token_usage&) override {}

  void chunk(std::string&, const choice_chunk& piece) override {
    answer& to = answers_[piece.choice];
    to.logprobs.insert(to.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
    switch (piece.what) {
      case output_chunk::kind::reasoning:
        to.reasoning += piece.text;
        break;
      case output_chunk::kind::text:
        to.content += piece.text;
        break;
      case output_chunk::kind::call:
        to.calls.push_back({std::string(piece.text), {}});
        break;
      case output_chunk::kind::arguments:
        if (!to.calls.empty()) to.calls.back().arguments += piece.text;
        break;
    }
  }

  void end(std::string& out, const choice_end& how) override {
    answer& to = answers_[how.choice];
    to.logprobs.insert(to.logprobs.end(), how.logprobs.begin(), how.logprobs.end());
    to.reason = how.reason;
    if (!how.is_last) return;
    json_writer json(out);
    json.begin_object();
    write_openai_head(json, identity_, "chat.completion");
    json.key("choices");
    json.begin_array();
    for (const auto& [choice, one] : answers_) write_choice(json, choice, one);
    json.end_array();
    write_openai_usage(json, how.usage);
    json.end_object();
  }

  void fail(std::string&, const api_error&) override {}

private:
  struct call {
    std::string name, arguments;
  };
  struct answer {
    std::string content, reasoning;
    std::vector<call> calls;
    std::vector<shown_logprobs> logprobs;
    finish_reason reason = finish_reason::stop;
  };

  void write_choice(json_writer& json, uint32_t choice, const answer& one) const {
    json.begin_object();
    json.number("index", choice);
    json.key("message");
    json.begin_object();
    json.text("role", "assistant");
    json.text("content", one.content);
    if (traits_.thinking || !one.reasoning.empty()) json.text("reasoning_content", one.reasoning);
    if (!one.calls.empty()) write_calls(json, choice, one.calls);
    json.end_object();
    write_logprobs(json, traits_, one.logprobs);
    json.text("finish_reason", openai_finish(one.reason));
    json.end_object();
  }

  void write_calls(json_writer& json, uint32_t choice, const std::vector<call>& calls) const {
    json.key("tool_calls");
    json.begin_array();
    for (size_t i = 0; i < calls.size(); ++i) {
      json.begin_object();
      json.text("id", call_id(identity_, choice, i));
      json.text("type", "function");
      json.key("function");
      json.begin_object();
      json.text("name", calls[i].name);
      json.text("arguments", calls[i].arguments);
      json.end_object();
      json.end_object();
    }
    json.end_array();
  }

  response_identity identity_;
  answer_traits traits_;
  std::map<uint32_t, answer> answers_;
};

}  // namespace

std::unique_ptr<answer_format> make_events(response_identity identity, answer_traits traits) {
  return std::make_unique<event_format>(std::move(identity), std::move(traits));
}

std::unique_ptr<answer_format> make_body(response_identity identity, answer_traits traits) {
  return std::make_unique<body_format>(std::move(identity), std::move(traits));
}

}  // namespace deepinfer::recipe::chat
