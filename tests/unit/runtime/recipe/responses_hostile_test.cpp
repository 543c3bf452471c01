#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/prepare.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

/// A request with every field that is read.
constexpr std::string_view rich =
    R"({"model":"tiny-v41","instructions":"json","stream":true,"user":"u","max_output_tokens":9,)"
    R"("temperature":0.5,"top_p":0.5,"top_k":4,"seed":1,"ignore_eos":false,)"
    R"("reasoning":{"effort":"none","summary":"auto","generate_summary":"concise"},)"
    R"("text":{"verbosity":"low","format":{"type":"json_object"}},"tool_choice":)"
    R"({"type":"function","name":"n::f"},"tools":[{"type":"function","name":"g","description":"d",)"
    R"("strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}}}},)"
    R"({"type":"custom","name":"apply_patch"},{"type":"namespace","name":"n","description":"d",)"
    R"("tools":[{"type":"function","name":"f"}]},{"type":"web_search"}],)"
    R"("input":[{"role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image",)"
    R"("image_url":"http://x","detail":"low"},{"type":"input_file"}]},{"type":"reasoning",)"
    R"("content":[{"text":"r"}],"encrypted_content":"e"},{"type":"message","role":"assistant",)"
    R"("content":"a"},{"type":"function_call","call_id":"c","name":"f","namespace":"n",)"
    R"("arguments":"{}"},{"type":"custom_tool_call","call_id":"d","name":"apply_patch",)"
    R"("input":"i"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text",)"
    R"("text":"o"}]},{"type":"custom_tool_call_output","call_id":"d","output":"o"},)"
    R"({"role":"user","content":"q"}]})";

/// 200, or the status of the error, which must be told in well-formed words.
int status_of(std::string_view body) {
  const auto request = parse_request(api_protocol::responses, body);
  if (request) return 200;
  CHECK_FALSE(request.error().message.empty());
  CHECK(request.error().message.find(request.error().param) != std::string::npos);
  return request.error().status;
}

/// Calls `with` for every value inside `value`, which it may change for the time of the call.
template <class With>
void for_each_value(json_value& value, With&& with) {
  with(value);
  if (auto* items = std::get_if<json_array>(&value.data)) {
    for (json_value& item : *items) for_each_value(item, with);
  } else if (auto* members = std::get_if<json_object>(&value.data)) {
    for (json_member& member : *members) for_each_value(member.value, with);
  }
}

std::string repeated(size_t times, const std::string& before, const std::string& after) {
  std::string out;
  for (size_t i = 0; i < times; ++i)
    out += (i == 0 ? "" : ",") + before + std::to_string(i) + after;
  return out;
}

std::string body_of(const std::string& items, const std::string& more = {}) {
  return R"({"model":"tiny-v41","input":[)" + items + "]" + more + "}";
}

}  // namespace

TEST_SUITE("runtime/recipe/responses") {
  TEST_CASE("a value of any other kind in any field is accepted or refused by name") {
    json_value root = test::read_json(rich);
    REQUIRE(status_of(test::spaced(root)) == 200);
    const std::vector<json_value> others = {{std::monostate{}},
                                            {true},
                                            {int64_t{-7}},
                                            {~uint64_t{0}},
                                            {1.5},
                                            {std::string{}},
                                            {std::string("x")},
                                            {json_array{}},
                                            {json_array{{int64_t{1}}}},
                                            {json_object{}},
                                            {json_object{{"type", {std::string("x")}}}}};
    size_t changed = 0, refused = 0;
    for_each_value(root, [&](json_value& value) {
      const json_value kept = value;
      for (const json_value& other : others) {
        value = other;
        const std::string body = test::spaced(root);
        CAPTURE(body);
        const int status = status_of(body);
        CHECK((status == 200 || status == 400));
        ++changed;
        refused += status == 400 ? 1 : 0;
      }
      value = kept;
    });
    CHECK(changed > 1000);
    CHECK(refused > changed / 2);
  }

  TEST_CASE("a field that is given twice is refused, wherever it is read") {
    // Schemas belong to the client: in them the last value counts.
    std::string text(rich);
    const std::string schema =
        R"(,"parameters":{"type":"object","properties":{"a":{"type":"string"}}})";
    text.erase(text.find(schema), schema.size());
    json_value root = test::read_json(text);
    size_t doubled = 0;
    for_each_value(root, [&](json_value& value) {
      auto* members = std::get_if<json_object>(&value.data);
      for (size_t i = 0; members != nullptr && i < members->size(); ++i) {
        const std::string key = (*members)[i].key;
        members->push_back({"(again)", (*members)[i].value});
        std::string body = test::spaced(root);
        body.replace(body.find("(again)"), 7, key);
        members->pop_back();
        CAPTURE(body);
        const auto request = parse_request(api_protocol::responses, body);
        REQUIRE_FALSE(request);
        CHECK(request.error().message.find("`" + request.error().param + "` is given twice") == 0);
        ++doubled;
      }
    });
    CHECK(doubled >= 70);
  }

  TEST_CASE("nesting is limited in every field that may hold anything") {
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    const std::string legal = std::string(100, '[') + std::string(100, ']');
    for (const std::string& nested : {deep, legal}) {
      const int expected = nested.size() > 1000 ? 400 : 200;
      CHECK(status_of(body_of(R"({"role":"user","content":"q"})", R"(,"x":)" + nested)) ==
            expected);
      CHECK(status_of(body_of(R"({"role":"user","content":"q","x":)" + nested + "}")) == expected);
    }
    CHECK(status_of(body_of(R"({"role":"user","content":)" + legal + "}")) == 400);
  }

  TEST_CASE("ten thousand tools, a hundred thousand items or calls take bounded time") {
    const std::string user = R"({"role":"user","content":"q"})";
    CHECK(status_of(body_of(user, R"(,"tools":[)" +
                                      repeated(10'000, R"({"type":"function","name":"f)", "\"}") +
                                      "]")) == 200);
    CHECK(
        status_of(body_of(
            user, R"(,"tools":[)" +
                      repeated(100, R"({"type":"namespace","name":"n)",
                               R"(","tools":[)" +
                                   repeated(100, R"({"type":"function","name":"f)", "\"}") + "]}") +
                      "]")) == 200);
    CHECK(status_of(body_of(repeated(100'000, R"({"role":"user","content":")", "\"}"))) == 200);
    CHECK(status_of(body_of(repeated(100'000, R"({"role":"assistant","content":")", "\"}"))) ==
          200);
    CHECK(status_of(body_of(
              repeated(100'000, R"({"type":"reasoning","content":[{"text":")", "\"}]}"))) == 200);
    const std::string calls = repeated(
        50'000, R"({"type":"function_call","name":"f","arguments":"{}","call_id":")", "\"}");
    const std::string results =
        repeated(50'000, R"({"type":"function_call_output","output":"r","call_id":")", "\"}");
    CHECK(status_of(body_of(calls + "," + results)) == 200);
    CHECK(status_of(body_of(calls)) == 400);
    CHECK(status_of(body_of(repeated(100'000, R"({"role":"user","k)", R"(":1,"content":"q"})"))) ==
          200);
  }

  TEST_CASE("calls whose flat names all clash get their numbers in bounded time") {
    // `a::a` + `a`, `a` + `a::a`, ...: every way to cut one name is another member.
    constexpr size_t parts = 1500;
    std::string name = "a", calls, results;
    for (size_t i = 1; i < parts; ++i) name += "::a";
    for (size_t i = 1; i < parts; ++i) {
      const std::string id = std::to_string(i);
      calls += R"({"type":"function_call","arguments":"{}","call_id":")" + id +
               R"(","namespace":")" + name.substr(0, 3 * i - 2) + R"(","name":")" +
               name.substr(3 * i) + "\"},";
      results += (i == 1 ? "" : ",") +
                 (R"({"type":"function_call_output","output":"r","call_id":")" + id) + "\"}";
    }
    const auto request = parse_request(api_protocol::responses, body_of(calls + results));
    REQUIRE(request);
    const auto& made = request->talk.messages.front().calls;
    REQUIRE(made.size() == parts - 1);
    std::vector<std::string> names;
    for (const tool_call& call : made) names.push_back(call.name);
    std::sort(names.begin(), names.end());
    CHECK(std::unique(names.begin(), names.end()) == names.end());
    CHECK(made.front().name == name);
  }

  TEST_CASE("mutilated responses requests give an answer, never a crash") {
    int accepted = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 3000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string body(rich);
      for (uint32_t edits = 1 + random.below(3); edits > 0; --edits) {
        const size_t at = random.below(static_cast<uint32_t>(body.size()));
        switch (random.below(3)) {
          case 0:
            body[at] = static_cast<char>(random.below(256));
            break;
          case 1:
            body.erase(at, 1 + random.below(8));
            break;
          default:
            body.insert(at, body, random.below(64), random.below(16));
        }
      }
      const auto made =
          prepare(api_protocol::responses, body, *test::tiny_tokenizer(), {"tiny-v41", {}, 4096});
      const int status = made ? 200 : made.error().status;
      CHECK((status == 200 || status == 400 || status == 404));
      accepted += status == 200;
      refused += status == 400;
    }
    CHECK(accepted > 0);
    CHECK(refused > 2000);
  }
}
