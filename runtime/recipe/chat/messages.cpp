#include "runtime/recipe/chat/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <set>
#include <utility>

namespace deepinfer::recipe::chat {
namespace {

/// Reads one `messages[i]` after the other and keeps track of the calls that wait for results.
class message_reader {
public:
  message_reader(conversation& talk, first_error& error) : talk_(talk), error_(error) {}

  void read(const json_value& value, std::string path) {
    field_reader fields(value, std::move(path), error_);
    const std::string from = fields.required_string("role");
    if (fields.failed()) return;
    if (!pending_.empty() && from != "tool")
      fields.fail({}, "comes before the result of tool call " + in_quotes(*pending_.begin()));
    if (from == "system") {
      read_system(fields);
    } else if (from == "user") {
      message made{.from = role::user};
      read_content(fields, made, fields.require("content"));
      talk_.messages.push_back(std::move(made));
    } else if (from == "assistant") {
      read_assistant(fields);
    } else if (from == "tool") {
      read_tool(fields);
    } else if (from == "latest_reminder") {
      message made{.from = role::latest_reminder, .content = fields.required_string("content")};
      refuse_placeholder(made.content, fields, "content");
      talk_.messages.push_back(std::move(made));
    } else {
      fields.fail("role", "must be system, user, assistant, tool or latest_reminder, not " +
                              in_quotes(from));
    }
  }

  void finish(field_reader& body) {
    if (!pending_.empty())
      body.fail("messages", "ends without the result of tool call " + in_quotes(*pending_.begin()));
  }

  /// The last message read continues the output; nothing may follow it.
  [[nodiscard]] bool ended() const { return talk_.continues_last; }

private:
  /// A string, or blocks whose texts are joined by empty lines.
  void read_content(field_reader& fields, message& made, const json_value* content) {
    if (content == nullptr) return;
    if (const auto* text = content->as<std::string>()) {
      made.content = *text;
      refuse_placeholder(made.content, fields, "content");
      return;
    }
    const auto* blocks = content->as<json_array>();
    if (blocks == nullptr) return fields.fail("content", "must be a string or an array of blocks");
    for (size_t i = 0; i < blocks->size() && !error_; ++i) {
      field_reader block((*blocks)[i], fields.path("content") + "[" + std::to_string(i) + "]",
                         error_);
      const std::string text = read_block(block, made);
      if (i > 0) made.content += "\n\n";
      made.content += text;
    }
  }

  std::string read_block(field_reader& block, message& made) {
    const std::string type = block.required_string("type");
    if (type == "text") {
      std::string text = block.required_string("text");
      refuse_placeholder(text, block, "text");
      return text;
    }
    if (type == "image_url") {
      if (const json_value* found = block.require("image_url")) {
        field_reader image(*found, block.path("image_url"), error_);
        add_image(image, "url", image.required_string("url"), made);
      }
      return std::string(image_placeholder);
    }
    if (type == "file") {
      if (const json_value* found = block.require("file")) {
        field_reader file(*found, block.path("file"), error_);
        if (file.find("file_id") != nullptr)
          file.fail("file_id", "is not supported: send `file_data`");
        static_cast<void>(file.string("filename"));
        add_image(file, "file_data", file.required_string("file_data"), made);
      }
      return std::string(image_placeholder);
    }
    block.fail("type", "must be text, image_url or file");
    return {};
  }

  void add_image(field_reader& fields, std::string_view key, std::string url, message& made) {
    if (made.from != role::user && made.from != role::tool)
      fields.fail({}, "is an image, which only user and tool messages may have");
    if (key == "file_data" && is_external_url(url)) fields.fail(key, "must be a data URL");
    check_image_url(fields, key, url);
    made.images.push_back({std::move(url), read_detail(fields)});
  }

  void read_system(field_reader& fields) {
    message made{.from = role::system};
    read_content(fields, made, fields.require("content"));
    if (!made.content.empty()) talk_.messages.push_back(std::move(made));
  }

  void read_assistant(field_reader& fields) {
    message made{.from = role::assistant};
    const json_value* content = fields.find("content");
    read_content(fields, made, content);
    made.reasoning = fields.string("reasoning_content").value_or(std::string{});
    refuse_placeholder(made.reasoning, fields, "reasoning_content");
    const json_array* calls = fields.array("tool_calls");
    if (content == nullptr && calls == nullptr)
      fields.fail("content", "or `tool_calls` is required in an assistant message");
    if (calls != nullptr && calls->empty()) fields.fail("tool_calls", "must not be empty");
    for (size_t i = 0; calls != nullptr && i < calls->size() && !error_; ++i)
      read_call((*calls)[i], fields.path("tool_calls") + "[" + std::to_string(i) + "]", made);
    if (fields.boolean("prefix").value_or(false)) {
      if (!made.calls.empty()) fields.fail("prefix", "cannot be used with `tool_calls`");
      talk_.continues_last = true;
    }
    talk_.messages.push_back(std::move(made));
  }

  void read_call(const json_value& value, std::string path, message& made) {
    field_reader call(value, std::move(path), error_);
    tool_call read;
    read.id = call.required_string("id");
    if (const auto type = call.string("type"); type && *type != "function")
      call.fail("type", "must be function");
    if (const json_value* found = call.require("function")) {
      field_reader function(*found, call.path("function"), error_);
      read.name = function.required_string("name");
      read.arguments = function.required_string("arguments");
      refuse_placeholder(read.name, function, "name");
      refuse_placeholder(read.arguments, function, "arguments");
    }
    if (!pending_.insert(read.id).second)
      call.fail("id", in_quotes(read.id) + " is used twice in one message");
    made.calls.push_back(std::move(read));
  }

  void read_tool(field_reader& fields) {
    message made{.from = role::tool, .call_id = fields.required_string("tool_call_id")};
    read_content(fields, made, fields.require("content"));
    if (pending_.erase(made.call_id) == 0)
      fields.fail("tool_call_id",
                  in_quotes(made.call_id) +
                      " is not an unanswered call of the assistant message before it");
    talk_.messages.push_back(std::move(made));
  }

  conversation& talk_;
  first_error& error_;
  std::set<std::string> pending_;  // calls without a result so far
};

}  // namespace

void read_messages(field_reader& body, conversation& talk, first_error& error) {
  if (body.require("messages") == nullptr) return;
  const json_array* messages = body.array("messages");
  if (messages == nullptr) return;
  if (messages->empty()) return body.fail("messages", "must not be empty");
  message_reader reader(talk, error);
  for (size_t i = 0; i < messages->size() && !error; ++i) {
    std::string path = "messages[" + std::to_string(i) + "]";
    if (reader.ended())
      return body.fail(path, "follows a message with `prefix`, which must be the last");
    reader.read((*messages)[i], std::move(path));
  }
  if (!error) reader.finish(body);
}

}  // namespace deepinfer::recipe::chat
