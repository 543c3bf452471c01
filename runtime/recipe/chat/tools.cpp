#include "runtime/recipe/chat/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <set>
#include <string>
#include <utility>

namespace deepinfer::recipe::chat {
namespace {

tool_definition read_tool(const json_value& value, std::string path, first_error& error) {
  field_reader outer(value, std::move(path), error);
  if (outer.required_string("type") != "function") outer.fail("type", "must be function");
  const json_value* found = outer.require("function");
  if (found == nullptr) return {};
  field_reader function(*found, outer.path("function"), error);
  return read_function(function, "parameters");
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
  choose_tool(talk, function.required_string("name"), body, "tool_choice");
}

void read_choice(field_reader& body, conversation& talk, first_error& error) {
  const json_value* found = body.find("tool_choice");
  if (found == nullptr) return;
  if (const auto* word = found->as<std::string>()) {
    choose_by_word(talk, *word, body);
  } else {
    choose_named(body, *found, talk, error);
  }
  check_forced_call(talk, body);
}

}  // namespace

void read_tools(field_reader& body, conversation& talk, first_error& error) {
  if (const json_array* tools = body.array("tools")) {
    std::set<std::string> names;
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

}  // namespace deepinfer::recipe::chat
