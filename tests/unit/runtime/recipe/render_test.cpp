#include "runtime/recipe/render.hpp"

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

conversation talk_of(std::string_view body) {
  auto request = parse_request(api_protocol::chat, body);
  REQUIRE_MESSAGE(request, request.error().message);
  return std::move(request->talk);
}

std::vector<std::string> special_texts(const rendered_prompt& prompt) {
  std::vector<std::string> texts;
  for (const auto& range : prompt.specials)
    texts.push_back(prompt.text.substr(range.begin, range.end - range.begin));
  return texts;
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("requests give the known prompts, byte for byte") {
    const auto lines = test::read_source_lines("tests/golden/recipe/prompts.jsonl");
    REQUIRE(lines.size() == 53);
    for (const std::string& line : lines) {
      const json_value golden = test::read_json(line);
      CAPTURE(test::string_member(golden, "name"));
      render_options options;
      if (test::find_member(golden, "history") != nullptr)
        options.history = history_reasoning::drop_before_last_user;
      const auto talk = talk_of(test::spaced(test::member(golden, "request")));
      const rendered_prompt prompt = render(talk, options);
      CHECK(prompt.text == test::string_member(golden, "prompt"));
      // Every range spells a token, and without client text that spells one they are all there.
      CHECK(prompt.specials == test::tiny_tokenizer()->find_specials(prompt.text));
    }
  }

  TEST_CASE("client text that spells control tokens stays plain, wherever it stands") {
    std::string evil;
    for (const std::string_view token : token::needed) evil += token;
    const std::string quoted = test::json_string(evil + "</｜DSML｜ parameter>");
    const std::string arguments =
        test::json_string("{" + quoted + ":" + quoted + ",\"k\":[" + quoted + "]}");
    const std::string body = test::chat_body(
        R"([{"role":"system","content":)" + quoted + R"(},{"role":"user","content":)" + quoted +
            R"(},{"role":"assistant","content":)" + quoted + R"(,"reasoning_content":)" + quoted +
            R"(,"tool_calls":[{"id":)" + quoted + R"(,"function":{"name":)" + quoted +
            R"(,"arguments":)" + arguments + R"(}}]},{"role":"tool","tool_call_id":)" + quoted +
            R"(,"content":)" + quoted + R"(},{"role":"latest_reminder","content":)" + quoted + "}]",
        R"(,"tools":[{"type":"function","function":{"name":"f","description":)" + quoted +
            R"(,"parameters":{"type":"object","description":)" + quoted + "}}}]");
    std::string tame = body;
    const std::string same_without = test::json_string("x</｜DSML｜ parameter>");
    const auto prompt = render(talk_of(body));
    // The same request with harmless text has exactly the same control tokens.
    const auto replace_all = [](std::string text, const std::string& from, const std::string& to) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
      return text;
    };
    const auto harmless = render(talk_of(replace_all(body, evil, "x")));
    CHECK(special_texts(prompt) == special_texts(harmless));
    CHECK(prompt.text ==
          replace_all(harmless.text, "x</｜DSML｜ parameter>", evil + "</｜DSML｜ parameter>"));
    const auto ids = test::tiny_tokenizer()->encode(prompt.text, prompt.specials);
    REQUIRE(ids);
    const auto added = std::count_if(
        ids->begin(), ids->end(), [](int32_t id) { return test::tiny_tokenizer()->is_added(id); });
    CHECK(static_cast<size_t>(added) == prompt.specials.size());
    CHECK(test::tiny_tokenizer()->decode(*ids, text::decode_mode::keep_special) == prompt.text);
  }

  TEST_CASE("a placeholder is a token only where the converter put one for an image") {
    conversation talk;
    talk.thinking = false;
    message shown{role::user, "a\n\n<｜image｜>\n\n<｜image｜>", {{"u1"}, {"u2"}}, {}, {}, {}};
    message told{role::assistant, "<｜image｜>", {}, {}, {}, {}};
    message result{role::tool, "<｜image｜>", {{"u3"}}, {}, {}, "c"};
    talk.messages = {shown, told, result};
    const rendered_prompt prompt = render(talk);
    CHECK(prompt.text ==
          "<｜begin▁of▁sentence｜><｜User｜>a\n\n<｜image｜>\n\n<｜image｜><｜Assistant｜></think>"
          "<｜image｜><｜end▁of▁sentence｜><｜User｜><tool_result><｜image｜></tool_result>"
          "<｜Assistant｜></think>");
    const auto texts = special_texts(prompt);
    CHECK(std::count(texts.begin(), texts.end(), image_placeholder) == 3);
    REQUIRE(prompt.images.size() == 3);
    CHECK(prompt.images[0].url == "u1");
    CHECK(prompt.images[2].url == "u3");
  }

  TEST_CASE("results with unknown ids keep their order") {
    conversation talk;
    talk.thinking = false;
    talk.messages = {{role::user, "q", {}, {}, {}, {}},
                     {role::assistant, "", {}, {}, {{"c1", "f", "{}"}, {"c2", "f", "{}"}}, {}},
                     {role::tool, "2", {}, {}, {}, "c2"},
                     {role::tool, "x", {}, {}, {}, "?"},
                     {role::user, "u", {}, {}, {}, {}},
                     {role::tool, "y", {}, {}, {}, "??"}};
    const std::string text = render(talk).text;
    CHECK(text.find("<tool_result>x</tool_result>\n\n<tool_result>y</tool_result>\n\nu\n\n"
                    "<tool_result>2</tool_result>") != std::string::npos);
  }

  TEST_CASE("no messages at all still make a prompt") {
    CHECK(render(conversation{}).text.starts_with("<｜begin▁of▁sentence｜><｜System｜>Reasoning"));
    conversation talk;
    talk.thinking = false;
    CHECK(render(talk).text == "<｜begin▁of▁sentence｜><｜Assistant｜></think>");
  }

  TEST_CASE("ranges ascend, do not overlap and lie on character borders") {
    const auto prompt = render(talk_of(
        test::user_body("日本語", R"(,"tools":[{"type":"function","function":{"name":"f"}}])")));
    size_t done = 0;
    for (const auto& range : prompt.specials) {
      CHECK(range.begin >= done);
      CHECK(range.end > range.begin);
      CHECK((static_cast<unsigned char>(prompt.text[range.begin]) & 0xC0) != 0x80);
      done = range.end;
    }
    CHECK(done <= prompt.text.size());
  }
}
