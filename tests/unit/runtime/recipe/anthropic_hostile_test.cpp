#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/anthropic_bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;
using namespace deepinfer::test::anthropic;

namespace {

const served_model large{"tiny-v41", {}, 1u << 24};

api_result<prepared_request> prepared(std::string_view body) {
  recipe_options options;
  options.max_prompt_tokens = 1u << 24;
  return prepare(api_protocol::messages, body, *test::tiny_tokenizer(), large, options);
}

int status_of(std::string_view body) {
  const auto made = prepared(body);
  return made ? 200 : made.error().status;
}

/// A request that has every field and block this protocol reads.
const std::string everything =
    R"({"model":"tiny-v41","max_tokens":5,"temperature":0.5,"top_p":0.5,"top_k":3,"seed":1,)"
    R"("ignore_eos":false,"stop_sequences":["x"],"stream":true,"metadata":{"user_id":"u"},)"
    R"("thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low"},)"
    R"("system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],)"
    R"("tools":[{"name":"f","description":"d","strict":true,"type":"custom",)"
    R"("input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}],)"
    R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true},)"
    R"("messages":[{"role":"user","content":[{"type":"text","text":"t"},)"
    R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},)"
    R"({"type":"image","source":{"type":"url","url":"https://x"}},{"type":"document"},)"
    R"({"type":"tool_reference","tool_name":"n"}]},)"
    R"({"role":"assistant","content":[{"type":"thinking","thinking":"r","signature":"s"},)"
    R"({"type":"text","text":"t"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},)"
    R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":false,)"
    R"("content":[{"type":"text","text":"t"}]}]},{"role":"system","content":"s"}]})";

std::string repeated(const std::string& item, size_t count) {
  std::string out;
  out.reserve((item.size() + 1) * count);
  for (size_t i = 0; i < count; ++i) out.append(i == 0 ? "" : ",").append(item);
  return out;
}

/// Replaces the value behind one `"key":` of a body: the first character tells where it ends.
std::string with_value(const std::string& body, size_t value, std::string_view instead) {
  size_t end = value;
  int depth = 0;
  bool in_string = false;
  for (; end < body.size(); ++end) {
    const char c = body[end];
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '}' || c == ']') --depth;
  }
  return body.substr(0, value) + std::string(instead) + body.substr(end);
}

}  // namespace

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("a value of the wrong type in any field is refused by name, or the field is unread") {
    REQUIRE(status_of(everything) == 200);
    size_t refusals = 0, fields = 0;
    std::vector<std::string> unread;
    for (size_t at = 0; (at = everything.find("\":", at)) != std::string::npos; at += 2) {
      const size_t key = everything.rfind('"', at - 1) + 1;
      const std::string name = everything.substr(key, at - key);
      size_t refused_here = 0;
      for (const char* wrong : {"true", "-7.5", "\"\\u0007\"", "[[]]", "{\"z\":{}}", "null"}) {
        CAPTURE(name);
        CAPTURE(wrong);
        const auto made = prepared(with_value(everything, at + 2, wrong));
        if (made) continue;
        ++refused_here;
        CHECK((made.error().status == 400 || made.error().status == 404));
        CHECK(made.error().message.size() > 10);
        CHECK(text::is_utf8(made.error().message));
      }
      ++fields;
      refusals += refused_here;
      if (refused_here == 0) unread.push_back(name);
    }
    CHECK(fields == 73);
    CHECK(refusals > 200);
    // What nobody reads: unknown fields, and everything inside a call's input but its place.
    for (const std::string& name : unread)
      CHECK((name == "metadata" || name == "user_id" || name == "cache_control" || name == "type" ||
             name == "a"));
  }

  TEST_CASE("a field that is given twice is refused where it is read") {
    CHECK(refused(R"({"model":"m","messages":[{"role":"user","role":"user","content":"q"}]})") ==
          "messages[0].role");
    CHECK(refused_messages(R"([{"role":"user","content":"q","content":"q"}])") ==
          "messages[0].content");
    CHECK(refused_messages(list({user(R"({"type":"text","text":"a","text":"b"})")})) ==
          "messages[0].content[0].text");
    CHECK(refused_with(R"("system":"a","system":"b")") == "system");
    CHECK(refused_with(R"("tools":[{"name":"f","name":"g","input_schema":{"type":"object"}}])") ==
          "tools[0].name");
    CHECK(refused_with(R"("thinking":{"type":"disabled","type":"enabled"})") == "thinking.type");
    CHECK(accepted_with(R"("unknown":1,"unknown":2)").talk.messages.size() == 1);
  }

  TEST_CASE("deep nesting is refused in any field, never followed") {
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    CHECK(status_of(test::user_body("q", ",\"unknown\":" + deep)) == 400);
    CHECK(status_of(test::user_body("q", ",\"system\":" + deep)) == 400);
    CHECK(status_of(test::chat_body(list({assistant(
              R"({"type":"tool_use","id":"c","name":"f","input":)" + deep + "}")}))) == 400);
  }

  TEST_CASE("a hundred thousand messages, blocks, results or images take bounded time") {
    const std::string text = R"({"type":"text","text":"x"})";
    const auto many = [](const std::string& item) { return repeated(item, 100'000); };
    const auto tokens = [](std::string_view body) {
      const auto made = prepared(body);
      REQUIRE_MESSAGE(made, made.error().message);
      return made->tokens.size();
    };
    CHECK(tokens(test::chat_body("[" + many(question) + "]")) >= 200'000);
    CHECK(tokens(test::chat_body("[" + many(user(text)) + "]")) >= 200'000);
    CHECK(tokens(test::chat_body(list({user(many(text))}))) >= 200'000);
    CHECK(tokens(test::chat_body(list({assistant(many(text))}))) >= 200'000);
    CHECK(tokens(test::user_body("q", ",\"system\":[" + many(text) + "]")) >= 200'000);
    CHECK(tokens(test::chat_body(list(
              {question, assistant(many(R"({"type":"thinking","thinking":"x"})"))}))) >= 100'000);
    const std::string picture = image(R"({"type":"url","url":"https://x"})");
    CHECK(tokens(test::chat_body(list({user(many(picture))}))) >= 200'000);
    CHECK(tokens(test::chat_body(list(
              {assistant(call), user(answer("c1", ",\"content\":[" + many(picture) + "]"))}))) >=
          200'000);
    std::string calls, results;
    for (int i = 0; i < 100'000; ++i) {
      const std::string id = "c" + std::to_string(i);
      calls += (i == 0 ? R"({"type":"tool_use","id":")" : R"(,{"type":"tool_use","id":")") + id +
               R"(","name":"f","input":{}})";
      // Answered from the last to the first.
      results += (i == 0 ? "" : ",") + answer("c" + std::to_string(99'999 - i));
    }
    CHECK(tokens(test::chat_body(list({assistant(calls), user(results)}))) >= 1'000'000);
    // The first unanswered of so many is found in time, too.
    CHECK(refused_messages(list({assistant(calls), user(answer("c0"))})) == "messages[1].content");
  }

  TEST_CASE("ten thousand tools or keys, and strings of ten megabytes, take bounded time") {
    std::string tools, keys;
    for (int i = 0; i < 10'000; ++i) {
      const std::string comma = i == 0 ? "" : ",";
      tools += comma + tool("f" + std::to_string(i), R"(,"description":"d")");
      keys += comma + "\"k" + std::to_string(i) + "\":{\"type\":\"string\"}";
    }
    const auto made = prepared(test::user_body("q", ",\"tools\":[" + tools + "]"));
    REQUIRE(made);
    CHECK(made->tokens.size() >= 100'000);
    CHECK(refused_with("\"tools\":[" + tools + "," + tool("f77") + "]") == "tools[10000].name");
    CHECK(accepted_with(R"("tools":[{"name":"f","input_schema":{"type":"object","properties":{)" +
                        keys + "}}}]")
              .talk.tools.size() == 1);
    const std::string large_text(10'000'000, 'a');
    CHECK(status_of(test::user_body(large_text)) == 200);
    CHECK(status_of(test::user_body("q", ",\"unknown\":\"" + large_text + "\"")) == 200);
    CHECK(status_of(test::chat_body(list({user(base64("image/png", large_text))}))) == 200);
    CHECK(refused_messages(list({user(base64("image/png", large_text + "!"))})) ==
          "messages[0].content[0].source.data");
    CHECK(status_of(test::user_body(std::string(40'000'000, 'a'))) == 400);
  }

  TEST_CASE("mutilated requests give an answer, never a crash") {
    size_t good = 0, bad = 0;
    for (uint64_t seed = 1; seed <= 4000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string body = everything;
      for (uint32_t edits = 1 + random.below(3); edits > 0; --edits) {
        const size_t at = random.below(static_cast<uint32_t>(body.size()));
        switch (random.below(4)) {
          case 0:
            body[at] = static_cast<char>(random.below(256));
            break;
          case 1:
            body.erase(at, 1 + random.below(8));
            break;
          case 2: {
            // One word of the protocol for another.
            static const std::vector<std::string> words = {"text",   "tool_use",  "tool_result",
                                                           "user",   "assistant", "thinking",
                                                           "system", "image",     "url"};
            const auto& from = words[random.below(static_cast<uint32_t>(words.size()))];
            const size_t found = body.find("\"" + from + "\"", at);
            if (found != std::string::npos)
              body.replace(found + 1, from.size(),
                           words[random.below(static_cast<uint32_t>(words.size()))]);
            break;
          }
          default:
            body.insert(at, body, random.below(64), random.below(16));
        }
      }
      const auto request = parse_request(api_protocol::messages, body);
      ++(request ? good : bad);
      if (request) continue;
      CHECK(request.error().status == 400);
      CHECK(text::is_utf8(request.error().message));
    }
    CHECK(good > 100);
    CHECK(bad > 1000);
  }
}
