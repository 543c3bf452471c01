#include "runtime/recipe/completions/format.hpp"

#include "runtime/recipe/openai_parts.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <map>
#include <utility>
#include <vector>

namespace deepinfer::recipe::completions {
namespace {

/// The member `logprobs` of a choice; `offset` is where the first token's text begins, in
/// characters of the choice's text.
void write_logprobs(json_writer& json,
                    const answer_traits& traits,
                    std::span<const shown_logprobs> all,
                    uint64_t& offset) {
  if (!traits.logprobs || all.empty()) return json.null("logprobs");
  json.key("logprobs");
  json.begin_object();
  json.key("text_offset");
  json.begin_array();
  for (const shown_logprobs& one : all) {
    json.element(offset);
    offset += text::count_characters(shown_text(one.chosen.bytes));
  }
  json.end_array();
  json.key("token_logprobs");
  json.begin_array();
  for (const shown_logprobs& one : all) json.element(one.chosen.logprob);
  json.end_array();
  json.key("tokens");
  json.begin_array();
  for (const shown_logprobs& one : all) json.element(shown_text(one.chosen.bytes));
  json.end_array();
  json.key("top_logprobs");
  json.begin_array();
  for (const shown_logprobs& one : all) {
    json.begin_object();
    for (const shown_token& other : one.best) json.real(shown_text(other.bytes), other.logprob);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

struct choice_parts {
  uint32_t choice = 0;
  std::string_view text;
  std::span<const shown_logprobs> logprobs;
  const finish_reason* reason = nullptr;
};

void write_choice(json_writer& json,
                  const answer_traits& traits,
                  const choice_parts& parts,
                  uint64_t& offset) {
  json.begin_object();
  json.text("text", parts.text);
  json.number("index", parts.choice);
  write_logprobs(json, traits, parts.logprobs, offset);
  if (parts.reason != nullptr) {
    json.text("finish_reason", openai_finish(*parts.reason));
  } else {
    json.null("finish_reason");
  }
  json.end_object();
}

class event_format final : public answer_format {
public:
  event_format(response_identity identity, answer_traits traits)
      : identity_(std::move(identity)), traits_(std::move(traits)) {}

  void begin(std::string&, const token_usage&) override {}

  void chunk(std::string& out, const choice_chunk& piece) override {
    frame(out, {piece.choice, piece.text, piece.logprobs, nullptr}, nullptr);
  }

  void end(std::string& out, const choice_end& how) override {
    frame(out, {how.choice, {}, how.logprobs, &how.reason}, how.is_last ? &how.usage : nullptr);
    if (how.is_last) out += "data: [DONE]\n\n";
  }

  void fail(std::string& out, const api_error& error) override { out += openai_error_frame(error); }

private:
  void frame(std::string& out, const choice_parts& parts, const token_usage* usage) {
    out += "data: ";
    json_writer json(out);
    json.begin_object();
    write_openai_head(json, identity_, "text_completion");
    json.key("choices");
    json.begin_array();
    write_choice(json, traits_, parts, offsets_[parts.choice]);
    json.end_array();
    if (usage != nullptr) {
      write_openai_usage(json, *usage);
    } else if (traits_.include_usage) {
      json.null("usage");
    }
    json.end_object();
    out += "\n\n";
  }

  response_identity identity_;
  answer_traits traits_;
  std::map<uint32_t, uint64_t> offsets_;
};

class body_format final : public answer_format {
public:
  body_format(response_identity identity, answer_traits traits)
      : identity_(std::move(identity)), traits_(std::move(traits)) {}

  void begin(std::string&, const token_usage&) override {}

  void chunk(std::string&, const choice_chunk& piece) override {
    answer& to = answers_[piece.choice];
    to.text += piece.text;
    to.logprobs.insert(to.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
  }

  void end(std::string& out, const choice_end& how) override {
    answer& to = answers_[how.choice];
    to.logprobs.insert(to.logprobs.end(), how.logprobs.begin(), how.logprobs.end());
    to.reason = how.reason;
    if (!how.is_last) return;
    json_writer json(out);
    json.begin_object();
    write_openai_head(json, identity_, "text_completion");
    json.key("choices");
    json.begin_array();
    for (const auto& [choice, one] : answers_) {
      uint64_t offset = 0;
      write_choice(json, traits_, {choice, one.text, one.logprobs, &one.reason}, offset);
    }
    json.end_array();
    write_openai_usage(json, how.usage);
    json.end_object();
  }

  void fail(std::string&, const api_error&) override {}

private:
  struct answer {
    std::string text;
    std::vector<shown_logprobs> logprobs;
    finish_reason reason = finish_reason::stop;
  };

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

}  // namespace deepinfer::recipe::completions
