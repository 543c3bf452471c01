#include "actors/edge/api_protocols.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

namespace deepinfer {
namespace {

/// A route, a request to it, and how its protocol tells that a cache saved 4 of the prompt's
/// tokens.
struct told_usage {
  std::string path, body, words;
};

const std::string question = R"([{"role":"user","content":"Hello!"}])";
const std::vector<told_usage> protocols{
    {"/v1/chat/completions", R"({"model":"m","messages":)" + question,
     R"("prompt_tokens_details":{"cached_tokens":4},"prompt_cache_hit_tokens":4,)"
     R"("prompt_cache_miss_tokens":)"},
    {"/v1/completions", R"({"model":"m","prompt":"one two three four five six seven")",
     R"("prompt_tokens_details":{"cached_tokens":4},"prompt_cache_hit_tokens":4,)"},
    {"/v1/responses", R"({"model":"m","input":)" + question,
     R"("input_tokens_details":{"cached_tokens":4})"},
    {"/v1/messages", R"({"model":"m","max_tokens":9,"messages":)" + question,
     R"("cache_creation_input_tokens":0,"cache_read_input_tokens":4)"},
};

std::shared_ptr<prepared_exchange> prepare(const told_usage& of, const std::string& more) {
  const auto codec =
      make_api_protocols({.tokenizer = test::tiny_tokenizer(), .model = {"m", {}, 4096}});
  http_request request;
  request.method = "POST";
  request.path = of.path;
  request.body = of.body + more + "}";
  const auto prepared = codec->prepare(request, {request_id{1, 2}});
  if (!prepared) FAIL(prepared.error().message);
  return *prepared;
}

size_t count(const std::string& text, const std::string& words) {
  size_t times = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++times;
  return times;
}

/// The whole answer, of which `first` was known when it began.
std::string answer(prepared_exchange& exchange, answer_usage first, answer_usage last) {
  first.prompt_tokens = last.prompt_tokens = static_cast<uint32_t>(exchange.tokens.size());
  std::string text = exchange.stream ? exchange.writer->begin(first) : "";
  const std::vector<int32_t> ids = exchange.tokens;
  text += exchange.writer->feed({0, std::span{ids}.last(1), {}}).bytes;
  return text + exchange.writer->end({0, schedule::end_reason::length, {}}, last);
}

TEST_SUITE_BEGIN("actors/edge");

TEST_CASE("every protocol tells cached tokens in an answer of one piece and in a stream") {
  const answer_usage cached{0, 4, 1, false};
  for (const told_usage& of : protocols) {
    CAPTURE(of.path);
    const auto whole = prepare(of, "");
    CHECK(count(answer(*whole, {}, cached), of.words) == 1);
    const auto stream = prepare(
        of, R"(,"stream":true)" + std::string{of.path.ends_with("completions")
                                                  ? R"(,"stream_options":{"include_usage":true})"
                                                  : ""});
    REQUIRE(stream->stream);
    const std::string text = answer(*stream, cached, cached);
    CAPTURE(text);
    // Messages tells at the beginning as well.
    CHECK(count(text, of.words) == (of.path == "/v1/messages" ? 2 : 1));
  }
}

TEST_CASE("a Messages stream that began too early tells the cached tokens at its end") {
  const told_usage& messages = protocols.back();
  const auto exchange = prepare(messages, R"(,"stream":true)");
  const auto prompt = std::to_string(exchange->tokens.size());
  const auto rest = std::to_string(exchange->tokens.size() - 4);
  const std::string text = answer(*exchange, {}, {0, 4, 1, false});
  const size_t end = text.find("event: message_delta");
  REQUIRE(end != std::string::npos);
  const std::string none = R"("input_tokens":)" + prompt +
                           R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":0)";
  const std::string some = R"("input_tokens":)" + rest + "," + messages.words;
  CHECK(text.substr(0, end).find(none) != std::string::npos);
  CHECK(count(text.substr(0, end), messages.words) == 0);
  CHECK(text.substr(end).find(some) != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
