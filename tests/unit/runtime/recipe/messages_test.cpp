#include "runtime/recipe/client_request.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

/// The field a list of messages is refused for; empty when it is accepted.
std::string refused(std::string_view messages) {
  const auto request = parse_request(api_protocol::chat, test::chat_body(messages));
  return request ? "" : request.error().param;
}

conversation accepted(std::string_view messages, std::string_view more = {}) {
  auto request = parse_request(api_protocol::chat, test::chat_body(messages, more));
  REQUIRE_MESSAGE(request, request.error().message);
  return std::move(request->talk);
}

/// An assistant message calling f once for each id.
std::string calls(std::initializer_list<const char*> ids) {
  std::string list;
  for (const char* id : ids)
    list += std::string(list.empty() ? "" : ",") + "{\"id\":\"" + id +
            R"(","type":"function","function":{"name":"f","arguments":"{}"}})";
  return R"({"role":"assistant","tool_calls":[)" + list + "]}";
}

std::string result_of(const std::string& id) {
  return R"({"role":"tool","content":"r","tool_call_id":")" + id + "\"}";
}

std::string list(std::initializer_list<std::string> items) {
  std::string joined;
  for (const std::string& item : items) joined += (joined.empty() ? "" : ",") + item;
  return "[" + joined + "]";
}

const std::string user = R"({"role":"user","content":"q"})";

std::string user_with(std::string_view block) {
  return R"([{"role":"user","content":[)" + std::string(block) + "]}]";
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("roles are the five known ones") {
    CHECK(refused(R"([{"role":"developer","content":"x"}])") == "messages[0].role");
    CHECK(refused(R"([{"role":"","content":"x"}])") == "messages[0].role");
    CHECK(refused(R"([{"content":"x"}])") == "messages[0].role");
    CHECK(refused(R"([{"role":"user"}])") == "messages[0].content");
    CHECK(refused(R"([{"role":"system"}])") == "messages[0].content");
    CHECK(refused(R"([{"role":"latest_reminder","content":[]}])") == "messages[0].content");
    CHECK(refused(R"([{"role":"user","content":5}])") == "messages[0].content");
  }

  TEST_CASE("every call gets exactly one result, directly behind, in any order") {
    CHECK(refused(list({user, calls({"a", "b"}), result_of("b"), result_of("a"), user})) == "");
    CHECK(refused(list({user, calls({"a"})})) == "messages");
    CHECK(refused(list({user, calls({"a", "b"}), result_of("a")})) == "messages");
    CHECK(refused(list({user, calls({"a"}), user, result_of("a")})) == "messages[2]");
    CHECK(refused(list({user, calls({"a"}), result_of("b")})) == "messages[2].tool_call_id");
    CHECK(refused(list({user, calls({"a"}), result_of("a"), result_of("a")})) ==
          "messages[3].tool_call_id");
    CHECK(refused(list({user, result_of("a")})) == "messages[1].tool_call_id");
    CHECK(refused(list({user, calls({"a", "a"}), result_of("a")})) ==
          "messages[1].tool_calls[1].id");
    // Another turn may use the same id again.
    CHECK(refused(list({user, calls({"a"}), result_of("a"), calls({"a"}), result_of("a")})) == "");
  }

  TEST_CASE("an assistant message has content or calls, and calls are complete") {
    const auto assistant = [](std::string_view fields) {
      return refused(R"([{"role":"assistant")" + std::string(fields) + "}]");
    };
    CHECK(assistant("") == "messages[0].content");
    CHECK(assistant(R"(,"content":null)") == "messages[0].content");
    CHECK(assistant(R"(,"content":"")") == "");
    CHECK(assistant(R"(,"content":"x","tool_calls":[])") == "messages[0].tool_calls");
    CHECK(assistant(R"(,"content":"x","tool_calls":null)") == "");
    CHECK(assistant(R"(,"content":"x","tool_calls":{})") == "messages[0].tool_calls");
    CHECK(assistant(R"(,"tool_calls":[5])") == "messages[0].tool_calls[0]");
    CHECK(assistant(R"(,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}])") ==
          "messages[0].tool_calls[0].id");
    CHECK(assistant(R"(,"tool_calls":[{"id":"a"}])") == "messages[0].tool_calls[0].function");
    CHECK(assistant(R"(,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}])") ==
          "messages[0].tool_calls[0].function.arguments");
    CHECK(assistant(
              R"(,"tool_calls":[{"id":"a","type":"x","function":{"name":"f","arguments":""}}])") ==
          "messages[0].tool_calls[0].type");
  }

  TEST_CASE("a prefix is the last message, and without calls") {
    const std::string prefix = R"({"role":"assistant","content":"x","prefix":true})";
    CHECK(accepted(list({user, prefix})).continues_last);
    CHECK(refused(list({prefix, user})) == "messages[1]");
    CHECK(refused(list({user, R"({"role":"assistant","prefix":true,"tool_calls":[{"id":"a",)"
                              R"("function":{"name":"f","arguments":"{}"}}]})"})) ==
          "messages[1].prefix");
    const auto request =
        parse_request(api_protocol::chat,
                      test::chat_body(list({user, prefix}),
                                      R"(,"thinking":{"type":"disabled"},"tool_choice":"required",)"
                                      R"("tools":[{"type":"function","function":{"name":"f"}}])"));
    REQUIRE_FALSE(request);
    CHECK(request.error().param == "tool_choice");
    CHECK_FALSE(accepted(list({user, R"({"role":"assistant","content":"x","prefix":false})"}))
                    .continues_last);
  }

  TEST_CASE("images are URLs or data URLs, of user and tool messages only") {
    const auto image = [](std::string_view url) {
      return R"({"type":"image_url","image_url":{"url":")" + std::string(url) + "\"}}";
    };
    const auto talk =
        accepted(user_with(R"({"type":"text","text":"a"},)" + image("HTTPS://x/y.png") + "," +
                           image("data:image/png;base64,AAAA")));
    REQUIRE(talk.messages.size() == 1);
    CHECK(talk.messages[0].content == "a\n\n<｜image｜>\n\n<｜image｜>");
    REQUIRE(talk.messages[0].images.size() == 2);
    CHECK(talk.messages[0].images[1].url == "data:image/png;base64,AAAA");
    CHECK(refused(user_with(image("ftp://x"))) == "messages[0].content[0].image_url.url");
    CHECK(refused(user_with(image("http://" + std::string(8192 - 7, 'a')))) == "");
    CHECK(refused(user_with(image("http://" + std::string(8193 - 7, 'a')))) ==
          "messages[0].content[0].image_url.url");
    CHECK(refused(R"([{"role":"system","content":[)" + image("http://x") + "]}]") ==
          "messages[0].content[0].image_url");
    CHECK(
        refused(user_with(R"({"type":"image_url","image_url":{"url":"http://x","detail":"?"}})")) ==
        "messages[0].content[0].image_url.detail");
    CHECK(
        accepted(user_with(R"({"type":"image_url","image_url":{"url":"http://x","detail":"low"}})"))
            .messages[0]
            .images[0]
            .detail == image_detail::low);
  }

  TEST_CASE("files are data URLs, never ids; other blocks are unknown") {
    CHECK(refused(user_with(R"({"type":"file","file":{"file_data":"data:image/png;base64,A"}})")) ==
          "");
    CHECK(refused(user_with(R"({"type":"file","file":{"file_id":"x"}})")) ==
          "messages[0].content[0].file.file_id");
    CHECK(refused(user_with(R"({"type":"file","file":{}})")) ==
          "messages[0].content[0].file.file_data");
    CHECK(refused(user_with(R"({"type":"file","file":{"file_data":"http://x"}})")) ==
          "messages[0].content[0].file.file_data");
    CHECK(refused(user_with(R"({"type":"audio"})")) == "messages[0].content[0].type");
    CHECK(refused(user_with(R"({"text":"x"})")) == "messages[0].content[0].type");
    CHECK(refused(user_with(R"({"type":"text"})")) == "messages[0].content[0].text");
    CHECK(refused(user_with(R"("text")")) == "messages[0].content[0]");
  }

  TEST_CASE("client text must not spell the image placeholder") {
    CHECK(refused(R"([{"role":"user","content":"a<｜image｜>b"}])") == "messages[0].content");
    CHECK(refused(user_with(R"({"type":"text","text":"<｜image｜>"})")) ==
          "messages[0].content[0].text");
    CHECK(refused(R"([{"role":"assistant","content":"x","reasoning_content":"<｜image｜>"}])") ==
          "messages[0].reasoning_content");
    CHECK(refused(R"([{"role":"latest_reminder","content":"<｜image｜>"}])") ==
          "messages[0].content");
    CHECK(refused(R"([{"role":"assistant","tool_calls":[{"id":"a","function":)"
                  R"({"name":"f","arguments":"<｜image｜>"}}]}])") ==
          "messages[0].tool_calls[0].function.arguments");
  }

  TEST_CASE("tools are functions with valid names and schemas, each once") {
    const auto tools = [](std::string_view list_of, std::string_view more = {}) -> std::string {
      const auto request = parse_request(
          api_protocol::chat, test::user_body("q", R"(,"thinking":{"type":"disabled"},"tools":)" +
                                                       std::string(list_of) + std::string(more)));
      return request ? "" : request.error().param;
    };
    const auto named = [](std::string_view name) {
      return R"({"type":"function","function":{"name":")" + std::string(name) + "\"}}";
    };
    const auto schema = [](std::string_view text) {
      return R"([{"type":"function","function":{"name":"f","parameters":)" + std::string(text) +
             "}}]";
    };
    CHECK(tools("[" + named("get_it-2") + "]") == "");
    CHECK(tools("[" + named(std::string(128, 'a')) + "]") == "");
    CHECK(tools("[" + named(std::string(129, 'a')) + "]") == "tools[0].function.name");
    for (const char* bad : {"", "a b", "é", "a.b", "a::b"})
      CHECK(tools("[" + named(bad) + "]") == "tools[0].function.name");
    CHECK(tools("[" + named("bad name") + "]", R"(,"tool_choice":"none")") ==
          "tools[0].function.name");
    CHECK(tools("[" + named("f") + "," + named("f") + "]") == "tools[1]");
    CHECK(tools(R"([{"function":{"name":"f"}}])") == "tools[0].type");
    CHECK(tools(R"([{"type":"custom","function":{"name":"f"}}])") == "tools[0].type");
    CHECK(tools(R"([{"type":"function"}])") == "tools[0].function");
    for (const char* bad :
         {"[]", "{}", R"({"type":"array"})", R"({"type":["object"]})",
          R"({"type":"object","properties":[]})", R"({"type":"object","required":"a"})",
          R"({"type":"object","required":[1]})",
          R"({"type":"object","properties":{"a":{"type":"dict"}}})",
          R"({"type":"object","properties":{"a":{"items":5}}})",
          R"({"type":"object","properties":{"a":{"anyOf":[]}}})",
          R"({"type":"object","properties":{"a":{"enum":[]}}})",
          R"({"type":"object","properties":{"a":{"minLength":-1}}})",
          R"({"type":"object","properties":{"a":{"minLength":1.5}}})",
          R"({"type":"object","properties":{"a":{"minLength":-1e300}}})",
          R"({"type":"object","properties":{"a":{"maximum":"9"}}})",
          R"({"type":"object","properties":{"a":{"uniqueItems":1}}})",
          R"({"type":"object","additionalProperties":"no"})"}) {
      CAPTURE(bad);
      CHECK(tools(schema(bad)) == "tools[0].function.parameters");
    }
    CHECK(tools(schema(R"({"type":"object","properties":{"a":{"type":["string","null"]},"b":true,)"
                       R"("type":{"type":"integer","minimum":1.5,"maxLength":1e300,)"
                       R"("minLength":2.0}},"additionalProperties":false,)"
                       R"("required":[],"x-unknown":5,"$defs":{"d":{"anyOf":[{"not":{}}]}}})")) ==
          "");
    CHECK(tools(schema("null")) == "");
    CHECK(tools("[" + named("f") + "]",
                R"(,"tool_choice":{"type":"function","function":{"name":"g"}})") == "tool_choice");
    CHECK(tools("[]", R"(,"tool_choice":{"type":"function","function":{"name":"g"}})") ==
          "tool_choice");
    CHECK(tools("[" + named("f") + "]", R"(,"tool_choice":"any")") == "tool_choice");
    CHECK(tools("[" + named("f") + "]", R"(,"tool_choice":{"type":"x"})") == "tool_choice.type");
  }

  TEST_CASE("a call can be forced only without thinking") {
    const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
    const auto with = [&tools](std::string_view more) -> std::string {
      const auto request =
          parse_request(api_protocol::chat, test::user_body("q", tools + std::string(more)));
      return request ? "" : request.error().param;
    };
    CHECK(with(R"(,"tool_choice":"required")") == "tool_choice");
    CHECK(with(R"(,"tool_choice":{"type":"function","function":{"name":"f"}})") == "tool_choice");
    CHECK(with(R"(,"tool_choice":"auto")") == "");
    CHECK(with(R"(,"tool_choice":"required","thinking":{"type":"disabled"})") == "");
    CHECK(with(R"(,"tool_choice":"required","reasoning_effort":"none")") == "");
  }
}
