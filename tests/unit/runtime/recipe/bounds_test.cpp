// Sizes at which anything that grows faster than its input would never end.
#include "runtime/recipe/custom_input_decoder.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/recipe/tool_schema.hpp"
#include "tests/support/colliding_keys.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

std::string repeated(std::string_view item, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all.append(i == 0 ? "" : ",").append(item);
  return all;
}

std::string rendered(std::string_view body) {
  auto request = parse_request(api_protocol::chat, body);
  REQUIRE_MESSAGE(request, request.error().message);
  return render_request(*request).text;
}

std::string_view thinking_off() {
  return R"(,"thinking":{"type":"disabled"})";
}

/// What `text`, in parts of `size`, adds to the chunks.
std::vector<output_chunk> pushed(output_parser& parser, std::string_view text, size_t size) {
  std::vector<output_chunk> chunks;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size())))
    parser.push(text.substr(0, size), chunks);
  return chunks;
}

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("ten thousand tools are listed") {
    std::string tools;
    for (int i = 0; i < 10'000; ++i)
      tools += std::string(i == 0 ? "" : ",") + R"({"type":"function","function":{"name":"f)" +
               std::to_string(i) + "\"}}";
    const std::string text = rendered(test::user_body("q", ",\"tools\":[" + tools + "]"));
    CHECK(text.find("{\"name\": \"f0\",") < text.find("{\"name\": \"f9999\","));
    CHECK(text.find("{\"name\": \"f9999\",") != std::string::npos);
  }

  TEST_CASE("a hundred thousand images in one message are a hundred thousand texts") {
    const size_t count = 100'000;
    const std::string text = rendered(test::chat_body(
        R"([{"role":"user","content":[)" +
            repeated(R"({"type":"image_url","image_url":{"url":"http://x"}})", count) + "]}]",
        thinking_off()));
    const std::string one = "[Unsupported Image]";
    const std::string before = "<｜begin▁of▁sentence｜><｜User｜>";
    CHECK(text.size() == before.size() + count * one.size() + (count - 1) * 2 +
                             std::string("<｜Assistant｜></think>").size());
    CHECK(text.starts_with(before + one + "\n\n" + one));
  }

  TEST_CASE("arguments with a hundred thousand keys, and as many times the same, are rendered") {
    const auto prompt = [](const std::string& arguments) {
      return rendered(test::chat_body(
          R"([{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c",)"
          R"("type":"function","function":{"name":"f","arguments":)" +
              test::json_string(arguments) +
              R"(}}]},{"role":"tool","tool_call_id":"c","content":"r"}])",
          thinking_off()));
    };
    std::string keys;
    for (int i = 0; i < 100'000; ++i)
      keys += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
    CHECK(prompt("{" + keys + "}").find("parameter name=\"k99999\" string=\"false\">1<") !=
          std::string::npos);
    const std::string same = prompt("{" + repeated("\"k\":1", 100'000) + ",\"k\":\"last\"}");
    CHECK(same.find("<｜DSML｜ parameter name=\"k\" string=\"true\">last</｜DSML｜ parameter>") !=
          std::string::npos);
    CHECK(same.size() < 400);
    // Nested too deep to be read: the text as it is.
    const std::string deep = std::string(1000, '[') + std::string(1000, ']');
    CHECK(prompt(deep).find("name=\"arguments\" string=\"true\">" + deep) != std::string::npos);
  }

  TEST_CASE("names chosen to have one hash cost no more than others") {
    const std::vector<std::string> keys = test::colliding_keys(320);
    REQUIRE(keys.size() > 100'000);
#ifdef __GLIBCXX__
    for (const std::string& key : keys)
      REQUIRE(std::hash<std::string>{}(key) == std::hash<std::string>{}(keys[0]));
#endif
    std::string members, calls, results;
    for (const std::string& key : keys) {
      const std::string comma = members.empty() ? "" : ",";
      members += comma + "\"" + key + "\":1";
      calls += comma + "{\"id\":\"" + key + R"(","function":{"name":"f","arguments":"{}"}})";
      results += R"(,{"role":"tool","content":"r","tool_call_id":")" + key + "\"}";
    }
    CHECK(distinct_members(*test::read_json("{" + members + "}").as<json_object>()).size() ==
          keys.size());
    const std::string text =
        rendered(test::chat_body(R"([{"role":"assistant","tool_calls":[)" + calls + "]}" + results +
                                     R"(,{"role":"user","content":"q"}])",
                                 thinking_off()));
    CHECK(text.find("<tool_result>r</tool_result>\n\nq") != std::string::npos);
  }

  TEST_CASE("a namespace's description is repeated up to the size of a body") {
    const auto status = [](size_t members, size_t max_bytes) {
      std::string tools;
      for (size_t i = 0; i < members; ++i)
        tools += std::string(i == 0 ? "" : ",") + R"({"type":"function","name":"f)" +
                 std::to_string(i) + "\"}";
      conversion_options options;
      options.json.max_bytes = max_bytes;
      const auto request = parse_request(
          api_protocol::responses,
          R"({"model":"m","input":"q","tools":[{"type":"namespace","name":"n","description":")" +
              std::string(1000, 'd') + "\",\"tools\":[" + tools + "]}]}",
          options);
      if (!request) CHECK(request.error().message.find("description") != std::string::npos);
      return request ? 200 : request.error().status;
    };
    CHECK(status(10, 10'000) == 200);
    CHECK(status(11, 10'000) == 400);
  }

  TEST_CASE("a complaint about a schema names the place, and a long one in short") {
    const auto complaint = [](const std::string& inside) {
      return tool_schema_complaint(test::read_json("{\"type\":\"object\"," + inside + "}"))
          .value_or("none");
    };
    CHECK(complaint(R"("properties":{"a":{"anyOf":[{},{"minLength":-1}]}})") ==
          "at '/properties/a/anyOf/1/minLength' must be an integer of at least 0");
    CHECK(complaint(R"("properties":{"":{"title":1}})") ==
          "at '/properties//title' must be a string");
    const std::string key(4'000'000, 'k');
    const auto many = [&key](const std::string& last) {
      return "\"properties\":{\"" + key + "\":{" + repeated(R"("title":"")", 20'000) + last + "}}";
    };
    CHECK(complaint(many("")) == "none");
    CHECK(complaint(many(",\"title\":1")) == "at '/properties/.../title' must be a string");
    std::string levels = R"("title":1)";
    for (int i = 0; i < 20; ++i)
      levels = "\"properties\":{\"" + std::string(150, 'k') + "\":{" + levels + "}}";
    CHECK(complaint(levels).size() < 450);
  }

  TEST_CASE("the parser keeps little of what it holds back, however long that is") {
    parser_options options;
    options.parse_tool_calls = true;
    const size_t size = 10'000'000;
    output_parser lines(options);
    CHECK(pushed(lines, "x", 1).size() == 1);
    CHECK(pushed(lines, std::string(size, '\n'), 3).empty());
    std::vector<output_chunk> chunks = pushed(lines, "<｜DSM.", 1);
    REQUIRE(chunks.size() == 1);
    CHECK(chunks[0].text == std::string(size, '\n') + "<｜DSM.");

    output_parser call(options);
    CHECK(pushed(call, "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"", 7).empty());
    CHECK(pushed(call, std::string(size, 'n'), 4096).empty());
    chunks = pushed(call, "\">\n<｜DSML｜ parameter name=\"", 7);
    REQUIRE(chunks.size() == 2);
    CHECK(chunks[0].text == std::string(output_parser::max_name_bytes, 'n'));
    // A key is no longer than what was pushed at once: it is passed on as it comes.
    CHECK(pushed(call, std::string(4096, 'k'), 4096).at(0).text.size() == 4096);
    chunks = pushed(call, std::string(size, 'k'), 5);
    REQUIRE(chunks.size() == 1);
    CHECK(chunks[0].text.size() == size);
  }

  TEST_CASE("a stop sequence as long as the output holds it back and gives it all again") {
    parser_options options;
    options.stop = {std::string(100'000, 'a') + "b"};
    output_parser parser(options);
    CHECK(pushed(parser, std::string(100'000, 'a'), 1).empty());
    // Each further letter moves the beginning of what may be the sequence by one.
    CHECK(pushed(parser, std::string(100'000, 'a'), 1).at(0).text.size() == 100'000);
    CHECK(pushed(parser, "b", 1).empty());
    CHECK(parser.stopped());
  }

  TEST_CASE("custom input of any length passes through") {
    custom_input_decoder decoder;
    std::string out;
    decoder.push("{\"input\": \"", out);
    const std::string part = "line\\n\\u65e5";
    for (int i = 0; i < 200'000; ++i) decoder.push(part, out);
    CHECK(out.size() == 200'000 * std::string("line\n日").size());
  }
}
