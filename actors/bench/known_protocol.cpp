#include "actors/bench/known_protocol.hpp"

#include <charconv>
#include <utility>

namespace deepinfer::bench {
namespace {

constexpr size_t prompt_tokens = 16;

void append_stamp(std::string& out, int32_t stamp) {
  out += stamp_mark;
  out += std::to_string(stamp);
  out += stamp_mark;
}

class known_writer final : public answer_writer {
public:
  std::string begin(const answer_usage&) override { return {}; }
  fed feed(const fed_tokens& tokens) override {
    fed out;
    for (const int32_t id : tokens.ids) out.bytes += known_event(id);
    return out;
  }
  std::string end(const choice_result&, const answer_usage&) override { return known_end(); }
  std::string fail(const recipe::api_error&) override { return "data: {\"error\":{}}\n\n"; }
  std::string keep_alive() override { return ":\n\n"; }
};

class known_protocol final : public protocol_codec {
public:
  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context&) const override {
    auto out = std::make_shared<prepared_exchange>();
    out->tokens.assign(prompt_tokens, 1);
    out->max_tokens = known_tokens(request.body);
    out->stream = true;
    out->writer = std::make_unique<known_writer>();
    return out;
  }
  std::string error_body(const http_request&,
                         const recipe::api_error& error,
                         const exchange_context&) const override {
    return recipe::error_body(error);
  }
  bool serves(std::string_view path) const override { return path == "/v1/chat/completions"; }
  std::optional<recipe::api_result<std::string>> look_up(const http_request&) const override {
    return std::nullopt;
  }
};

/// Adds what the measuring client looks for to the bytes of the real writer.
class stamped_writer final : public answer_writer {
public:
  stamped_writer(std::unique_ptr<answer_writer> real, const std::vector<int32_t>& words)
      : real_(std::move(real)), words_(words) {}

  std::string begin(const answer_usage& usage) override { return real_->begin(usage); }
  fed feed(const fed_tokens& tokens) override {
    fed out;
    for (const int32_t id : tokens.ids) {
      const int32_t word = words_[next_++ % words_.size()];
      out.bytes += real_->feed({0, {&word, 1}, {}}).bytes;
      append_stamp(out.bytes += ": ", id);
      out.bytes += "\n\n";
    }
    return out;
  }
  std::string end(const choice_result& how, const answer_usage& usage) override {
    return real_->end(how, usage);
  }
  std::string fail(const recipe::api_error& error) override { return real_->fail(error); }
  std::string keep_alive() override { return real_->keep_alive(); }

private:
  std::unique_ptr<answer_writer> real_;
  const std::vector<int32_t>& words_;  ///< of the protocol, which outlives all writers
  size_t next_ = 0;
};

class stamped_protocol final : public protocol_codec {
public:
  stamped_protocol(std::shared_ptr<const protocol_codec> chat, std::vector<int32_t> words)
      : chat_(std::move(chat)), words_(std::move(words)) {}

  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context& context) const override {
    auto prepared = chat_->prepare(request, context);
    if (prepared)
      (*prepared)->writer =
          std::make_unique<stamped_writer>(std::move((*prepared)->writer), words_);
    return prepared;
  }
  std::string error_body(const http_request& request,
                         const recipe::api_error& error,
                         const exchange_context& context) const override {
    return chat_->error_body(request, error, context);
  }
  bool serves(std::string_view path) const override { return chat_->serves(path); }
  std::optional<recipe::api_result<std::string>> look_up(
      const http_request& request) const override {
    return chat_->look_up(request);
  }

private:
  std::shared_ptr<const protocol_codec> chat_;
  std::vector<int32_t> words_;
};

}  // namespace

std::string known_body(const known_request& request) {
  return "{\"tokens\":" + std::to_string(request.tokens) + "}";
}

uint32_t known_tokens(std::string_view body) {
  const size_t digits = body.find_first_of("0123456789");
  uint32_t count = 0;
  if (digits != std::string_view::npos)
    std::from_chars(body.data() + digits, body.data() + body.size(), count);
  return count;
}

std::string known_event(int32_t stamp) {
  std::string out =
      R"(data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",)"
      R"("created":1772366400,"model":"default","choices":[{"index":0,"delta":{"content":")";
  append_stamp(out, stamp);
  out += "\"},\"finish_reason\":null}]}\n\n";
  return out;
}

std::string known_end() {
  return "data: [DONE]\n\n";
}

std::shared_ptr<const protocol_codec> make_known_protocol() {
  return std::make_shared<known_protocol>();
}

std::shared_ptr<const protocol_codec> make_stamped_protocol(
    std::shared_ptr<const protocol_codec> chat, std::vector<int32_t> words) {
  return std::make_shared<stamped_protocol>(std::move(chat), std::move(words));
}

}  // namespace deepinfer::bench
