#include "actors/edge/api_protocols.hpp"

#include "actors/edge/api_routes.hpp"
#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/messages/format.hpp"
#include "runtime/recipe/model_list.hpp"
#include "runtime/recipe/token_requests.hpp"

#include <utility>

namespace deepinfer {
namespace {

using recipe::api_protocol;

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

  std::string begin(const answer_usage& usage) override {
    if (begun_) return {};
    begun_ = true;
    return stream_.start({prompt_tokens_, usage.cached_tokens});
  }

  fed feed(const fed_tokens& tokens) override {
    std::string bytes = begin({});
    bytes += stream_.push({tokens.choice, tokens.ids, tokens.logprobs});
    return {std::move(bytes), stream_.stopped(tokens.choice)};
  }

  std::string end(const choice_result& how, const answer_usage& usage) override {
    return begin(usage) +
           stream_.finish({how.choice, finish_of(how.reason),
                           static_cast<uint64_t>(how.now.count()), usage.cached_tokens});
  }

  std::string fail(const recipe::api_error& error) override { return stream_.fail(error); }

  std::string keep_alive() override { return recipe::keep_alive(); }

private:
  uint32_t prompt_tokens_;
  bool begun_ = false;
  recipe::answer_stream stream_;
};

/// Clients of one tenant share what the encoder remembers, others learn nothing of it, also by
/// time. The gateway has refused requests whose tenant is unclear.
std::string scope_of(const http_request& request, header_trust headers) {
  const auto party = party_of(request, {headers, cache_sharing::tenant, {}});
  return party ? party->scope.id : credentials_of(request);
}

class api_protocols final : public protocol_codec {
public:
  explicit api_protocols(api_setup setup) : setup_(std::move(setup)) {
    if (!setup_.encoder) setup_.encoder = text::make_plain_encoder(setup_.tokenizer);
  }

  prepared_result prepare(const http_request& request,
                          const exchange_context& context) const override {
    const api_route* way = find_route(request.path);
    if (way == nullptr) return recipe::bad_request({}, "No such route");
    const std::string scope = scope_of(request, setup_.headers);
    const recipe::prompt_reader reader{*setup_.tokenizer, *setup_.encoder, scope};
    switch (way->task) {
      case api_task::generate:
        break;
      case api_task::count_tokens:
        return answered(count_tokens(request, reader));
      case api_task::tokenize:
        return answered(recipe::tokenize(request.body, reader, setup_.model, setup_.options));
      case api_task::detokenize:
        return answered(
            recipe::detokenize(request.body, *setup_.tokenizer, setup_.model, setup_.options));
    }
    auto prepared =
        recipe::prepare(way->protocol, request.body, reader, setup_.model, setup_.options);
    if (!prepared) return prepared.error();
    return exchange_of(*way, *std::move(prepared), context);
  }

  std::string error_body(const http_request& request,
                         const recipe::api_error& error,
                         const exchange_context& context) const override {
    return recipe::error_body(protocol_of(request), error, to_string(context.id));
  }

  bool serves(std::string_view path) const override { return find_route(path) != nullptr; }

  const std::string& routes() const override { return route_list(); }

  std::optional<recipe::api_result<std::string>> look_up(
      const http_request& request) const override {
    const auto id = model_id_of(request.path);
    if (!id) return std::nullopt;
    const recipe::model_entry model{setup_.model.name, setup_.model_created_s};
    const bool is_messages = protocol_of(request) == api_protocol::messages;
    if (id->empty())
      return is_messages ? recipe::messages_models_body({model}) : recipe::models_body({model});
    if (auto unknown = recipe::check_model(*id, setup_.model)) return *std::move(unknown);
    return is_messages ? recipe::messages_model_body(model) : recipe::model_body(model);
  }

  std::vector<std::pair<std::string, int64_t>> counters() const override {
    return setup_.counters ? setup_.counters() : std::vector<std::pair<std::string, int64_t>>{};
  }

private:
  /// In whose words a client wants to hear: those of the route, or of its library.
  static api_protocol protocol_of(const http_request& request) {
    if (const api_route* way = find_route(request.path)) return way->protocol;
    const bool is_messages =
        request.path.starts_with("/v1/messages") || !request.header("anthropic-version").empty();
    return is_messages ? api_protocol::messages : api_protocol::chat;
  }

  static prepared_result answered(recipe::api_result<std::string> body) {
    if (!body) return body.error();
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->answered = *std::move(body);
    return exchange;
  }

  [[nodiscard]] recipe::api_result<std::string> count_tokens(
      const http_request& request, const recipe::prompt_reader& reader) const {
    const auto count = recipe::count_tokens(api_protocol::messages, request.body, reader,
                                            setup_.model, setup_.options);
    if (!count) return count.error();
    return recipe::messages::count_body(*count);
  }

  [[nodiscard]] prepared_result exchange_of(const api_route& way,
                                            recipe::prepared_request prepared,
                                            const exchange_context& context) const {
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->sampling = {prepared.sampling.temperature, prepared.sampling.top_p,
                          prepared.sampling.top_k,
                          prepared.sampling.seed.value_or(context.default_seed)};
    exchange->choices = prepared.choices;
    exchange->logprobs = prepared.logprobs;
    exchange->max_tokens = prepared.max_tokens;
    exchange->ignore_eos = prepared.ignore_eos;
    exchange->stream = prepared.stream;
    recipe::response_identity identity;
    identity.request_id = to_string(context.id);
    identity.id = std::string(way.id_prefix) + identity.request_id;
    identity.created_s = static_cast<uint64_t>(context.created.count());
    identity.model = prepared.model;
    exchange->writer =
        std::make_unique<api_writer>(setup_.tokenizer, prepared, std::move(identity));
    exchange->tokens = std::move(prepared.tokens);
    return exchange;
  }

  api_setup setup_;
};

}  // namespace

std::shared_ptr<const protocol_codec> make_api_protocols(api_setup setup) {
  return std::make_shared<api_protocols>(std::move(setup));
}

}  // namespace deepinfer
