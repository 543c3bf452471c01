// The whole way out: token ids through decoder, parser and format. The events of a stream, joined,
// are the complete response, and both are what the table of the output format says.
#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "tests/support/output_reference.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/recipe/output_grammar.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

using kind = output_chunk::kind;
constexpr size_t whole = size_t{1} << 30;

/// An answer in no protocol's words.
struct answer {
  std::string reasoning, text, finish;
  struct call {
    std::string id, name, arguments;
    friend bool operator==(const call&, const call&) = default;
  };
  std::vector<call> calls;
  std::string usage;

  friend bool operator==(const answer&, const answer&) = default;
};

std::string text_or_none(const json_value& object, std::string_view key) {
  const json_value* found = test::find_member(object, key);
  const std::string* text = found == nullptr ? nullptr : found->as<std::string>();
  return text == nullptr ? std::string{} : *text;
}

/// The JSON of each `data:` line, but for the end mark.
std::vector<json_value> frames_of(std::string_view stream) {
  std::vector<json_value> frames;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    std::string_view frame = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    const size_t data = frame.find("data: ");
    REQUIRE(data != std::string_view::npos);
    frame.remove_prefix(data + 6);
    if (frame != "[DONE]") frames.push_back(test::read_json(frame));
  }
  return frames;
}

const json_value& only_choice(const json_value& body) {
  const auto* choices = test::member(body, "choices").as<json_array>();
  REQUIRE(choices != nullptr);
  REQUIRE(choices->size() == 1);
  return choices->front();
}

void take_usage(answer& into, const json_value& from) {
  const json_value* usage = test::find_member(from, "usage");
  if (usage != nullptr && !usage->is_null()) into.usage = test::spaced(*usage);
}

answer join_chat_stream(std::string_view stream) {
  answer made;
  for (const json_value& frame : frames_of(stream)) {
    const json_value& choice = only_choice(frame);
    const json_value& delta = test::member(choice, "delta");
    made.reasoning += text_or_none(delta, "reasoning_content");
    made.text += text_or_none(delta, "content");
    if (const json_value* calls = test::find_member(delta, "tool_calls"))
      for (const json_value& call : *calls->as<json_array>()) {
        const auto index = static_cast<size_t>(*test::member(call, "index").as<int64_t>());
        const json_value& function = test::member(call, "function");
        if (index == made.calls.size())
          made.calls.push_back(
              {test::string_member(call, "id"), test::string_member(function, "name"), {}});
        REQUIRE(index + 1 == made.calls.size());
        made.calls.back().arguments += test::string_member(function, "arguments");
      }
    made.finish += text_or_none(choice, "finish_reason");
    take_usage(made, frame);
  }
  return made;
}

answer read_chat_body(std::string_view text) {
  answer made;
  const json_value body = test::read_json(text);
  const json_value& choice = only_choice(body);
  const json_value& message = test::member(choice, "message");
  made.reasoning = text_or_none(message, "reasoning_content");
  made.text = text_or_none(message, "content");
  if (const json_value* calls = test::find_member(message, "tool_calls"))
    for (const json_value& call : *calls->as<json_array>()) {
      const json_value& function = test::member(call, "function");
      made.calls.push_back({test::string_member(call, "id"), test::string_member(function, "name"),
                            test::string_member(function, "arguments")});
    }
  made.finish = test::string_member(choice, "finish_reason");
  take_usage(made, body);
  return made;
}

/// What the table says of the text, in the words of the chat protocol.
void check_meaning(const answer& got, const test::parsed_output& want) {
  answer expected = got;
  expected.reasoning.clear();
  expected.text.clear();
  size_t calls = 0;
  for (const output_chunk& chunk : want.chunks) {
    if (chunk.what == kind::reasoning) expected.reasoning += chunk.text;
    if (chunk.what == kind::text) expected.text += chunk.text;
    if (chunk.what == kind::call) {
      REQUIRE(calls < got.calls.size());
      expected.calls[calls] = {got.calls[calls].id, chunk.text, {}};
      ++calls;
    }
    if (chunk.what == kind::arguments) expected.calls[calls - 1].arguments += chunk.text;
  }
  CHECK(calls == got.calls.size());
  CHECK(expected.reasoning == got.reasoning);
  CHECK(expected.text == got.text);
  CHECK(expected == got);
}

/// Random settings of a request, as further fields of its body.
std::string chat_settings(test::rng& random, const std::vector<std::string>& stops) {
  std::string more;
  const bool thinking = random.below(2) == 0;
  if (!thinking) more += R"(,"thinking":{"type":"disabled"})";
  if (random.below(4) != 0) {
    more += R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
    if (!thinking && random.below(3) == 0) more += R"(,"tool_choice":"required")";
  }
  if (random.below(4) == 0) more += R"(,"response_format":{"type":"json_object"})";
  if (!stops.empty()) {
    more += ",\"stop\":[";
    for (size_t i = 0; i < stops.size(); ++i)
      more.append(i == 0 ? "" : ",").append(test::json_string(stops[i]));
    more += "]";
  }
  return more;
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
  text::stream_decoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) {
    const auto spelled = tokenizer->token_text(id);
    const auto turns = {token::bos, token::eos, token::system, token::user, token::assistant};
    if (std::find(turns.begin(), turns.end(), spelled) != turns.end()) continue;
    text += decoder.push(id).text;
  }
  return text;
}

/// All bytes of the answer, with at most `most` tokens at a time.
std::string run(prepared_request request,
                bool stream,
                const std::vector<int32_t>& ids,
                size_t most,
                test::rng& random) {
  request.stream = stream;
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

prepared_request prepared(std::string_view body) {
  auto request =
      prepare(api_protocol::chat, body, *test::tiny_tokenizer(), {"tiny-v41", {}, 1u << 20});
  REQUIRE_MESSAGE(request, request.error().message);
  return *std::move(request);
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("chat: joined events are the complete response, however the tokens come") {
    test::output_grammar grammar(404);
    test::rng random(404);
    size_t with_calls = 0, ended_by_calls = 0, runs = 0;
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      const test::made_output made = grammar.next();
      const prepared_request request =
          prepared(test::user_body("json", chat_settings(random, made.options.stop)));
      const std::vector<int32_t> ids = ids_of(made.text);
      const answer body = read_chat_body(run(request, false, ids, whole, random));
      check_meaning(body, test::parse_by_the_table(request.parsing, visible_text(ids)));
      CHECK(read_chat_body(run(request, false, ids, 5, random)) == body);
      for (const size_t most : {whole, size_t{1}, size_t{2}, size_t{5}, size_t{30}}) {
        CHECK(join_chat_stream(run(request, true, ids, most, random)) == body);
        ++runs;
      }
      with_calls += body.calls.empty() ? 0 : 1;
      ended_by_calls += body.finish == "tool_calls" ? 1 : 0;
    }
    CHECK(with_calls >= 50);
    CHECK(ended_by_calls >= 20);
    CHECK(runs == 2000);
  }
}
