#include "runtime/recipe/messages/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <set>
#include <utility>

namespace deepinfer::recipe::messages {
namespace {

/// True for a tool that is left out. Only those that the client describes itself are known here,
/// not those that a type stands for, whoever runs them.
bool is_dropped(field_reader& tool, const conversion_options& options) {
  const auto type = tool.string("type");
  if (!type || *type == "custom") return false;  // the explicit word for a client's own tool
  if (!type->starts_with("web_search") || options.refuse_web_search_in_messages)
    tool.fail("type", "is " + in_quotes(*type) +
                          ", which is not supported here: declare tools by `input_schema`");
  return true;
}

void read_choice(field_reader& choice,
                 client_request& request,
                 const std::set<std::string>& dropped,
                 field_reader& body) {
  conversation& talk = request.talk;
  const std::string type = choice.required_string("type");
  const bool one_call = choice.boolean("disable_parallel_tool_use").value_or(false);
  if (type == "none") {
    talk.choice = tool_choice::none;
    return;
  }
  request.generation.disable_parallel_tool_use = one_call;
  if (type == "tool") {
    const std::string name = choice.required_string("name");
    // The choice of a tool that was left out is left out with it.
    if (choice.failed() || dropped.count(name) != 0) return;
    choose_tool(talk, name, choice, "name");
    check_forced_call(talk, body);
  } else if (type != "auto" && type != "any") {
    // `any` is read as `auto`, as the published service does: thinking models cannot be forced.
    choice.fail("type", "must be auto, any, tool or none, not " + in_quotes(type));
  }
}

}  // namespace

void read_tools(field_reader& body,
                client_request& request,
                const conversion_options& options,
                first_error& error) {
  std::set<std::string> names, dropped;
  const json_array* tools = body.array("tools");
  for (size_t i = 0; tools != nullptr && i < tools->size() && !error; ++i) {
    field_reader tool((*tools)[i], "tools[" + std::to_string(i) + "]", error);
    if (is_dropped(tool, options)) {
      dropped.insert(tool.string("name").value_or(std::string{}));
      continue;
    }
    if (tool.require("input_schema") == nullptr) return;
    request.talk.tools.push_back(read_function(tool, "input_schema"));
    const std::string& name = request.talk.tools.back().name;
    if (!names.insert(name).second)
      tool.fail("name", "declares the tool " + in_quotes(name) + " a second time");
  }
  const json_value* found = body.find("tool_choice");
  if (error || found == nullptr) return;
  field_reader choice(*found, "tool_choice", error);
  read_choice(choice, request, dropped, body);
}

}  // namespace deepinfer::recipe::messages
