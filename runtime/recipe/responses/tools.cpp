#include "runtime/recipe/apply_patch.hpp"
#include "runtime/recipe/request_fields.hpp"
#include "runtime/recipe/responses/parts.hpp"
#include "runtime/recipe/tool_schema.hpp"

#include <set>
#include <string>
#include <utility>

namespace deepinfer::recipe::responses {
namespace {

bool is_web_search(std::string_view type) {
  return type == "web_search" || type == "web_search_2025_08_26";
}

constexpr std::string_view no_web_search =
    "is a web search, which is not offered here: leave it out";

class tool_reader {
public:
  tool_reader(client_request& request,
              const conversion_options& options,
              flat_names& names,
              first_error& error)
      : request_(request), options_(options), names_(names), error_(error) {}

  void read(const json_value& value, std::string path) {
    field_reader tool(value, std::move(path), error_);
    const std::string type = tool.required_string("type");
    if (tool.failed()) return;
    if (type == "function") {
      add(read_function(tool, "parameters"), tool);
    } else if (type == "custom") {
      read_custom(tool);
    } else if (type == "namespace") {
      spaces_.push_back(read_namespace(tool));
    } else if (is_web_search(type) && options_.refuse_web_search_in_responses) {
      tool.fail("type", no_web_search);
    }
    // All other types are tools of the published service, as if they were not there.
  }

  /// Members get their names once all other tools have theirs, but stand where they were declared.
  void finish() {
    std::vector<tool_definition> flat;
    size_t next = 0;
    for (const auto& space : spaces_) {
      for (; next < space.before; ++next) flat.push_back(std::move(request_.talk.tools[next]));
      for (tool_definition tool : space.members) {
        tool.name = names_.of(space.name, tool.name);
        flat.push_back(std::move(tool));
      }
    }
    for (; next < request_.talk.tools.size(); ++next)
      flat.push_back(std::move(request_.talk.tools[next]));
    request_.talk.tools = std::move(flat);
  }

private:
  struct name_space {
    std::string name;
    std::vector<tool_definition> members;
    size_t before = 0;  // tools outside namespaces that were declared earlier
  };

  void add(tool_definition tool, field_reader& fields) {
    if (!names_.take(tool.name))
      fields.fail("name", "declares the tool " + in_quotes(tool.name) + " a second time");
    request_.talk.tools.push_back(std::move(tool));
  }

  void read_custom(field_reader& tool) {
    const std::string name = tool.required_string("name");
    if (name != apply_patch_name)
      tool.fail("name", "can only be " + std::string(apply_patch_name) + " in a custom tool");
    const std::string& text = options_.apply_patch_description;
    add(text.empty() ? apply_patch_tool() : apply_patch_tool(text), tool);
    request_.custom_tools.push_back(name);
  }

  name_space read_namespace(field_reader& fields) {
    name_space space;
    space.before = request_.talk.tools.size();
    space.name = fields.required_string("name");
    // What the model calls is cut at the first `::`, so that none may be inside the name.
    if (!is_tool_name(space.name))
      fields.fail("name", "must be 1 to 128 ASCII letters, digits, underscores or hyphens");
    if (!space_names_.insert(space.name).second)
      fields.fail("name", "declares the namespace " + in_quotes(space.name) + " a second time");
    const std::string description = fields.string("description").value_or(std::string{});
    refuse_placeholder(description, fields, "description");
    if (fields.require("tools") == nullptr) return space;
    const json_array* members = fields.array("tools");
    std::set<std::string> names;
    for (size_t i = 0; members != nullptr && i < members->size() && !error_; ++i) {
      field_reader member((*members)[i], fields.path("tools") + "[" + std::to_string(i) + "]",
                          error_);
      const std::string type = member.required_string("type");
      if (type == "custom") member.fail("type", "custom is not possible inside a namespace");
      if (type != "function") continue;
      tool_definition tool = read_function(member, "parameters");
      if (!names.insert(tool.name).second)
        member.fail("name", "declares the tool " + in_quotes(tool.name) + " a second time");
      if (!description.empty()) tool.description = description + "\n" + tool.description;
      // One long description before many members is the product of what was sent.
      repeated_bytes_ += description.size();
      if (repeated_bytes_ > options_.json.max_bytes)
        fields.fail("description", "stands before that of each member: all together more than " +
                                       std::to_string(options_.json.max_bytes) +
                                       " bytes; shorten it");
      space.members.push_back(std::move(tool));
    }
    return space;
  }

  client_request& request_;
  const conversion_options& options_;
  flat_names& names_;
  first_error& error_;
  std::vector<name_space> spaces_;
  std::set<std::string> space_names_;
  size_t repeated_bytes_ = 0;  // of namespaces' descriptions
};

void read_named_choice(field_reader& choice, field_reader& body, conversation& talk) {
  const std::string name = choice.required_string("name");
  if (!choice.failed()) choose_tool(talk, name, body, "tool_choice.name");
}

}  // namespace

const std::string& flat_names::of(std::string_view space, std::string_view member) {
  std::string& name = members_[{std::string(space), std::string(member)}];
  if (!name.empty()) return name;
  const std::string base = std::string(space) + "::" + std::string(member);
  name = base;
  // The count goes on where it stopped for the same base: clashes cost no more than their number.
  while (!take(name)) name = base + "_" + std::to_string(++suffixes_[base]);
  return name;
}

void read_tools(field_reader& body,
                client_request& request,
                const conversion_options& options,
                flat_names& names,
                first_error& error) {
  const json_array* tools = body.array("tools");
  if (tools == nullptr) return;
  tool_reader reader(request, options, names, error);
  for (size_t i = 0; i < tools->size() && !error; ++i)
    reader.read((*tools)[i], "tools[" + std::to_string(i) + "]");
  if (!error) reader.finish();
}

void read_tool_choice(field_reader& body,
                      conversation& talk,
                      const conversion_options& options,
                      first_error& error) {
  const json_value* found = body.find("tool_choice");
  if (found == nullptr) return;
  if (const auto* word = found->as<std::string>()) {
    choose_by_word(talk, *word, body);
  } else {
    field_reader choice(*found, "tool_choice", error);
    const std::string type = choice.required_string("type");
    if (type == "function" || type == "custom") {
      read_named_choice(choice, body, talk);
    } else if (!is_web_search(type)) {
      choice.fail("type", "must be function or custom, not " + in_quotes(type));
    } else if (options.refuse_web_search_in_responses) {
      choice.fail("type", no_web_search);
    }
  }
  check_forced_call(talk, body, "`reasoning.effort` none");
}

}  // namespace deepinfer::recipe::responses
