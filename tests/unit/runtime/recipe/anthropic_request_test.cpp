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
  TEST_CASE("the smallest request has the defaults") {
    const client_request request = accepted(test::user_body("Hi"));
    CHECK(request.protocol == api_protocol::messages);
    CHECK(request.model == "tiny-v41");
    REQUIRE(request.talk.messages.size() == 1);
    CHECK(request.talk.messages[0].from == role::user);
    CHECK(request.talk.messages[0].content == "Hi");
    CHECK(request.talk.thinking);
    CHECK(request.talk.effort == effort::high);
    CHECK_FALSE(request.stream);
    CHECK_FALSE(request.generation.max_tokens);
    CHECK_FALSE(request.generation.temperature);
    CHECK(request.generation.choices == 1);
    CHECK(request.generation.stop.empty());
    CHECK_FALSE(request.generation.disable_parallel_tool_use);
  }

  TEST_CASE("every setting is taken over") {
    const client_request request = accepted_with(
        R"("max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":9,"seed":3,"ignore_eos":true,)"
        R"("stop_sequences":["a","b"],"stream":true)");
    CHECK(request.generation.max_tokens == 7U);
    CHECK(request.generation.temperature == 0.5F);
    CHECK(request.generation.top_p == 0.25F);
    CHECK(request.generation.top_k == 9U);
    CHECK(request.generation.seed == 3U);
    CHECK(request.generation.ignore_eos);
    CHECK(request.generation.stop == std::vector<std::string>{"a", "b"});
    CHECK(request.stream);
  }

  TEST_CASE("a field out of its range or of a wrong type is named") {
    CHECK(refused_with(R"("max_tokens":0)") == "max_tokens");
    CHECK(refused_with(R"("max_tokens":4294967296)") == "max_tokens");
    CHECK(refused_with(R"("temperature":2.5)") == "temperature");
    CHECK(refused_with(R"("temperature":-1)") == "temperature");
    CHECK(refused_with(R"("top_p":0)") == "top_p");
    CHECK(refused_with(R"("top_p":1.5)") == "top_p");
    CHECK(refused_with(R"("top_k":"1")") == "top_k");
    CHECK(refused_with(R"("seed":9223372036854775808)") == "seed");
    CHECK(refused_with(R"("stream":1)") == "stream");
    CHECK(refused_with(R"("system":5)") == "system");
    CHECK(refused_with(R"("tools":{})") == "tools");
    CHECK(refused_with(R"("tool_choice":"auto")") == "tool_choice");
    CHECK(refused_with(R"("thinking":true)") == "thinking");
    CHECK(refused_with(R"("output_config":[])") == "output_config");
    CHECK(refused(R"({"messages":[{"role":"user","content":"q"}]})") == "model");
    CHECK(refused(R"({"model":"m"})") == "messages");
    CHECK(refused(R"({"model":"m","messages":"q"})") == "messages");
    CHECK(refused(R"({"model":"m","messages":[]})") == "messages");
    CHECK(refused(R"({"model":"m","model":"n","messages":[]})") == "model");
    CHECK(refused("[]").empty());
    CHECK(refused("{").empty());
  }

  TEST_CASE("null is the same as absent, and unknown fields are ignored at every level") {
    const client_request request = accepted_with(
        R"("max_tokens":null,"system":null,"temperature":null,"top_p":null,"stop_sequences":null,)"
        R"("stream":null,"tools":null,"tool_choice":null,"thinking":null,"output_config":null,)"
        R"("output_format":null,"metadata":{"user_id":[1]},"service_tier":"auto","container":7,)"
        R"("mcp_servers":[{}],"cache_control":{"type":"ephemeral"},"stop":"x")");
    CHECK(request.talk.messages.size() == 1);
    CHECK(request.generation.stop.empty());
    CHECK(messages_of(list({user(R"({"type":"text","text":"q","cache_control":{"type":"x"},)"
                                 R"("citations":[]})")}))
              .at(0)
              .content == "q");
  }

  TEST_CASE("stop sequences are an array of at most 16, none empty") {
    CHECK(refused_with(R"("stop_sequences":"a")") == "stop_sequences");
    CHECK(refused_with(R"("stop_sequences":[1])") == "stop_sequences");
    CHECK(refused_with(R"("stop_sequences":["a",""])") == "stop_sequences[1]");
    std::string many;
    for (int i = 0; i < 16; ++i) many += (i == 0 ? "\"x" : ",\"x") + std::to_string(i) + "\"";
    CHECK(accepted_with("\"stop_sequences\":[" + many + "]").generation.stop.size() == 16);
    CHECK(refused_with("\"stop_sequences\":[" + many + ",\"y\"]") == "stop_sequences");
  }

  TEST_CASE("thinking decides, then an effort, then the default") {
    const auto thinking = [](std::string_view fields, bool by_default = true) {
      conversion_options options;
      options.thinking_by_default = by_default;
      const conversation talk = accepted_with(fields, options).talk;
      return talk.thinking ? int{talk.effort} : 0;
    };
    CHECK(thinking(R"("x":1)") == 75);
    CHECK(thinking(R"("x":1)", false) == 0);
    CHECK(thinking(R"("thinking":{"type":"enabled","budget_tokens":2048})", false) == 75);
    CHECK(thinking(R"("thinking":{"type":"adaptive","display":"summarized"})", false) == 75);
    CHECK(thinking(R"("thinking":{"type":"disabled"})") == 0);
    CHECK(thinking(R"("thinking":{"type":"disabled"},"output_config":{"effort":"max"})") == 0);
    CHECK(thinking(R"("output_config":{"effort":"low"})", false) == 50);
    CHECK(thinking(R"("output_config":{"effort":"medium"})") == 75);
    CHECK(thinking(R"("output_config":{"effort":"high"})") == 75);
    CHECK(thinking(R"("output_config":{"effort":"xhigh"})") == 75);
    CHECK(thinking(R"("output_config":{"effort":"max"})") == 100);
    CHECK(thinking(R"("output_config":{"effort":"ultra"})") == 100);
    CHECK(thinking(R"("output_config":{"effort":33})") == 33);
    CHECK(thinking(R"("output_config":{"effort":null,"task_budget":{}})") == 75);
    for (const char* word : {R"("none")", R"("minimal")", "0", "101", "true"})
      CHECK(refused_with(R"("output_config":{"effort":)" + std::string(word) + "}") ==
            "output_config.effort");
    CHECK(refused_with(R"("thinking":{"type":"on"})") == "thinking.type");
    CHECK(refused_with(R"("thinking":{})") == "thinking.type");
    CHECK(refused_with(R"("thinking":{"type":"enabled","budget_tokens":-1})") ==
          "thinking.budget_tokens");
  }

  TEST_CASE("a schema for the answer is carried as a constraint, from both its places") {
    const std::string schema =
        R"({"type":"json_schema","schema":{"type":"object","properties":{"a":{}}}})";
    for (const auto& [fields, field] : std::vector<std::pair<std::string, std::string>>{
             {R"("output_config":{"format":)" + schema + "}", "output_config.format"},
             {R"("output_format":)" + schema, "output_format"}}) {
      const output_constraint constraint = accepted_with(fields).generation.constraint;
      CHECK(constraint.what == output_constraint::kind::json_schema);
      CHECK(constraint.text == R"({"type": "object", "properties": {"a": {}}})");
      CHECK(constraint.field == field);
    }
    CHECK(refused_with(R"("output_config":{"format":{"type":"json_object"}})") ==
          "output_config.format.type");
    CHECK(refused_with(R"("output_config":{"format":{"type":"json_schema"}})") ==
          "output_config.format.schema");
    CHECK(refused_with(R"("output_format":[])") == "output_format");
    CHECK(accepted_with(R"("output_config":{"format":null})").generation.constraint.what ==
          output_constraint::kind::none);
  }

  TEST_CASE("system is the first message, a string or blocks") {
    const auto system = [](std::string_view value) {
      const auto made = accepted_with("\"system\":" + std::string(value)).talk.messages;
      REQUIRE(made.size() == 2);
      CHECK(made[0].from == role::system);
      CHECK(made[1].content == "q");
      return made[0].content;
    };
    CHECK(system(R"("s")") == "s");
    CHECK(system(R"("")").empty());
    CHECK(system("[]").empty());
    CHECK(system(R"([{"type":"text","text":"A"},{"type":"text","text":"B"}])") == "A\n\nB");
    CHECK(system(R"([{"type":"text","text":""},{"type":"text","text":"B"}])") == "\n\nB");
    CHECK(system(R"([{"type":"tool_reference","tool_name":"t"},{"type":"document"}])") ==
          "t\n\n[Unsupported Document]");
    CHECK(refused_with(R"("system":[)" + base64("image/png", "") + "]") == "system[0]");
    CHECK(refused_with(R"("system":[{"type":"thinking","thinking":"t"}])") == "system[0].type");
    CHECK(refused_with(R"("system":[{"type":"text"}])") == "system[0].text");
    CHECK(refused_with(R"("system":["s"])") == "system[0]");
    CHECK(refused_with(R"("system":"<｜image｜>")") == "system");
  }

  TEST_CASE("tools are declared by name and schema") {
    const auto tools =
        accepted_with("\"tools\":[" + tool("f", R"(,"description":"d","cache_control":{})") + "," +
                      tool("g", R"(,"type":"custom","strict":true)") + "]")
            .talk.tools;
    REQUIRE(tools.size() == 2);
    CHECK(tools[0].name == "f");
    CHECK(tools[0].description == "d");
    CHECK(tools[0].parameters == R"({"type": "object"})");
    CHECK(tools[1].description.empty());
    CHECK(tools[1].strict);
    const auto broken = [](std::string_view declared) {
      return refused_with("\"tools\":[" + std::string(declared) + "]");
    };
    CHECK(broken(R"({"name":"f"})") == "tools[0].input_schema");
    CHECK(broken(R"({"name":"f","input_schema":null})") == "tools[0].input_schema");
    CHECK(broken(R"({"name":"f","input_schema":{"type":"string"}})") == "tools[0].input_schema");
    CHECK(broken(R"({"name":"f","input_schema":{}})") == "tools[0].input_schema");
    CHECK(broken(R"({"name":"f","input_schema":{"type":"object","required":1}})") ==
          "tools[0].input_schema");
    CHECK(broken(R"({"input_schema":{"type":"object"}})") == "tools[0].name");
    CHECK(broken(tool("a b")) == "tools[0].name");
    CHECK(broken(tool(std::string(129, 'a'))) == "tools[0].name");
    CHECK(broken(tool("f") + "," + tool("f")) == "tools[1].name");
    CHECK(broken(tool("f", R"(,"type":"bash_20250124")")) == "tools[0].type");
    CHECK(broken(tool("f", R"(,"type":7)")) == "tools[0].type");
    CHECK(broken(tool("f", R"(,"description":"<｜image｜>")")) == "tools[0].description");
    CHECK(broken("7") == "tools[0]");
  }

  TEST_CASE("a web search tool is refused, or left out by option with its choice") {
    const std::string search =
        R"("tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3})";
    CHECK(refused_with(search + "]") == "tools[0].type");
    conversion_options options;
    options.refuse_web_search_in_messages = false;
    CHECK(accepted_with(search + "]", options).talk.tools.empty());
    const auto chosen = accepted_with(thinking_off + search + "," + tool("f") +
                                          R"(],"tool_choice":{"type":"tool","name":"web_search"})",
                                      options);
    CHECK(chosen.talk.tools.size() == 1);
    CHECK(chosen.talk.choice == tool_choice::automatic);
    CHECK(refused_with(R"("tools":[{"type":"web_fetch_20250910","name":"web_fetch"}])", options) ==
          "tools[0].type");
  }

  TEST_CASE("a tool choice is auto, any, one tool or none") {
    const auto chosen = [](std::string_view choice, std::string_view before = thinking_off) {
      return accepted_with(std::string(before) + "\"tools\":[" + tool("f") + "," + tool("g") +
                           "],\"tool_choice\":" + std::string(choice));
    };
    CHECK(chosen(R"({"type":"auto"})").talk.choice == tool_choice::automatic);
    const auto any = chosen(R"({"type":"any","disable_parallel_tool_use":true})", "");
    CHECK(any.talk.choice == tool_choice::automatic);
    CHECK(any.talk.tools.size() == 2);
    CHECK(any.generation.disable_parallel_tool_use);
    const auto one = chosen(R"({"type":"tool","name":"g"})");
    CHECK(one.talk.choice == tool_choice::required);
    REQUIRE(one.talk.tools.size() == 1);
    CHECK(one.talk.tools[0].name == "g");
    CHECK(render(one.talk).text.ends_with("</think>\n\n<｜DSML｜ calls>\n"));
    const auto none = chosen(R"({"type":"none","disable_parallel_tool_use":true})");
    CHECK(none.talk.choice == tool_choice::none);
    CHECK_FALSE(none.talk.renders_tools());
    CHECK_FALSE(none.generation.disable_parallel_tool_use);
    CHECK(accepted_with(R"("tool_choice":{"type":"auto"})").talk.tools.empty());

    const auto broken = [](std::string_view choice, std::string_view before = thinking_off) {
      return refused_with(std::string(before) + "\"tools\":[" + tool("f") +
                          "],\"tool_choice\":" + std::string(choice));
    };
    CHECK(broken(R"({"type":"tool","name":"h"})") == "tool_choice.name");
    CHECK(broken(R"({"type":"tool"})") == "tool_choice.name");
    CHECK(broken(R"({"type":"required"})") == "tool_choice.type");
    CHECK(broken(R"({})") == "tool_choice.type");
    CHECK(broken(R"({"type":"auto","disable_parallel_tool_use":1})") ==
          "tool_choice.disable_parallel_tool_use");
    CHECK(broken(R"({"type":"tool","name":"f"})", "") == "tool_choice");
    CHECK(refused_with(R"("tool_choice":{"type":"tool","name":"f"})") == "tool_choice.name");
  }
}
