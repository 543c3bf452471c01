#include "actors/node/chat_exchange.hpp"

#include "actors/node/chat_output.hpp"
#include "runtime/recipe/client_request.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using chat::piece;

namespace {

std::string delta(const std::string& text) {
  return R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("},"finish_reason":null}]})";
}

const std::string last =
    R"({"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{}})";

}  // namespace

TEST_SUITE("actors/node/chat_exchange") {
  TEST_CASE("what was not asked for is left to the server") {
    CHECK(chat::request_body({}, {{"user", "a\"b\n"}}) ==
          R"({"model":"default","messages":[{"role":"user","content":"a\"b\n"}],"stream":true})");
  }

  TEST_CASE("our own server takes every option") {
    const chat::request_options options{"m", "off", 0.7, 0.25, 64, 9'000'000'000, false};
    const std::string body = chat::request_body(
        options, {{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}});
    const auto request = recipe::parse_request(recipe::api_protocol::chat, body);
    REQUIRE(request);
    CHECK(request->model == "m");
    CHECK_FALSE(request->talk.thinking);
    CHECK_FALSE(request->stream);
    CHECK(request->generation.max_tokens == 64);
    CHECK(body.find("\"temperature\":0.7,\"top_p\":0.25,\"max_tokens\":64,\"seed\":9000000000") !=
          std::string::npos);
    const auto thinking = recipe::parse_request(
        recipe::api_protocol::chat,
        chat::request_body({.model = "m", .thinking = "on"}, {{"user", "u"}}));
    REQUIRE(thinking);
    CHECK(thinking->talk.thinking);
  }

  TEST_CASE("an answer is complete after a finish reason and the end of the stream") {
    chat::answer answer;
    CHECK(answer.take_event(delta("Hel"))->content == "Hel");
    CHECK(answer.take_event(delta("lo"))->content == "lo");
    CHECK_FALSE(answer.is_complete());
    REQUIRE(answer.take_event(last));
    CHECK_FALSE(answer.is_complete());
    REQUIRE(answer.take_event("[DONE]"));
    CHECK(answer.is_complete());
    CHECK(answer.content() == "Hello");
    CHECK(answer.finish_reason() == "stop");
  }

  TEST_CASE("the end of the stream without a finish reason is no clean end") {
    chat::answer answer;
    REQUIRE(answer.take_event(delta("x")));
    REQUIRE(answer.take_event("[DONE]"));
    CHECK_FALSE(answer.is_complete());
  }

  TEST_CASE("reasoning is kept apart from content") {
    chat::answer answer;
    const auto got =
        answer.take_event(R"({"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]})");
    REQUIRE(got);
    CHECK(got->reasoning == "hm");
    CHECK(got->content.empty());
    CHECK(answer.content().empty());
  }

  TEST_CASE("an answer in one piece is read whole") {
    chat::answer answer;
    const auto got = answer.take_whole(
        R"({"choices":[{"message":{"role":"assistant","content":"Hi","reasoning_content":"r"},"finish_reason":"length"}]})");
    REQUIRE(got);
    CHECK(got->content == "Hi");
    CHECK(got->reasoning == "r");
    CHECK(answer.is_complete());
    CHECK(answer.finish_reason() == "length");
    chat::answer open;
    REQUIRE(open.take_whole(R"({"choices":[{"message":{"content":"Hi"},"finish_reason":null}]})"));
    CHECK_FALSE(open.is_complete());
  }

  TEST_CASE("an error event is told in the server's words") {
    chat::answer answer;
    const auto got =
        answer.take_event(R"({"error":{"message":"engine lost","type":"server_error"}})");
    REQUIRE_FALSE(got);
    CHECK(got.error().code == error_code::internal);
    CHECK(got.error().detail == "engine lost");
  }

  TEST_CASE("what is no event of a chat is corrupt") {
    for (const char* data : {"", "{", "[]", "7", "{}", R"({"choices":{}})", R"("[DONE]")"}) {
      CAPTURE(data);
      chat::answer answer;
      const auto got = answer.take_event(data);
      REQUIRE_FALSE(got);
      CHECK(got.error().code == error_code::corrupt);
    }
  }

  TEST_CASE("events with odd parts do no harm") {
    chat::answer answer;
    for (const char* data : {R"({"choices":[]})", R"({"choices":[null]})", R"({"choices":[{}]})",
                             R"({"choices":[{"delta":7}]})",
                             R"({"choices":[{"delta":{"content":[1]},"finish_reason":5}]})",
                             R"({"error":null,"choices":[]})"}) {
      CAPTURE(data);
      const auto got = answer.take_event(data);
      REQUIRE(got);
      CHECK(got->content.empty());
    }
    CHECK(answer.finish_reason().empty());
  }

  TEST_CASE("an answer over the limit is refused") {
    chat::answer answer{100};
    REQUIRE(answer.take_event(delta(std::string(20, 'x'))));
    CHECK(answer.take_event(delta(std::string(101, 'x'))).error().code ==
          error_code::corrupt);  // one event alone is over
    chat::answer second{200};
    REQUIRE(second.take_event(delta(std::string(100, 'x'))));
    REQUIRE(second.take_event(delta(std::string(100, 'x'))));
    CHECK(second.take_event(delta("x")).error().code == error_code::too_large);
  }
}

TEST_SUITE("actors/node/chat_output") {
  TEST_CASE("on a pipe reasoning stands between marks of its own") {
    chat::output_text text{{}};
    CHECK(text.add({"let me ", ""}) == "<think>\nlet me ");
    CHECK(text.add({"see", ""}) == "see");
    CHECK(text.add({"", "Yes\x1b[1m"}) == "\n</think>\n\nYes\x1b[1m");
    CHECK(text.end() == "\n");
    CHECK(text.end().empty());
  }

  TEST_CASE("on a terminal reasoning is dim and control characters are shown") {
    chat::output_text text{{true, {true}}};
    CHECK(text.add({"hm\x1b", ""}) == "\x1b[2mhm\\x1b\x1b[0m");
    CHECK(text.add({"", "Yes\x1b[1m\n"}) == "\n\nYes\\x1b[1m\n");
    CHECK(text.end().empty());
  }

  TEST_CASE("reasoning that nothing follows is closed") {
    chat::output_text text{{}};
    CHECK(text.add({"hm\n", ""}) == "<think>\nhm\n");
    CHECK(text.end() == "</think>\n\n");
    chat::output_text nothing{{}};
    CHECK(nothing.add({}).empty());
    CHECK(nothing.end().empty());
  }
}
