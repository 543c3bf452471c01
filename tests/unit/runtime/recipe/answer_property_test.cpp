// The whole way out: token ids through decoder, parser and format. The events of a stream, joined,
// are the complete response, and both are what the table of the output format says.
#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/custom_input_decoder.hpp"
#include "tests/support/output_reference.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/recipe/joined_answer.hpp"
#include "tests/unit/runtime/recipe/output_grammar.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;
using test::joined_answer;

namespace {

using kind = output_chunk::kind;
constexpr size_t whole = size_t{1} << 30;

std::string json_list(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (size_t i = 0; i < texts.size(); ++i)
    list.append(i == 0 ? "" : ",").append(test::json_string(texts[i]));
  return list + "]";
}

/// What a request may ask for that changes how its answer is read.
struct wishes {
  bool thinking = true, tools = false, must_call = false, json = false;
  std::vector<std::string> stop;
};

wishes random_wishes(test::rng& random, const std::vector<std::string>& stops) {
  wishes made;
  made.thinking = random.below(2) == 0;
  made.tools = random.below(4) != 0;
  made.must_call = made.tools && !made.thinking && random.below(3) == 0;
  made.json = random.below(4) == 0;
  made.stop = stops;
  return made;
}

std::string chat_request(const wishes& w) {
  std::string more;
  if (!w.thinking) more += R"(,"thinking":{"type":"disabled"})";
  if (w.tools) more += R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  if (w.must_call) more += R"(,"tool_choice":"required")";
  if (w.json) more += R"(,"response_format":{"type":"json_object"})";
  if (!w.stop.empty()) more += ",\"stop\":" + json_list(w.stop);
  return test::user_body("json", more);
}

std::string completions_request(const wishes& w) {
  const std::string stop = w.stop.empty() ? "" : ",\"stop\":" + json_list(w.stop);
  return R"({"model":"tiny-v41","prompt":"once")" + stop + "}";
}

std::string responses_request(const wishes& w) {
  std::string more;
  if (!w.thinking) more += R"(,"reasoning":{"effort":"none"})";
  if (w.tools)
    more +=
        R"(,"tools":[{"type":"custom","name":"apply_patch"},{"type":"namespace","name":"weather",)"
        R"("tools":[{"type":"function","name":"current","parameters":{"type":"object"}}]}])";
  if (w.must_call) more += R"(,"tool_choice":"required")";
  if (w.json) more += R"(,"text":{"format":{"type":"json_object"}})";
  return R"({"model":"tiny-v41","input":"json")" + more + "}";
}

std::string messages_request(const wishes& w) {
  std::string more = w.thinking ? R"(,"thinking":{"type":"enabled"})" : "";
  if (!w.thinking) more = R"(,"thinking":{"type":"disabled"})";
  if (w.tools) more += R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])";
  if (w.must_call) more += R"(,"tool_choice":{"type":"tool","name":"f"})";
  if (!w.stop.empty()) more += ",\"stop_sequences\":" + json_list(w.stop);
  return test::user_body("json", more);
}

prepared_request prepared(api_protocol protocol, const wishes& w) {
  const std::string body = protocol == api_protocol::chat          ? chat_request(w)
                           : protocol == api_protocol::completions ? completions_request(w)
                           : protocol == api_protocol::responses   ? responses_request(w)
                                                                   : messages_request(w);
  auto request = prepare(protocol, body, *test::tiny_tokenizer(), {"tiny-v41", {}, 1u << 20});
  REQUIRE_MESSAGE(request, request.error().message);
  return *std::move(request);
}

std::vector<int32_t> ids_of(const std::string& text) {
  const auto& tokenizer = test::tiny_tokenizer();
  const auto ids = tokenizer->encode(text, tokenizer->find_specials(text));
  REQUIRE(ids);
  return *ids;
}

/// The text that clients may see something of: without turn tokens, as decoded one by one.
std::string visible_text(const std::vector<int32_t>& ids) {
  const auto& tokenizer = test::tiny_tokenizer();
  const auto turns = {token::bos, token::eos, token::system, token::user, token::assistant};
  text::stream_decoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids)
    if (std::find(turns.begin(), turns.end(), tokenizer->token_text(id)) == turns.end())
      text += decoder.push(id).text;
  return text;
}

/// All bytes of the answer, with at most `most` tokens at a time.
std::string run(prepared_request request,
                const std::vector<int32_t>& ids,
                size_t most,
                test::rng& random) {
  answer_stream answers(test::tiny_tokenizer(), request, {"id-1", 1700000000, "m", "fp"});
  std::string out = answers.start({10, 4});
  for (size_t done = 0; done < ids.size() && !answers.stopped();) {
    const size_t bound = std::min(most, ids.size() - done);
    const size_t count = most == whole ? bound : 1 + random.below(static_cast<uint32_t>(bound));
    out += answers.push({0, std::span(ids).subspan(done, count), {}});
    done += count;
  }
  const auto reason = ids.size() % 3 == 0 ? engine_finish::length : engine_finish::stop;
  out += answers.finish({0, reason, 1700000001});
  CHECK(answers.push({0, ids, {}}).empty());  // whatever comes behind the end
  return out;
}

/// Compares with what the table says of the text. Ids, finish and usage are the protocol's.
void check_meaning(const joined_answer& got,
                   const test::parsed_output& want,
                   const std::vector<std::string>& custom_tools) {
  joined_answer expected;
  for (const output_chunk& chunk : want.chunks) {
    if (chunk.what == kind::reasoning) expected.reasoning += chunk.text;
    if (chunk.what == kind::text) expected.text += chunk.text;
    if (chunk.what == kind::call) expected.calls.push_back({{}, chunk.text, {}});
    if (chunk.what == kind::arguments) expected.calls.back().arguments += chunk.text;
  }
  CHECK(got.reasoning == expected.reasoning);
  CHECK(got.text == expected.text);
  REQUIRE(got.calls.size() == expected.calls.size());
  for (size_t i = 0; i < got.calls.size(); ++i) {
    std::string arguments = expected.calls[i].arguments;
    if (std::count(custom_tools.begin(), custom_tools.end(), expected.calls[i].name) > 0) {
      custom_input_decoder decoder;
      std::string input;
      decoder.push(arguments, input);
      decoder.finish(input);
      arguments = input;
    }
    CHECK(got.calls[i].name == expected.calls[i].name);
    CHECK(got.calls[i].arguments == arguments);
    CHECK(got.calls[i].id.ends_with("id-1_" + std::to_string(i)));
  }
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("joined events are the complete response, however the tokens come") {
    for (const api_protocol protocol : {api_protocol::chat, api_protocol::completions,
                                        api_protocol::responses, api_protocol::messages}) {
      CAPTURE(to_string(protocol));
      test::output_grammar grammar(404);
      test::rng random(404);
      size_t with_calls = 0, with_reasoning = 0, custom = 0, streams = 0;
      for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        const test::made_output made = grammar.next();
        prepared_request request = prepared(protocol, random_wishes(random, made.options.stop));
        const std::vector<int32_t> ids = ids_of(made.text);
        request.stream = false;
        const joined_answer body = test::read_body(protocol, run(request, ids, whole, random));
        CHECK(test::read_body(protocol, run(request, ids, 5, random)) == body);
        request.stream = true;
        const joined_answer once = test::join_stream(protocol, run(request, ids, whole, random));
        CHECK(test::as_in_body(protocol, once) == body);
        check_meaning(once, test::parse_by_the_table(request.parsing, visible_text(ids)),
                      request.custom_tools);
        for (const size_t most : {1, 2, 5, 30}) {
          CHECK(test::join_stream(protocol, run(request, ids, most, random)) == once);
          ++streams;
        }
        for (const joined_answer::call& call : once.calls) custom += call.name == "apply_patch";
        with_calls += once.calls.empty() ? 0 : 1;
        with_reasoning += once.reasoning.empty() ? 0 : 1;
      }
      CHECK(streams == 1200);
      CHECK((protocol == api_protocol::completions || custom >= 10));
      CHECK((with_calls >= 40) == (protocol != api_protocol::completions));
      CHECK((with_reasoning >= 40) == (protocol != api_protocol::completions));
    }
  }
}
