#include "actors/edge/chat_protocol.hpp"

#include <utility>

namespace deepinfer {
namespace {

recipe::engine_finish finish_of(schedule::end_reason reason) {
  return reason == schedule::end_reason::length ? recipe::engine_finish::length
                                                : recipe::engine_finish::stop;
}

class chat_writer final : public answer_writer {
public:
  chat_writer(std::shared_ptr<const text::tokenizer> tokenizer,
              const recipe::prepared_request& request,
              recipe::response_identity identity)
      : prompt_tokens_(static_cast<uint32_t>(request.tokens.size())),
        stream_(std::move(tokenizer), request, std::move(identity)) {}

  std::string begin() override {
    if (begun_) return {};
    begun_ = true;
    return stream_.start({prompt_tokens_, 0});
  }

  fed feed(std::span<const int32_t> ids) override {
    std::string bytes = begin();
    bytes += stream_.push(ids);
    return {std::move(bytes), stream_.stopped()};
  }

  std::string end(schedule::end_reason reason, const answer_usage&) override {
    return begin() + stream_.finish(finish_of(reason));
  }

  std::string fail(const recipe::api_error& error) override { return recipe::error_frame(error); }

  std::string keep_alive() override { return ": keep-alive\n\n"; }

private:
  uint32_t prompt_tokens_;
  bool begun_ = false;
  recipe::chat_stream stream_;
};

class chat_protocol final : public protocol_codec {
public:
  chat_protocol(std::shared_ptr<const text::tokenizer> tokenizer,
                recipe::served_model model,
                const recipe::recipe_options& options)
      : tokenizer_(std::move(tokenizer)), model_(std::move(model)), options_(options) {}

  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context& context) const override {
    auto prepared = recipe::prepare_chat(request.body, *tokenizer_, model_, options_);
    if (!prepared) return prepared.error();
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->sampling = {prepared->sampling.temperature, prepared->sampling.top_p,
                          prepared->sampling.top_k,
                          prepared->sampling.seed.value_or(context.default_seed)};
    exchange->max_tokens = prepared->max_tokens;
    exchange->ignore_eos = prepared->ignore_eos;
    exchange->stream = prepared->stream;
    exchange->writer =
        std::make_unique<chat_writer>(tokenizer_, *prepared, identity_of(*prepared, context));
    exchange->tokens = std::move(prepared->tokens);
    return exchange;
  }

  std::string models_body() const override { return recipe::models_body({{model_.name, 0}}); }

private:
  static recipe::response_identity identity_of(const recipe::prepared_request& request,
                                               const exchange_context& context) {
    recipe::response_identity identity;
    identity.id = "chatcmpl-" + to_string(context.id);
    identity.created_s = static_cast<uint64_t>(context.created.count());
    identity.model = request.model;
    return identity;
  }

  std::shared_ptr<const text::tokenizer> tokenizer_;
  recipe::served_model model_;
  recipe::recipe_options options_;
};

}  // namespace

std::shared_ptr<const protocol_codec> make_chat_protocol(
    std::shared_ptr<const text::tokenizer> tokenizer,
    recipe::served_model model,
    const recipe::recipe_options& options) {
  return std::make_shared<chat_protocol>(std::move(tokenizer), std::move(model), options);
}

}  // namespace deepinfer
