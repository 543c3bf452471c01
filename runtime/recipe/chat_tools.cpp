#include "runtime/recipe/chat_parts.hpp"
#include "runtime/recipe/tool_schema.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace deepinfer::recipe::chat {
namespace {

tool_definition read_tool(const json_value& value, std::string path, first_error& error) {
  tool_definition tool;
  field_reader outer(value, std::move(path), error);
  if (outer.required_string("type") != "function") outer.fail("type", "must be function");
  const json_value* found = outer.require("function");
  if (found == nullptr) return tool;
  field_reader function(*found, outer.path("function"), error);
  tool.name = function.required_string("name");
  if (!is_tool_name(tool.name))
    function.fail("name", "must be 1 to 128 ASCII letters, digits, underscores or hyphens");
  tool.description = function.string("description").value_or(std::string{});
  tool.strict = function.boolean("strict").value_or(false);
  refuse_placeholder(tool.description, function, "description");
  if (const json_value* parameters = function.find("parameters")) {
    if (const auto complaint = tool_schema_complaint(*parameters))
      function.fail("parameters", *complaint);
    tool.parameters.clear();
    append_spaced_json(tool.parameters, *parameters);
    refuse_placeholder(tool.parameters, function, "parameters");
  }
  return tool;
}

/// A named function: the model must call, and sees no other.
void choose_named(field_reader& body,
                  const json_value& value,
                  conversation& talk,
                  first_error& error) {
  field_reader choice(value, "tool_choice", error);
  if (choice.required_string("type") != "function") choice.fail("type", "must be function");
  const json_value* found = choice.require("function");
  if (found == nullptr) return;
  field_reader function(*found, "tool_choice.function", error);
  const std::string name = function.required_string("name");
  const auto is_other = [&name](const tool_definition& tool) { return tool.name != name; };
  std::erase_if(talk.tools, is_other);
  if (talk.tools.empty())
    body.fail("tool_choice",
              "names the function " + in_quotes(name) + ", which `tools` does not declare");
  talk.choice = tool_choice::required;
}

void read_choice(field_reader& body, conversation& talk, first_error& error) {
  const json_value* found = body.find("tool_choice");
  if (found == nullptr) return;
  if (const auto* word = found->as<std::string>()) {
    if (*word == "none") {
      talk.choice = tool_choice::none;
    } else if (*word == "required") {
      // With nothing to call, the model may as well answer.
      talk.choice = talk.tools.empty() ? tool_choice::automatic : tool_choice::required;
    } else if (*word != "auto") {
      body.fail("tool_choice", "must be none, auto, required or a named function");
    }
  } else {
    choose_named(body, *found, talk, error);
  }
  if (talk.choice == tool_choice::required && talk.thinking && !talk.tools.empty())
    body.fail("tool_choice", "can force a call only with `thinking` disabled");
}

bool mentions_json(std::string_view text) {
  for (size_t i = 0; i + 4 <= text.size(); ++i)
    if ((text[i] | 0x20) == 'j' && (text[i + 1] | 0x20) == 's' && (text[i + 2] | 0x20) == 'o' &&
        (text[i + 3] | 0x20) == 'n')
      return true;
  return false;
}

}  // namespace

void read_tools(field_reader& body, conversation& talk, first_error& error) {
  if (const json_array* tools = body.array("tools")) {
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < tools->size() && !error; ++i) {
      std::string path = "tools[" + std::to_string(i) + "]";
      talk.tools.push_back(read_tool((*tools)[i], path, error));
      if (!names.insert(talk.tools.back().name).second)
        body.fail(path,
                  "declares the function " + in_quotes(talk.tools.back().name) + " a second time");
    }
  }
  if (!error) read_choice(body, talk, error);
}

void read_response_format(field_reader& body, conversation& talk, first_error& error) {
  const json_value* found = body.find("response_format");
  if (found == nullptr) return;
  field_reader format(*found, "response_format", error);
  const std::string type = format.required_string("type");
  if (type == "regex") return format.fail("type", "regex is not supported");
  if (type != "text" && type != "json_schema" && type != "json_object")
    return format.fail("type", "must be text, json_object or json_schema");
  if (type != "json_object") return;
  talk.format = response_format::json_object;
  const bool mentioned = std::any_of(talk.messages.begin(), talk.messages.end(),
                                     [](const message& m) { return mentions_json(m.content); });
  if (!mentioned) format.fail("type", "json_object needs the word \"json\" in some message");
}

}  // namespace deepinfer::recipe::chat
