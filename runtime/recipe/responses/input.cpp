#include "runtime/recipe/request_fields.hpp"
#include "runtime/recipe/responses/parts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace deepinfer::recipe::responses {
namespace {

enum class item_kind : uint8_t { message, reasoning, call, result, custom_call, custom_result };

/// Nothing for items that are skipped: what other services keep of their own tools.
std::optional<item_kind> kind_of(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, item_kind>, 6> kinds = {{
      {"message", item_kind::message},
      {"reasoning", item_kind::reasoning},
      {"function_call", item_kind::call},
      {"function_call_output", item_kind::result},
      {"custom_tool_call", item_kind::custom_call},
      {"custom_tool_call_output", item_kind::custom_result},
  }};
  for (const auto& [name, kind] : kinds)
    if (name == type) return kind;
  return std::nullopt;
}

/// Extends `path` to the first string inside `value` that spells the placeholder; leaves it as it
/// is when there is none.
bool find_placeholder(const json_value& value, std::string& path) {
  const size_t before = path.size();
  if (const auto* text = value.as<std::string>())
    return text->find(image_placeholder) != std::string::npos;
  if (const auto* items = value.as<json_array>()) {
    for (size_t i = 0; i < items->size(); ++i) {
      path.append("[").append(std::to_string(i)).append("]");
      if (find_placeholder((*items)[i], path)) return true;
      path.resize(before);
    }
  } else if (const auto* members = value.as<json_object>()) {
    constexpr size_t most_shown = 64;
    for (const json_member& member : *members) {
      path.append(".").append(member.key.size() <= most_shown ? member.key : "...");
      if (find_placeholder(member.value, path)) return true;
      path.resize(before);
    }
  }
  return false;
}

/// An item's type; messages need not name it.
std::string item_type(const json_value& item) {
  if (const auto* members = item.as<json_object>())
    for (const json_member& member : *members)
      if (member.key == "type")
        if (const auto* type = member.value.as<std::string>()) return *type;
  return "message";
}

/// Reads one item of `input` after the other. Calls and their results are held back as a group
/// until every call has its result: groups stand in the prompt sorted by call id.
class input_reader {
public:
  input_reader(conversation& talk, flat_names& names, first_error& error)
      : talk_(talk), names_(names), error_(error) {}

  void read(const json_value& value, std::string path) {
    field_reader fields(value, std::move(path), error_);
    const std::string type = fields.string("type").value_or("message");
    if (fields.failed()) return;
    const auto kind = kind_of(type);
    if (!kind) return;
    switch (*kind) {
      case item_kind::message:
        return read_message(fields);
      case item_kind::reasoning:
        return read_reasoning(fields);
      case item_kind::call:
      case item_kind::custom_call:
        return read_call(fields, *kind);
      case item_kind::result:
        return read_result(fields, fields.require("output"));
      case item_kind::custom_result:
        return read_result(fields, fields.find("output"));
    }
  }

  void finish(field_reader& body) {
    if (unanswered_ > 0)
      body.fail("input", "ends without the result of tool call " + first_unanswered());
  }

private:
  struct exchange {
    tool_call call;
    std::optional<message> result;
  };

  std::string first_unanswered() const {
    const auto found = std::find_if(group_.begin(), group_.end(),
                                    [](const auto& entry) { return !entry.second.result; });
    return in_quotes(found->first);
  }

  void refuse_while_unanswered(field_reader& fields) {
    if (unanswered_ > 0)
      fields.fail({}, "comes before the result of tool call " + first_unanswered());
  }

  void read_message(field_reader& fields) {
    refuse_while_unanswered(fields);
    const std::string from = fields.required_string("role");
    message made;
    if (from == "assistant") {
      made.from = role::assistant;
    } else if (from == "system") {
      made.from = role::system;
    } else if (from != "user" && from != "developer") {
      fields.fail("role", "must be user, assistant, system or developer, not " + in_quotes(from));
    }
    read_content(fields, "content", fields.require("content"), made);
    if (made.from == role::assistant && last_is_assistant()) {
      message& before = talk_.messages.back();
      if (!before.content.empty() && !made.content.empty()) before.content += "\n\n";
      before.content += made.content;
    } else {
      talk_.messages.push_back(std::move(made));
    }
  }

  /// A call's message is followed by its results, so that the last message never has calls.
  [[nodiscard]] bool last_is_assistant() const {
    return !talk_.messages.empty() && talk_.messages.back().from == role::assistant;
  }

  /// A string, or blocks whose texts are joined by empty lines.
  void read_content(field_reader& fields,
                    std::string_view key,
                    const json_value* content,
                    message& made) {
    if (content == nullptr) return;
    if (const auto* text = content->as<std::string>()) {
      made.content = *text;
      return;
    }
    const auto* blocks = content->as<json_array>();
    if (blocks == nullptr) return fields.fail(key, "must be a string or an array of blocks");
    for (size_t i = 0; i < blocks->size() && !error_; ++i) {
      field_reader block((*blocks)[i], fields.path(key) + "[" + std::to_string(i) + "]", error_);
      if (i > 0) made.content += "\n\n";
      read_block(block, made);
    }
  }

  void read_block(field_reader& block, message& made) {
    const std::string type = block.required_string("type");
    if (type == "input_text" || type == "output_text") {
      made.content += block.required_string("text");
    } else if (type == "input_image") {
      read_image(block, made);
    } else if (type == "input_file") {
      made.content += "[Unsupported Document]";
    } else {
      block.fail("type", "must be input_text, output_text, input_image or input_file");
    }
  }

  void read_image(field_reader& block, message& made) {
    if (made.from != role::user && made.from != role::tool)
      block.fail({}, "is an image, which only user messages and tool outputs may have");
    if (!block.string("file_id").value_or(std::string{}).empty())
      block.fail("file_id", "is not supported: send `image_url`");
    std::string url = block.string("image_url").value_or(std::string{});
    if (url.empty()) block.fail("image_url", "is required");
    check_image_url(block, "image_url", url);
    made.images.push_back({std::move(url), read_detail(block)});
    made.content += image_placeholder;
  }

  void read_reasoning(field_reader& fields) {
    static_cast<void>(fields.string("encrypted_content"));
    std::string text;
    const json_array* parts = fields.array("content");
    for (size_t i = 0; parts != nullptr && i < parts->size() && !error_; ++i) {
      field_reader part((*parts)[i], fields.path("content") + "[" + std::to_string(i) + "]",
                        error_);
      if (i > 0) text += "\n";
      text += part.required_string("text");
    }
    // Other services hand out reasoning that only they can read: nothing is left of it here.
    if (text.empty()) return;
    refuse_while_unanswered(fields);
    if (!last_is_assistant() || !talk_.messages.back().content.empty())
      talk_.messages.push_back({.from = role::assistant});
    std::string& reasoning = talk_.messages.back().reasoning;
    if (!reasoning.empty()) reasoning += "\n";
    reasoning += text;
  }

  void read_call(field_reader& fields, item_kind kind) {
    tool_call call;
    call.id = fields.required_string("call_id");
    call.name = fields.required_string("name");
    if (kind == item_kind::custom_call) {
      call.arguments = "{\"input\":";
      append_json_string(call.arguments, fields.required_string("input"));
      call.arguments += "}";
    } else {
      call.arguments = fields.required_string("arguments");
      const std::string space = fields.string("namespace").value_or(std::string{});
      if (!space.empty()) call.name = names_.of(space, call.name);
    }
    if (call.id.empty()) fields.fail("call_id", "must not be empty");
    if (!call_ids_.insert(call.id).second)
      fields.fail("call_id", in_quotes(call.id) + " is used by an earlier call, too");
    if (fields.failed()) return;
    ++unanswered_;
    std::string id = call.id;
    group_.emplace(std::move(id), exchange{std::move(call), std::nullopt});
  }

  void read_result(field_reader& fields, const json_value* output) {
    message made{.from = role::tool, .call_id = fields.required_string("call_id")};
    read_content(fields, "output", output, made);
    const auto found = group_.find(made.call_id);
    if (found == group_.end() || found->second.result)
      fields.fail("call_id", in_quotes(made.call_id) +
                                 " is no call of this `input` that waits for its result");
    if (fields.failed()) return;
    found->second.result = std::move(made);
    if (--unanswered_ == 0) close_group();
  }

  void close_group() {
    if (!last_is_assistant()) talk_.messages.push_back({.from = role::assistant});
    const size_t caller = talk_.messages.size() - 1;
    for (auto& [id, one] : group_) {
      talk_.messages[caller].calls.push_back(std::move(one.call));
      talk_.messages.push_back(*std::move(one.result));
    }
    group_.clear();
  }

  conversation& talk_;
  flat_names& names_;
  first_error& error_;
  std::map<std::string, exchange> group_;  // by call id
  size_t unanswered_ = 0;
  std::set<std::string> call_ids_;  // of all calls so far
};

}  // namespace

void refuse_placeholders(field_reader& body) {
  const auto refuse = [&body](std::string path, const json_value& value) {
    if (find_placeholder(value, path))
      body.fail(path, "must not contain " + std::string(image_placeholder));
  };
  if (const json_value* instructions = body.find("instructions"))
    refuse("instructions", *instructions);
  const json_value* input = body.find("input");
  const auto* items = input == nullptr ? nullptr : input->as<json_array>();
  if (input != nullptr && items == nullptr) refuse("input", *input);
  for (size_t i = 0; items != nullptr && i < items->size() && !body.failed(); ++i)
    if (kind_of(item_type((*items)[i]))) refuse("input[" + std::to_string(i) + "]", (*items)[i]);
}

void read_input(field_reader& body, conversation& talk, flat_names& names, first_error& error) {
  std::string instructions = body.string("instructions").value_or(std::string{});
  const json_value* input = body.find("input");
  if (input == nullptr && instructions.empty())
    return body.fail("input", "is required, or `instructions`");
  if (!instructions.empty())
    talk.messages.push_back({.from = role::system, .content = std::move(instructions)});
  if (input == nullptr) return;
  if (const auto* text = input->as<std::string>()) {
    talk.messages.push_back({.from = role::user, .content = *text});
    return;
  }
  const auto* items = input->as<json_array>();
  if (items == nullptr) return body.fail("input", "must be a string or an array of items");
  if (items->empty()) return body.fail("input", "must not be empty");
  input_reader reader(talk, names, error);
  for (size_t i = 0; i < items->size() && !error; ++i)
    reader.read((*items)[i], "input[" + std::to_string(i) + "]");
  if (!error) reader.finish(body);
}

}  // namespace deepinfer::recipe::responses
