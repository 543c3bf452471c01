#include "actors/node/chat_exchange.hpp"

#include "actors/node/chat_answer.hpp"
#include "actors/node/chat_output.hpp"
#include "runtime/http/sse.hpp"
#include "runtime/recipe/answer_format.hpp"
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

  TEST_CASE("our own server takes every option in every protocol") {
    using recipe::api_protocol;
    for (const api_protocol protocol : {api_protocol::responses, api_protocol::messages}) {
      CAPTURE(to_string(protocol));
      const chat::request_options options{"m", "off", 0.7, 0.25, 64, 9'000'000'000, true, protocol};
      const auto request = recipe::parse_request(
          protocol,
          chat::request_body(options,
                             {{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}}));
      REQUIRE_MESSAGE(request, request.error().message);
      CHECK(request->model == "m");
      CHECK(request->stream);
      CHECK_FALSE(request->talk.thinking);
      REQUIRE(request->talk.messages.size() == 4);
      CHECK(request->talk.messages[0].from == recipe::role::system);
      CHECK(request->talk.messages[2].content == "a");
      CHECK(request->generation.max_tokens == 64);
      CHECK(request->generation.temperature == 0.7F);
      CHECK(request->generation.top_p == 0.25F);
      CHECK(request->generation.seed == 9'000'000'000);
      chat::request_options thinking{.thinking = "on"};
      thinking.protocol = protocol;
      const auto second =
          recipe::parse_request(protocol, chat::request_body(thinking, {{"user", "u"}}));
      REQUIRE(second);
      CHECK(second->talk.thinking);
      CHECK(second->talk.effort == recipe::effort::high);
    }
  }

  TEST_CASE("what our own server writes is read, in every protocol, streamed and whole") {
    using recipe::api_protocol;
    for (const api_protocol protocol :
         {api_protocol::chat, api_protocol::responses, api_protocol::messages})
      for (const bool is_streamed : {true, false})
        for (const auto reason : {recipe::finish_reason::stop, recipe::finish_reason::length}) {
          CAPTURE(to_string(protocol));
          CAPTURE(is_streamed);
          const recipe::response_identity identity{"id", 1, "m", std::nullopt};
          const auto format = is_streamed ? make_event_format(protocol, identity, {})
                                          : make_body_format(protocol, identity, {});
          std::string bytes;
          using kind = recipe::output_chunk::kind;
          format->begin(bytes, {});
          format->chunk(bytes, {0, kind::reasoning, "h", {}});
          format->chunk(bytes, {0, kind::reasoning, "m", {}});
          format->chunk(bytes, {0, kind::text, "Hello, ", {}});
          format->chunk(bytes, {0, kind::text, "w\u00f6rld", {}});
          const size_t before_end = bytes.size();
          format->end(bytes, {0, reason, {}, {}, {}, 2, true});
          chat::answer answer{protocol};
          piece all;
          const auto add = [&all](const result<piece>& part) {
            REQUIRE_MESSAGE(part, part.error().detail);
            all.reasoning += part->reasoning;
            all.content += part->content;
          };
          if (is_streamed) {
            sse_parser events;
            const auto take = [&](const sse_event& event) { add(answer.take_event(event.data)); };
            REQUIRE(events.feed(std::string_view{bytes}.substr(0, before_end), take));
            CHECK_FALSE(answer.is_complete());
            REQUIRE(events.feed(std::string_view{bytes}.substr(before_end), take));
          } else {
            add(answer.take_whole(bytes));
          }
          CHECK(all.reasoning == "hm");
          CHECK(all.content == "Hello, w\u00f6rld");
          CHECK(answer.content() == all.content);
          CHECK(answer.is_complete());
          CHECK(answer.finish_reason() ==
                (reason == recipe::finish_reason::stop ? "stop" : "length"));
        }
  }

  TEST_CASE("what our own server says went wrong is told in its words, in every protocol") {
    using recipe::api_protocol;
    for (const api_protocol protocol :
         {api_protocol::chat, api_protocol::responses, api_protocol::messages}) {
      CAPTURE(to_string(protocol));
      const auto format = make_event_format(protocol, {"id", 1, "m", std::nullopt}, {});
      std::string bytes;
      format->begin(bytes, {});
      format->fail(bytes, {503, "overloaded_error", "overloaded_error", {}, "engine lost"});
      chat::answer answer{protocol};
      std::string said;
      sse_parser events;
      REQUIRE(events.feed(bytes, [&](const sse_event& event) {
        const auto part = answer.take_event(event.data);
        if (!part && said.empty()) said = part.error().detail;
      }));
      CHECK(said == "engine lost");
      CHECK_FALSE(answer.is_complete());
    }
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
    chat::answer answer{recipe::api_protocol::chat, 100};
    REQUIRE(answer.take_event(delta(std::string(20, 'x'))));
    CHECK(answer.take_event(delta(std::string(101, 'x'))).error().code ==
          error_code::corrupt);  // one event alone is over
    chat::answer second{recipe::api_protocol::chat, 200};
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
