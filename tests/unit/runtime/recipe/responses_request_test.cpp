#include "runtime/recipe/apply_patch.hpp"
#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/recipe/render.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

api_result<client_request> parse(std::string_view body, const conversion_options& options = {}) {
  return parse_request(api_protocol::responses, body, options);
}

client_request accepted(std::string_view body, const conversion_options& options = {}) {
  auto request = parse(body, options);
  REQUIRE_MESSAGE(request, request.error().message);
  return *std::move(request);
}

std::string body_of(std::string_view input, std::string_view more = {}) {
  return R"({"model":"tiny-v41","input":)" + std::string(input) + std::string(more) + "}";
}

client_request accepted_with(std::string_view more) {
  return accepted(body_of(R"("some json")", "," + std::string(more)));
}

/// The field a request is refused for, or "accepted".
std::string refused_for(std::string_view body, const conversion_options& options = {}) {
  const auto request = parse(body, options);
  if (request) return "accepted";
  CHECK(request.error().status == 400);
  CHECK(request.error().type == "invalid_request_error");
  CHECK(request.error().message.find(request.error().param) != std::string::npos);
  return request.error().param.empty() ? "(body)" : request.error().param;
}

std::string refused_with(std::string_view more, const conversion_options& options = {}) {
  return refused_for(body_of(R"("some json")", "," + std::string(more)), options);
}

/// For `input` with these items, in front of a user message.
std::string refused_items(std::string_view items) {
  return refused_for(body_of("[" + std::string(items) + R"(,{"role":"user","content":"q"}])"));
}

std::string refused_tools(std::string_view tools, const conversion_options& options = {}) {
  return refused_with(R"("tools":[)" + std::string(tools) + "]", options);
}

constexpr const char* off = R"("reasoning":{"effort":"none"})";
constexpr const char* call_c =
    R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
constexpr const char* result_c = R"({"type":"function_call_output","call_id":"c","output":"r"})";

std::string joined(std::string_view a, std::string_view b, std::string_view c = {}) {
  return std::string(a) + "," + std::string(b) + (c.empty() ? "" : "," + std::string(c));
}

}  // namespace

TEST_SUITE("runtime/recipe/responses") {
  TEST_CASE("responses requests give the known prompts, byte for byte") {
    const auto lines = test::read_source_lines("tests/golden/recipe/responses_prompts.jsonl");
    REQUIRE(lines.size() == 36);
    for (const std::string& line : lines) {
      const json_value golden = test::read_json(line);
      const std::string name = test::string_member(golden, "name");
      CAPTURE(name);
      auto request = accepted(test::spaced(test::member(golden, "request")));
      const rendered_prompt prompt = render(std::move(request.talk));
      CHECK(prompt.text == test::string_member(golden, "prompt"));
      CHECK(prompt.specials == test::tiny_tokenizer()->find_specials(prompt.text));
    }
  }

  TEST_CASE("what real clients sent is read, or refused for a reason that they can act on") {
    const auto lines = test::read_source_lines("tests/golden/recipe/responses_requests.jsonl");
    REQUIRE(lines.size() == 37);
    for (const std::string& line : lines) {
      const json_value golden = test::read_json(line);
      const std::string name = test::string_member(golden, "name");
      CAPTURE(name);
      CHECK(refused_for(test::spaced(test::member(golden, "request"))) ==
            test::string_member(golden, "outcome"));
    }
  }

  TEST_CASE("settings of a responses request are read, and unknown ones ignored") {
    const auto request = accepted_with(
        R"("max_output_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":40,"seed":11,)"
        R"("ignore_eos":true,"stream":true,"user":"u","previous_response_id":7,"store":"x",)"
        R"("metadata":[],"thinking":false,"stop":7,"include":{},"parallel_tool_calls":"no",)"
        R"("text":{"verbosity":"high"},"reasoning":{"summary":"auto","generate_summary":"concise",)"
        R"("context":"all_turns"},"tool_choice":"auto")");
    CHECK(request.protocol == api_protocol::responses);
    CHECK(request.model == "tiny-v41");
    CHECK(request.generation.max_tokens == 7u);
    CHECK(request.generation.temperature == 0.5F);
    CHECK(request.generation.top_p == 0.25F);
    CHECK(request.generation.top_k == 40u);
    CHECK(request.generation.seed == 11u);
    CHECK(request.generation.ignore_eos);
    CHECK(request.generation.stop.empty());
    CHECK(request.stream);
    CHECK(request.talk.thinking);
    CHECK(request.talk.effort == 75);
    CHECK_FALSE(accepted_with(off).talk.thinking);
    conversion_options quiet;
    quiet.thinking_by_default = false;
    CHECK_FALSE(accepted(body_of(R"("q")"), quiet).talk.thinking);
    CHECK(accepted(body_of(R"("q")", R"(,"reasoning":{"effort":"low"})"), quiet).talk.thinking);
  }

  TEST_CASE("every setting of a wrong type or value is refused by name") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases = {
        {R"("model":1)", "model"},
        {R"("max_output_tokens":0)", "max_output_tokens"},
        {R"("max_output_tokens":4294967296)", "max_output_tokens"},
        {R"("max_output_tokens":"7")", "max_output_tokens"},
        {R"("temperature":3)", "temperature"},
        {R"("temperature":-0.1)", "temperature"},
        {R"("temperature":"hot")", "temperature"},
        {R"("top_p":0)", "top_p"},
        {R"("top_p":1.5)", "top_p"},
        {R"("top_k":-2)", "top_k"},
        {R"("seed":-1)", "seed"},
        {R"("stream":1)", "stream"},
        {R"("user":{})", "user"},
        {R"("instructions":[])", "instructions"},
        {R"("reasoning":"high")", "reasoning"},
        {R"("reasoning":{"effort":"huge"})", "reasoning.effort"},
        {R"("reasoning":{"effort":0})", "reasoning.effort"},
        {R"("reasoning":{"effort":101})", "reasoning.effort"},
        {R"("reasoning":{"effort":33.5})", "reasoning.effort"},
        {R"("reasoning":{"summary":"long"})", "reasoning.summary"},
        {R"("reasoning":{"generate_summary":1})", "reasoning.generate_summary"},
        {R"("text":"plain")", "text"},
        {R"("text":{"verbosity":"loud"})", "text.verbosity"},
        {R"("text":{"format":"json"})", "text.format"},
        {R"("text":{"format":{}})", "text.format.type"},
        {R"("text":{"format":{"type":"xml"}})", "text.format.type"},
        {R"("text":{"format":{"type":"json_schema","name":7}})", "text.format.name"},
        {R"("tools":{})", "tools"},
        {R"("tool_choice":"maybe")", "tool_choice"},
        {R"("tool_choice":["auto"])", "tool_choice"},
        {R"("stream":true,"stream":false)", "stream"},
    };
    for (const auto& [more, field] : cases) {
      CAPTURE(more);
      const std::string wanted(field);
      if (wanted == "model") {
        CHECK(refused_for(R"({"input":"q",)" + std::string(more) + "}") == wanted);
      } else {
        CHECK(refused_with(more) == wanted);
      }
    }
    CHECK(refused_for("[]") == "(body)");
    CHECK(refused_for("{") == "(body)");
    CHECK(refused_for(R"({"input":"q"})") == "model");
    CHECK(refused_for(body_of("7")) == "input");
    CHECK(refused_for(body_of("{}")) == "input");
    CHECK(refused_for(body_of("[]", R"(,"instructions":"i")")) == "input");
    CHECK(refused_for(body_of("null")) == "input");
    CHECK(refused_for(body_of("null", R"(,"instructions":"")")) == "input");
    CHECK(refused_for(body_of("null", R"(,"instructions":"i")")) == "accepted");
  }

  TEST_CASE("items of a wrong shape are refused by their place") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases = {
        {R"("text")", "input[0]"},
        {R"({"type":7})", "input[0].type"},
        {R"({})", "input[0].role"},
        {R"({"role":"tool","content":"x"})", "input[0].role"},
        {R"({"role":"user"})", "input[0].content"},
        {R"({"role":"user","content":7})", "input[0].content"},
        {R"({"role":"user","content":["x"]})", "input[0].content[0]"},
        {R"({"role":"user","content":[{"text":"x"}]})", "input[0].content[0].type"},
        {R"({"role":"user","content":[{"type":"text","text":"x"}]})", "input[0].content[0].type"},
        {R"({"role":"assistant","content":[{"type":"refusal","refusal":"x"}]})",
         "input[0].content[0].type"},
        {R"({"role":"user","content":[{"type":"input_text"}]})", "input[0].content[0].text"},
        {R"({"role":"user","content":[{"type":"input_image"}]})", "input[0].content[0].image_url"},
        {R"({"role":"user","content":[{"type":"input_image","image_url":{"url":"http://x"}}]})",
         "input[0].content[0].image_url"},
        {R"({"role":"user","content":[{"type":"input_image","image_url":"ftp://x"}]})",
         "input[0].content[0].image_url"},
        {R"({"role":"user","content":[{"type":"input_image","image_url":"http://x","detail":"best"}]})",
         "input[0].content[0].detail"},
        {R"({"role":"user","content":[{"type":"input_image","file_id":"f"}]})",
         "input[0].content[0].file_id"},
        {R"({"role":"user","content":[{"type":"input_image","file_id":"f","image_url":"http://x"}]})",
         "input[0].content[0].file_id"},
        {R"({"role":"system","content":[{"type":"input_image","image_url":"http://x"}]})",
         "input[0].content[0]"},
        {R"({"role":"assistant","content":[{"type":"input_image","image_url":"http://x"}]})",
         "input[0].content[0]"},
        {R"({"type":"reasoning","content":"x"})", "input[0].content"},
        {R"({"type":"reasoning","content":[{}]})", "input[0].content[0].text"},
        {R"({"type":"reasoning","encrypted_content":7})", "input[0].encrypted_content"},
        {R"({"type":"function_call","name":"f","arguments":"{}"})", "input[0].call_id"},
        {R"({"type":"function_call","call_id":"","name":"f","arguments":"{}"})",
         "input[0].call_id"},
        {R"({"type":"function_call","call_id":"c","arguments":"{}"})", "input[0].name"},
        {R"({"type":"function_call","call_id":"c","name":"f","arguments":{}})",
         "input[0].arguments"},
        {R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":7})",
         "input[0].namespace"},
        {R"({"type":"custom_tool_call","call_id":"c","name":"f"})", "input[0].input"},
    };
    for (const auto& [item, field] : cases) {
      CAPTURE(item);
      CHECK(refused_items(item) == field);
    }
    CHECK(refused_items(R"({"type":"x","role":7,"content":7})") == "accepted");
    CHECK(refused_items(R"({"type":null,"role":"user","content":[]})") == "accepted");
  }

  TEST_CASE("every call is answered once, before anything else is said") {
    CHECK(refused_items(joined(call_c, result_c)) == "accepted");
    CHECK(refused_for(body_of("[" + std::string(call_c) + "]")) == "input");
    CHECK(refused_items(call_c) == "input[1]");
    CHECK(refused_items(result_c) == "input[0].call_id");
    CHECK(refused_items(joined(call_c, result_c, result_c)) == "input[2].call_id");
    const std::string call_d =
        R"({"type":"function_call","call_id":"d","name":"f","arguments":"{}"})";
    CHECK(refused_items(joined(call_c, call_d, joined(result_c, result_c))) == "input[3].call_id");
    CHECK(refused_items(joined(call_c, call_c, result_c)) == "input[1].call_id");
    CHECK(refused_items(joined(joined(call_c, result_c), call_c, result_c)) == "input[2].call_id");
    const std::string thought = R"({"type":"reasoning","content":[{"text":"r"}]})";
    CHECK(refused_items(joined(call_c, thought, result_c)) == "input[1]");
    // Reasoning that only another service can read is not there at all.
    CHECK(refused_items(joined(call_c, R"({"type":"reasoning","encrypted_content":"e"})",
                               result_c)) == "accepted");
    CHECK(refused_items(joined(call_c, R"({"type":"web_search_call"})", result_c)) == "accepted");
    CHECK(refused_items(joined(call_c, R"({"type":"function_call_output","call_id":"c"})")) ==
          "input[1].output");
    CHECK(refused_items(joined(call_c, R"({"type":"custom_tool_call_output","call_id":"c"})")) ==
          "accepted");
    const auto told = parse(body_of("[" + std::string(call_c) + "]"));
    REQUIRE_FALSE(told);
    CHECK(told.error().message.find("'c'") != std::string::npos);
  }

  TEST_CASE("tools of a wrong shape are refused by their place") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases = {
        {R"(7)", "tools[0]"},
        {R"({"name":"f"})", "tools[0].type"},
        {R"({"type":"function"})", "tools[0].name"},
        {R"({"type":"function","name":"n::f"})", "tools[0].name"},
        {R"({"type":"function","name":""})", "tools[0].name"},
        {R"({"type":"function","name":"f","description":7})", "tools[0].description"},
        {R"({"type":"function","name":"f","strict":"yes"})", "tools[0].strict"},
        {R"({"type":"function","name":"f","parameters":{"type":"string"}})", "tools[0].parameters"},
        {R"({"type":"function","name":"f"},{"type":"function","name":"f"})", "tools[1].name"},
        {R"({"type":"custom"})", "tools[0].name"},
        {R"({"type":"custom","name":"other"})", "tools[0].name"},
        {R"({"type":"custom","name":"apply_patch"},{"type":"function","name":"apply_patch"})",
         "tools[1].name"},
        {R"({"type":"namespace","tools":[]})", "tools[0].name"},
        {R"({"type":"namespace","name":"a::b","tools":[]})", "tools[0].name"},
        {R"({"type":"namespace","name":"n"})", "tools[0].tools"},
        {R"({"type":"namespace","name":"n","tools":{}})", "tools[0].tools"},
        {R"({"type":"namespace","name":"n","tools":[],"description":7})", "tools[0].description"},
        {R"({"type":"namespace","name":"n","tools":[]},{"type":"namespace","name":"n","tools":[]})",
         "tools[1].name"},
        {R"({"type":"namespace","name":"n","tools":[{"name":"f"}]})", "tools[0].tools[0].type"},
        {R"({"type":"namespace","name":"n","tools":[{"type":"function","name":"f g"}]})",
         "tools[0].tools[0].name"},
        {R"({"type":"namespace","name":"n","tools":[{"type":"custom","name":"apply_patch"}]})",
         "tools[0].tools[0].type"},
        {R"({"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},)"
         R"({"type":"function","name":"f"}]})",
         "tools[0].tools[1].name"},
    };
    for (const auto& [tools, field] : cases) {
      CAPTURE(tools);
      CHECK(refused_tools(tools) == field);
    }
    CHECK(refused_with(R"("tool_choice":"none","tools":[{"type":"function","name":"?"}])") ==
          "tools[0].name");
    CHECK(
        refused_tools(R"({"type":"namespace","name":"f","tools":[{"type":"function","name":"f"}]},)"
                      R"({"type":"function","name":"f"})") == "accepted");
  }

  TEST_CASE("a web search is ignored or refused, as the deployment says") {
    conversion_options strict;
    strict.refuse_web_search_in_responses = true;
    for (const char* tool : {R"({"type":"web_search"})", R"({"type":"web_search_2025_08_26"})"}) {
      CHECK(refused_tools(tool) == "accepted");
      CHECK(refused_tools(tool, strict) == "tools[0].type");
      CHECK(refused_with(R"("tool_choice":)" + std::string(tool)) == "accepted");
      CHECK(refused_with(R"("tool_choice":)" + std::string(tool), strict) == "tool_choice.type");
    }
    CHECK(accepted_with(R"("tools":[{"type":"web_search"}])").talk.tools.empty());
  }

  TEST_CASE("apply_patch is a function to the model and a custom tool to the client") {
    const char* patch =
        R"("tools":[{"type":"custom","name":"apply_patch","format":{"type":"grammar"}}])";
    const auto request = accepted_with(patch);
    REQUIRE(request.talk.tools.size() == 1);
    CHECK(request.talk.tools[0].name == "apply_patch");
    CHECK(request.talk.tools[0].description == apply_patch_description);
    CHECK(request.talk.tools[0].parameters == apply_patch_tool().parameters);
    CHECK(request.custom_tools == std::vector<std::string>{"apply_patch"});
    conversion_options options;
    options.apply_patch_description = "ours";
    const auto named = accepted(body_of(R"("q")", "," + std::string(patch)), options);
    CHECK(named.talk.tools[0].description == "ours");
  }

  TEST_CASE("a forced call needs a tool that is declared, and no thinking") {
    const std::string tools =
        R"(,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"apply_patch"}])";
    const auto choice = [&tools](std::string_view value, std::string_view more) {
      return refused_with(R"("tool_choice":)" + std::string(value) + tools + std::string(more));
    };
    const std::string quiet = "," + std::string(off);
    CHECK(choice(R"("required")", "") == "tool_choice");
    CHECK(choice(R"("required")", quiet) == "accepted");
    CHECK(choice(R"({"type":"function","name":"f"})", "") == "tool_choice");
    CHECK(choice(R"({"type":"function","name":"f"})", quiet) == "accepted");
    CHECK(choice(R"({"type":"custom","name":"apply_patch"})", quiet) == "accepted");
    CHECK(choice(R"({"type":"function","name":"g"})", quiet) == "tool_choice.name");
    CHECK(choice(R"({"type":"function"})", quiet) == "tool_choice.name");
    CHECK(choice(R"({"name":"f"})", quiet) == "tool_choice.type");
    CHECK(choice(R"({"type":"allowed_tools","mode":"auto","tools":[]})", quiet) ==
          "tool_choice.type");
    CHECK(choice(R"("none")", "") == "accepted");
    const auto told = parse(body_of(R"("q")", R"(,"tool_choice":"required")" + tools));
    REQUIRE_FALSE(told);
    CHECK(told.error().message.find("`reasoning.effort` none") != std::string::npos);
  }

  TEST_CASE("formats: json_object needs the word, a schema is carried with its name") {
    const char* object = R"(,"text":{"format":{"type":"json_object"}})";
    CHECK(refused_for(body_of(R"("give me JsOn")", object)) == "accepted");
    CHECK(refused_for(body_of(R"("give me XML")", object)) == "text.format.type");
    CHECK(refused_for(body_of(R"("q")", std::string(object) + R"(,"instructions":"in json")")) ==
          "accepted");
    const auto request =
        accepted_with(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,)"
                      R"("schema":{"type":"object","b":1,"a":2}}})");
    CHECK(request.generation.constraint.what == output_constraint::kind::json_schema);
    CHECK(request.generation.constraint.name == "n");
    CHECK(request.generation.constraint.text == R"({"type": "object", "b": 1, "a": 2})");
    CHECK(request.talk.format == response_format::text);
    const auto refused =
        prepare(api_protocol::responses,
                body_of(R"("q")", R"(,"text":{"format":{"type":"json_schema","name":"n"}})"),
                *test::tiny_tokenizer(), {"tiny-v41", {}, 4096});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().status == 400);
  }

  TEST_CASE(
      "of several mistakes the first is told: spelling, effort, limits, tools, input, choice") {
    struct part {
      std::string wrong, right, field;
    };
    const std::vector<part> parts = {
        {R"("instructions":"<｜image｜>")", R"("instructions":"i")", "instructions"},
        {R"("reasoning":{"effort":"?"})", R"("reasoning":{})", "reasoning.effort"},
        {R"("temperature":9)", R"("temperature":1)", "temperature"},
        {R"("tools":[7])", R"("tools":[])", "tools[0]"},
        {R"("input":7)", R"("input":"q")", "input"},
        {R"("tool_choice":"?")", R"("tool_choice":"auto")", "tool_choice"},
        {R"("text":7)", R"("text":{})", "text"},
    };
    for (size_t repaired = 0; repaired < parts.size(); ++repaired) {
      std::string body = R"({"model":"m")";
      for (size_t i = parts.size(); i-- > 0;)
        body += "," + (i < repaired ? parts[i].right : parts[i].wrong);
      CHECK(refused_for(body + "}") == parts[repaired].field);
    }
  }

  TEST_CASE("the placeholder of an image is refused wherever a text could carry it") {
    const std::string mark = "<｜image｜>";
    CHECK(refused_for(body_of("\"" + mark + "\"")) == "input");
    CHECK(refused_with(R"("instructions":")" + mark + "\"") == "instructions");
    CHECK(refused_items(R"({"role":"user","content":[{"type":"input_text","text":"a)" + mark +
                        "\"}]}") == "input[0].content[0].text");
    CHECK(refused_items(R"({"role":"user","content":"<\uff5cimage\uff5c>"})") ==
          "input[0].content");
    CHECK(refused_items(R"({"type":"reasoning","content":[{"text":")" + mark + "\"}]}") ==
          "input[0].content[0].text");
    for (const char* key : {"call_id", "name", "arguments", "namespace"}) {
      std::string call = R"({"type":"function_call","call_id":"c")";
      for (const char* other : {"name", "arguments"})
        if (std::string_view(other) != key) call += R"(,")" + std::string(other) + R"(":"x")";
      if (std::string_view(key) == "call_id") call = R"({"type":"function_call","name":"x")";
      CHECK(refused_items(call + R"(,")" + key + R"(":")" + mark + "\"}") ==
            "input[0]." + std::string(key));
    }
    CHECK(refused_items(R"({"type":"web_search_call","result":")" + mark + "\"}") == "accepted");
    CHECK(refused_tools(R"({"type":"function","name":"f","description":")" + mark + "\"}") ==
          "tools[0].description");
    CHECK(refused_tools(R"({"type":"namespace","name":"n","tools":[],"description":")" + mark +
                        "\"}") == "tools[0].description");
    CHECK(refused_tools(R"({"type":"namespace","name":"n","tools":[{"type":"function","name":"f",)"
                        R"("parameters":{"type":"object","title":")" +
                        mark + "\"}}]}") == "tools[0].tools[0].parameters");
    // A key too long to be told.
    const std::string key(10'000, 'k');
    const auto long_key =
        parse(body_of(R"([{"role":"user","content":[{")" + key + R"(":")" + mark + "\"}]}]"));
    REQUIRE_FALSE(long_key);
    CHECK(long_key.error().param == "input[0].content[0]....");
  }
}
