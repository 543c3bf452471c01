#include "actors/edge/api_protocols.hpp"

#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/model_list.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer {
namespace {

using recipe::api_protocol;

struct route {
  std::string_view path;
  api_protocol protocol;
  std::string_view id_prefix;  ///< of answers
};

constexpr std::array<route, 4> routes = {{
    {"/v1/chat/completions", api_protocol::chat, "chatcmpl-"},
    {"/v1/completions", api_protocol::completions, "cmpl-"},
    {"/v1/responses", api_protocol::responses, "resp_"},
    {"/v1/messages", api_protocol::messages, "msg_"},
}};

const route* find_route(std::string_view path) {
  const auto found =
      std::find_if(routes.begin(), routes.end(), [path](const route& r) { return r.path == path; });
  return found == routes.end() ? nullptr : &*found;
}

recipe::engine_finish finish_of(schedule::end_reason reason) {
  return reason == schedule::end_reason::length ? recipe::engine_finish::length
                                                : recipe::engine_finish::stop;
}

class api_writer final : public answer_writer {
public:
  api_writer(std::shared_ptr<const text::tokenizer> tokenizer,
             const recipe::prepared_request& request,
             recipe::response_identity identity)
      : prompt_tokens_(static_cast<uint32_t>(request.tokens.size())),
        stream_(std::move(tokenizer), request, std::move(identity)) {}

  std::string begin() override {
    if (begun_) return {};
    begun_ = true;
    return stream_.start({prompt_tokens_, 0});
  }

  fed feed(const fed_tokens& tokens) override {
    std::string bytes = begin();
    bytes += stream_.push({tokens.choice, tokens.ids, tokens.logprobs});
    return {std::move(bytes), stream_.stopped(tokens.choice)};
  }

  std::string end(const choice_result& how, const answer_usage&) override {
    return begin() + stream_.finish({how.choice, finish_of(how.reason),
                                     static_cast<uint64_t>(how.now.count())});
  }

  std::string fail(const recipe::api_error& error) override { return stream_.fail(error); }

  std::string keep_alive() override { return recipe::keep_alive(); }

private:
  uint32_t prompt_tokens_;
  bool begun_ = false;
  recipe::answer_stream stream_;
};

class api_protocols final : public protocol_codec {
public:
  api_protocols(std::shared_ptr<const text::tokenizer> tokenizer,
                recipe::served_model model,
                const recipe::recipe_options& options)
      : tokenizer_(std::move(tokenizer)), model_(std::move(model)), options_(options) {}

  recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context& context) const override {
    const route* way = find_route(request.path);
    if (way == nullptr) return recipe::bad_request({}, "No such route");
    auto prepared = recipe::prepare(way->protocol, request.body, *tokenizer_, model_, options_);
    if (!prepared) return prepared.error();
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->sampling = {prepared->sampling.temperature, prepared->sampling.top_p,
                          prepared->sampling.top_k,
                          prepared->sampling.seed.value_or(context.default_seed)};
    exchange->choices = prepared->choices;
    exchange->logprobs = prepared->logprobs;
    exchange->max_tokens = prepared->max_tokens;
    exchange->ignore_eos = prepared->ignore_eos;
    exchange->stream = prepared->stream;
    exchange->writer =
        std::make_unique<api_writer>(tokenizer_, *prepared, identity_of(*way, *prepared, context));
    exchange->tokens = std::move(prepared->tokens);
    return exchange;
  }

  std::string error_body(const http_request& request,
                         const recipe::api_error& error,
                         const exchange_context& context) const override {
    const route* way = find_route(request.path);
    return recipe::error_body(way == nullptr ? api_protocol::chat : way->protocol, error,
                              to_string(context.id));
  }

  bool serves(std::string_view path) const override { return find_route(path) != nullptr; }

  std::string models_body() const override { return recipe::models_body({{model_.name, 0}}); }

private:
  static recipe::response_identity identity_of(const route& way,
                                               const recipe::prepared_request& request,
                                               const exchange_context& context) {
    recipe::response_identity identity;
    identity.id = std::string(way.id_prefix) + to_string(context.id);
    identity.created_s = static_cast<uint64_t>(context.created.count());
    identity.model = request.model;
    return identity;
  }

  std::shared_ptr<const text::tokenizer> tokenizer_;
  recipe::served_model model_;
  recipe::recipe_options options_;
};

}  // namespace

std::shared_ptr<const protocol_codec> make_api_protocols(
    std::shared_ptr<const text::tokenizer> tokenizer,
    recipe::served_model model,
    const recipe::recipe_options& options) {
  return std::make_shared<api_protocols>(std::move(tokenizer), std::move(model), options);
}

}  // namespace deepinfer
