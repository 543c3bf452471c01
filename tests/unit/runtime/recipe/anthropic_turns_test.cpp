#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/render.hpp"
#include "tests/unit/runtime/recipe/anthropic_bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;
using namespace deepinfer::test::anthropic;

TEST_SUITE("runtime/recipe/messages") {
  TEST_CASE("roles are user, assistant and system, which becomes a reminder") {
    const auto made = messages_of(
        list({question, R"({"role":"system","content":"Be brief."})",
              said_by("system", R"({"type":"text","text":"A"},{"type":"text","text":"B"})")}));
    REQUIRE(made.size() == 3);
    CHECK(made[1].from == role::user);
    CHECK(made[1].content == "<system-reminder>\nBe brief.\n</system-reminder>");
    CHECK(made[2].content == "<system-reminder>\nA\n\nB\n</system-reminder>");
    for (const char* role : {R"("tool")", R"("developer")", R"("")", "null", "3"})
      CHECK(refused_messages("[{\"role\":" + std::string(role) + ",\"content\":\"q\"}]") ==
            "messages[0].role");
    CHECK(refused_messages(R"([{"content":"q"}])") == "messages[0].role");
    CHECK(refused_messages(R"(["q"])") == "messages[0]");
    CHECK(refused_messages(R"([{"role":"system"}])") == "messages[0].content");
    CHECK(refused_messages(list({said_by("system", R"({"type":"tool_addition"})")})) ==
          "messages[0].content[0].type");
  }

  TEST_CASE("each block of a user is a message, which the prompt joins") {
    const conversation talk =
        accepted(test::chat_body(list({user(
                     R"({"type":"text","text":"What?"},)" + base64("image/png", "iVBORw0KGgo=") +
                     "," + image(R"({"type":"url","url":"https://example.com/a.png"})") +
                     R"(,{"type":"document","source":{"type":"file"}},)"
                     R"({"type":"tool_reference","tool_name":"t"})")})))
            .talk;
    REQUIRE(talk.messages.size() == 5);
    CHECK(talk.messages[1].content == image_placeholder);
    const rendered_prompt prompt = render(talk);
    CHECK(
        prompt.text.ends_with("<｜User｜>What?\n\n<｜image｜>\n\n<｜image｜>\n\n"
                              "[Unsupported Document]\n\nt<｜Assistant｜><think>"));
    REQUIRE(prompt.images.size() == 2);
    CHECK(prompt.images[0].url == "data:image/png;base64,iVBORw0KGgo=");
    CHECK(prompt.images[1].url == "https://example.com/a.png");
    CHECK(prompt.images[1].detail == image_detail::high);
  }

  TEST_CASE("blocks of the wrong role or of no known type are refused") {
    const auto user_type = [](std::string_view block) {
      return refused_messages(list({user(block)}));
    };
    const auto assistant_type = [](std::string_view block) {
      return refused_messages(list({assistant(block)}));
    };
    CHECK(user_type(call) == "messages[0].content[0].type");
    CHECK(user_type(R"({"type":"thinking","thinking":"t"})") == "messages[0].content[0].type");
    CHECK(user_type(R"({"type":"server_tool_use"})") == "messages[0].content[0].type");
    CHECK(user_type(R"({"type":"web_search_tool_result"})") == "messages[0].content[0].type");
    CHECK(user_type(R"({"type":"search_result"})") == "messages[0].content[0].type");
    CHECK(user_type("{}") == "messages[0].content[0].type");
    CHECK(user_type(R"({"type":1})") == "messages[0].content[0].type");
    CHECK(user_type("7") == "messages[0].content[0]");
    CHECK(user_type(R"({"type":"text"})") == "messages[0].content[0].text");
    CHECK(user_type(R"({"type":"tool_reference"})") == "messages[0].content[0].tool_name");
    CHECK(user_type(R"({"type":"image"})") == "messages[0].content[0].source");
    CHECK(assistant_type(answer("c1")) == "messages[0].content[0].type");
    CHECK(assistant_type(R"({"type":"redacted_thinking","data":"x"})") ==
          "messages[0].content[0].type");
    CHECK(assistant_type(R"({"type":"mcp_tool_use"})") == "messages[0].content[0].type");
    CHECK(assistant_type(base64("image/png", "")) == "messages[0].content[0]");
    CHECK(assistant_type(R"({"type":"thinking"})") == "messages[0].content[0].thinking");
    CHECK(assistant_type(R"({"type":"thinking","thinking":"t","signature":1})") ==
          "messages[0].content[0].signature");
    for (const char* role : {"user", "assistant"}) {
      CHECK(refused_messages(list({said_by(role, "")})) == "messages[0].content");
      CHECK(refused_messages("[{\"role\":\"" + std::string(role) + "\"}]") ==
            "messages[0].content");
      CHECK(refused_messages("[{\"role\":\"" + std::string(role) + "\",\"content\":1}]") ==
            "messages[0].content");
    }
  }

  TEST_CASE("an assistant's blocks become one message") {
    const auto made = messages_of(
        list({question,
              assistant(R"({"type":"thinking","thinking":"r1","signature":"s"},)"
                        R"({"type":"text","text":"t1"},{"type":"thinking","thinking":"r2"},)"
                        R"({"type":"text","text":"t2"},)" +
                        call + "," + call_2),
              user(answer("c2") + "," + answer("c1", R"(,"content":"R")"))}));
    REQUIRE(made.size() == 4);
    CHECK(made[1].from == role::assistant);
    CHECK(made[1].content == "t1\n\nt2");
    CHECK(made[1].reasoning == "r1\n\nr2");
    REQUIRE(made[1].calls.size() == 2);
    CHECK(made[1].calls[0].id == "c1");
    CHECK(made[1].calls[0].name == "f");
    CHECK(made[1].calls[0].arguments == R"({"a": 1})");
    CHECK(made[1].calls[1].arguments == "{}");
    CHECK(made[2].from == role::tool);
    CHECK(made[2].call_id == "c2");
    CHECK(made[2].content.empty());
    CHECK(made[3].content == "R");
  }

  TEST_CASE("empty texts and thoughts join as the published service joins them") {
    const auto made = messages_of(
        list({assistant(R"({"type":"text","text":""},{"type":"text","text":"a"},)"
                        R"({"type":"text","text":""},{"type":"thinking","thinking":""},)"
                        R"({"type":"thinking","thinking":"r"})")}));
    CHECK(made[0].content == "a\n\n");
    CHECK(made[0].reasoning == "\n\nr");
  }

  TEST_CASE("the input of a call is written in the prompt's JSON, whatever its type") {
    const auto arguments = [](std::string_view input) {
      return messages_of(list({assistant(R"({"type":"tool_use","id":"c","name":"f","input":)" +
                                         std::string(input) + "}"),
                               user(answer("c"))}))
          .at(0)
          .calls.at(0)
          .arguments;
    };
    CHECK(arguments(R"({"b":1.5e-7,"a":[true,null,1e16],"é\n":{"x":"<｜User｜>"},"b":"last"})") ==
          R"({"b": "last", "a": [true, null, 1e+16], "é\n": {"x": "<｜User｜>"}})");
    CHECK(arguments(R"("text")") == R"("text")");
    CHECK(arguments("[]") == "[]");
    const auto broken = [](std::string_view block) {
      return refused_messages(list({assistant(block)}));
    };
    CHECK(broken(R"({"type":"tool_use","name":"f","input":{}})") == "messages[0].content[0].id");
    CHECK(broken(R"({"type":"tool_use","id":"c","input":{}})") == "messages[0].content[0].name");
    CHECK(broken(R"({"type":"tool_use","id":"c","name":"f"})") == "messages[0].content[0].input");
    CHECK(broken(R"({"type":"tool_use","id":"c","name":"f","input":{"a":"<｜image｜>"}})") ==
          "messages[0].content[0].input");
  }

  TEST_CASE("results directly follow their calls, all of them, each once") {
    const std::string called = assistant(call + "," + call_2);
    const std::string both = answer("c1") + "," + answer("c2");
    CHECK(messages_of(list({called, user(both)})).size() == 3);
    CHECK(messages_of(list({called, user(both + R"(,{"type":"text","text":"t"})"), question}))
              .size() == 5);
    CHECK(refused_messages(list({called})) == "messages");
    CHECK(refused_messages(list({called, question})) == "messages[1]");
    CHECK(refused_messages(list({called, called})) == "messages[1]");
    CHECK(refused_messages(list({called, R"({"role":"system","content":"s"})"})) == "messages[1]");
    CHECK(refused_messages(list({called, user(answer("c1"))})) == "messages[1].content");
    CHECK(refused_messages(list({called, user(answer("c1")), user(answer("c2"))})) ==
          "messages[1].content");
    CHECK(refused_messages(list({called, user(answer("c1") + R"(,{"type":"text","text":"t"},)" +
                                              answer("c2"))})) == "messages[1].content[1]");
    CHECK(refused_messages(list({called, user(base64("image/png", "") + "," + both)})) ==
          "messages[1].content[0]");
    CHECK(refused_messages(list({called, user(both + "," + answer("c1"))})) ==
          "messages[1].content[2].tool_use_id");
    CHECK(refused_messages(list({called, user(both), user(answer("c1"))})) ==
          "messages[2].content[0].tool_use_id");
    CHECK(refused_messages(list({called, user(both + "," + answer("c9"))})) ==
          "messages[1].content[2].tool_use_id");
    CHECK(refused_messages(list({user(answer("c1"))})) == "messages[0].content[0].tool_use_id");
    CHECK(refused_messages(list({user(R"({"type":"tool_result"})")})) ==
          "messages[0].content[0].tool_use_id");
    CHECK(refused_messages(list({assistant(call + "," + call)})) == "messages[0].content[1].id");
    // The same id may come back in a later turn.
    CHECK(messages_of(
              list({assistant(call), user(answer("c1")), assistant(call), user(answer("c1"))}))
              .size() == 4);
  }

  TEST_CASE("an unanswered call is named in the order of the calls") {
    const auto error =
        parse_request(api_protocol::messages,
                      test::chat_body(list({assistant(call + "," + call_2), user(answer("c1"))})));
    REQUIRE_FALSE(error);
    CHECK(error.error().message.find("'c2'") != std::string::npos);
  }

  TEST_CASE("nothing but calls and thoughts may follow a call") {
    const auto after = [](std::string_view block) {
      return refused_messages(list({assistant(call + "," + std::string(block))}));
    };
    CHECK(after(R"({"type":"text","text":"t"})") == "messages[0].content[1]");
    CHECK(after(R"({"type":"document"})") == "messages[0].content[1]");
    CHECK(messages_of(list({assistant(call + R"(,{"type":"thinking","thinking":"r"})"),
                            user(answer("c1"))}))
              .at(0)
              .reasoning == "r");
  }

  TEST_CASE("a result is a string or blocks, images among them") {
    const auto content = [](std::string_view more) {
      return messages_of(list({assistant(call), user(answer("c1", more))})).at(1);
    };
    CHECK(content(R"(,"content":"20C","is_error":true)").content == "20C");
    CHECK(content("").content.empty());
    CHECK(content(R"(,"content":null)").content.empty());
    CHECK(content(R"(,"content":[])").content.empty());
    const message made =
        content(R"(,"content":[{"type":"text","text":"a"},)" + base64("image/gif", "") +
                R"(,{"type":"document"},{"type":"tool_reference",)"
                R"("tool_name":"t"}])");
    CHECK(made.content == "a\n\n<｜image｜>\n\n[Unsupported Document]\n\nt");
    CHECK(made.images.size() == 1);
    const auto broken = [](std::string_view more) {
      return refused_messages(list({assistant(call), user(answer("c1", more))}));
    };
    CHECK(broken(R"(,"content":5)") == "messages[1].content[0].content");
    CHECK(broken(R"(,"content":[{"type":"search_result"}])") ==
          "messages[1].content[0].content[0].type");
    CHECK(broken(R"(,"is_error":"no")") == "messages[1].content[0].is_error");
    CHECK(broken(R"(,"content":"<｜image｜>")") == "messages[1].content[0].content");
  }

  TEST_CASE("server tool blocks of history are refused, or left out by option") {
    const std::string blocks =
        R"({"type":"text","text":"a"},{"type":"server_tool_use","id":"s","name":"web_search",)"
        R"("input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},)"
        R"({"type":"text","text":"b"})";
    CHECK(refused_messages(list({assistant(blocks)})) == "messages[0].content[1].type");
    conversion_options options;
    options.refuse_web_search_in_messages = false;
    CHECK(messages_of(list({assistant(blocks)}), options).at(0).content == "a\n\nb");
  }

  TEST_CASE("image sources are checked as they are read") {
    const auto url = [](std::string_view block) {
      return messages_of(list({user(block)})).at(0).images.at(0).url;
    };
    const auto broken = [](std::string_view block) {
      return refused_messages(list({user(block)}));
    };
    const std::string at = "messages[0].content[0].source";
    CHECK(url(base64("image/png", "iVBORw0KGgo==")) == "data:image/png;base64,iVBORw0KGgo=");
    CHECK(url(base64("image/png", "aGk====")) == "data:image/png;base64,aGk=");
    CHECK(url(base64("image/png", "aGlo=")) == "data:image/png;base64,aGlo");
    CHECK(url(base64("IMAGE/Jpeg ; q=1", "aGk=")) == "data:image/jpeg;base64,aGk=");
    for (const char* type : {"image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp"})
      CHECK(url(base64(type, "")) == "data:" + std::string(type) + ";base64,");
    for (const char* type : {"image/bmp", "application/pdf", "", "image", "image/png2"})
      CHECK(broken(base64(type, "aGk=")) == at + ".media_type");
    for (const char* data : {"a===", "aG=k", "aGk", "a b=", "aGl=", "aG-_", "aGk=\\n", "=", "é==="})
      if (std::string_view(data) == "=") {
        CHECK(url(base64("image/png", data)) == "data:image/png;base64,");
      } else {
        CHECK(broken(base64("image/png", data)) == at + ".data");
      }
    CHECK(broken(image(R"({"type":"base64","data":"aGk="})")) == at + ".media_type");
    CHECK(broken(image(R"({"type":"base64","media_type":"image/png"})")) == at + ".data");
    CHECK(url(image(R"({"type":"url","url":"HTTPS://x"})")) == "HTTPS://x");
    CHECK(url(image(R"({"type":"url","url":"data:image/png;base64,aGk="})")) ==
          "data:image/png;base64,aGk=");
    CHECK(broken(image(R"({"type":"url","url":"ftp://x"})")) == at + ".url");
    CHECK(broken(image(R"({"type":"url","url":"http<｜image｜>"})")) == at + ".url");
    CHECK(broken(image(R"({"type":"url","url":"https://)" + std::string(8185, 'x') + "\"}")) ==
          at + ".url");
    CHECK(url(image(R"({"type":"url","url":"https://)" + std::string(8184, 'x') + "\"}")).size() ==
          8192);
    CHECK(broken(image(R"({"type":"url"})")) == at + ".url");
    CHECK(broken(image(R"({"type":"file","file_id":"f"})")) == at + ".type");
    CHECK(broken(image(R"({"type":"blob"})")) == at + ".type");
    CHECK(broken(image("{}")) == at + ".type");
    CHECK(broken(image(R"("x")")) == at);
  }

  TEST_CASE("text that spells the image token is refused in every field") {
    const std::string evil = "\"a<｜image｜>\"";
    CHECK(refused_messages(R"([{"role":"user","content":)" + evil + "}]") == "messages[0].content");
    CHECK(refused_messages(R"([{"role":"assistant","content":)" + evil + "}]") ==
          "messages[0].content");
    CHECK(refused_messages(R"([{"role":"system","content":)" + evil + "}]") ==
          "messages[0].content");
    const auto block = [&evil](std::string_view role, std::string_view type, std::string_view key) {
      return refused_messages(list({said_by(role, R"({"type":")" + std::string(type) + "\",\"" +
                                                      std::string(key) + "\":" + evil + "}")}));
    };
    CHECK(block("user", "text", "text") == "messages[0].content[0].text");
    CHECK(block("user", "tool_reference", "tool_name") == "messages[0].content[0].tool_name");
    CHECK(block("assistant", "thinking", "thinking") == "messages[0].content[0].thinking");
    CHECK(refused_messages(list({assistant(R"({"type":"tool_use","id":"c","input":{},"name":)" +
                                           evil + "}")})) == "messages[0].content[0].name");
    CHECK(refused_with(R"("tools":[{"name":"f","input_schema":{"type":"object","title":)" + evil +
                       "}}]") == "tools[0].input_schema");
  }
}
