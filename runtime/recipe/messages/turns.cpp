#include "runtime/recipe/messages/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <set>
#include <utility>

namespace deepinfer::recipe::messages {
namespace {

/// Reads one `messages[i]` after the other and keeps track of the calls that wait for results:
/// those of the assistant message directly before, which one user message must answer all.
class message_reader {
public:
  message_reader(conversation& talk, const conversion_options& options, first_error& error)
      : talk_(talk), options_(options), error_(error) {}

  void read(const json_value& value, std::string path) {
    field_reader fields(value, std::move(path), error_);
    const std::string from = fields.required_string("role");
    if (from != "user") refuse_unanswered(fields, {});
    if (from == "user") {
      read_user(fields);
    } else if (from == "assistant") {
      read_assistant(fields);
    } else if (from == "system") {
      read_reminder(fields);
    } else {
      fields.fail("role", "must be user, assistant or system, not " + in_quotes(from));
    }
  }

  void finish(field_reader& body) { refuse_unanswered(body, "messages"); }

private:
  /// Complains if a result is still to come.
  void refuse_unanswered(field_reader& fields, std::string_view key) {
    if (pending_.empty() || fields.failed()) return;
    for (const tool_call& call : talk_.messages[asker_].calls)
      if (pending_.count(call.id) != 0)
        return fields.fail(key, "must not come before or without the tool_result of tool_use " +
                                    in_quotes(call.id) +
                                    ": the next user message begins with all results");
  }

  /// A string, which is done at once, or the blocks.
  const json_array* read_content(field_reader& fields, message& made) {
    const json_value* content = fields.require("content");
    if (content == nullptr) return nullptr;
    if (content->as<std::string>() != nullptr) {
      read_texts(fields, "content", made, error_);
      return nullptr;
    }
    const auto* blocks = content->as<json_array>();
    if (blocks == nullptr) {
      fields.fail("content", "must be a string or an array of blocks");
    } else if (blocks->empty()) {
      fields.fail("content", "must not be empty");
    }
    return blocks;
  }

  template <class ReadBlock>
  void for_each_block(field_reader& fields, const json_array& blocks, ReadBlock&& read_block) {
    for (size_t i = 0; i < blocks.size() && !error_; ++i) {
      field_reader block(blocks[i], fields.path("content") + "[" + std::to_string(i) + "]", error_);
      const std::string type = block.required_string("type");
      if (!error_) read_block(block, type);
    }
  }

  void read_user(field_reader& fields) {
    message whole{.from = role::user};
    const json_array* blocks = read_content(fields, whole);
    if (blocks == nullptr) {
      refuse_unanswered(fields, {});
      talk_.messages.push_back(std::move(whole));
      return;
    }
    // Each block is a message of its own; the renderer joins neighbours.
    for_each_block(fields, *blocks, [this](field_reader& block, const std::string& type) {
      if (type == "tool_result") return read_result(block);
      message made{.from = role::user};
      auto text = read_shown_block(block, type, made, error_);
      if (!text) return refuse_block(block, type, "user");
      refuse_unanswered(block, {});
      made.content = *std::move(text);
      talk_.messages.push_back(std::move(made));
    });
    refuse_unanswered(fields, "content");
  }

  void read_result(field_reader& block) {
    message made{.from = role::tool};
    made.call_id = block.required_string("tool_use_id");
    static_cast<void>(block.boolean("is_error"));
    read_texts(block, "content", made, error_);
    if (pending_.erase(made.call_id) == 0)
      block.fail("tool_use_id",
                 in_quotes(made.call_id) + " is not an unanswered tool_use of the message before");
    talk_.messages.push_back(std::move(made));
  }

  /// An instruction in the middle of the talk; this model reads it as the user's.
  void read_reminder(field_reader& fields) {
    message made{.from = role::user};
    if (fields.require("content") != nullptr) read_texts(fields, "content", made, error_);
    made.content = "<system-reminder>\n" + made.content + "\n</system-reminder>";
    talk_.messages.push_back(std::move(made));
  }

  void read_assistant(field_reader& fields) {
    message made{.from = role::assistant};
    bool thought = false;
    if (const json_array* blocks = read_content(fields, made))
      for_each_block(fields, *blocks, [&](field_reader& block, const std::string& type) {
        if (type == "tool_use") {
          read_call(block, made);
        } else if (type == "thinking") {
          if (std::exchange(thought, true)) made.reasoning += "\n\n";
          read_thought(block, made);
        } else {
          read_said(block, type, made);
        }
      });
    if (!made.calls.empty()) asker_ = talk_.messages.size();
    talk_.messages.push_back(std::move(made));
  }

  void read_thought(field_reader& block, message& made) {
    const std::string thinking = block.required_string("thinking");
    refuse_placeholder(thinking, block, "thinking");
    static_cast<void>(block.string("signature"));
    made.reasoning += thinking;
  }

  void read_call(field_reader& block, message& made) {
    tool_call call{block.required_string("id"), block.required_string("name"), {}};
    refuse_placeholder(call.name, block, "name");
    if (const json_value* input = block.require("input"))
      append_spaced_json(call.arguments, *input);
    refuse_placeholder(call.arguments, block, "input");
    if (!pending_.insert(call.id).second)
      block.fail("id", in_quotes(call.id) + " is used twice in one message");
    made.calls.push_back(std::move(call));
  }

  /// What is neither thought nor a call to answer.
  void read_said(field_reader& block, const std::string& type, message& made) {
    if (type == "server_tool_use" || type == "web_search_tool_result") {
      if (options_.refuse_web_search_in_messages)
        block.fail("type", "is " + in_quotes(type) + ": server tools are not supported here");
      return;
    }
    const auto text = read_shown_block(block, type, made, error_);
    if (!text) return refuse_block(block, type, "assistant");
    if (!made.calls.empty()) block.fail({}, "follows a tool_use; only further tool_use blocks may");
    if (!made.content.empty()) made.content += "\n\n";
    made.content += *text;
  }

  void refuse_block(field_reader& block, const std::string& type, std::string_view from) {
    static constexpr std::string_view users = "text, image, document, tool_reference, tool_result";
    static constexpr std::string_view assistants = "text, thinking, tool_use";
    block.fail("type", "must be one of " + std::string(from == "user" ? users : assistants) +
                           " in a message of the " + std::string(from) + ", not " +
                           in_quotes(type));
  }

  conversation& talk_;
  const conversion_options& options_;
  first_error& error_;
  std::set<std::string> pending_;  // calls without a result so far
  size_t asker_ = 0;               // message that holds them
};

}  // namespace

void read_messages(field_reader& body,
                   conversation& talk,
                   const conversion_options& options,
                   first_error& error) {
  if (body.require("messages") == nullptr) return;
  const json_array* messages = body.array("messages");
  if (messages == nullptr) return;
  if (messages->empty()) return body.fail("messages", "must not be empty");
  message_reader reader(talk, options, error);
  for (size_t i = 0; i < messages->size() && !error; ++i)
    reader.read((*messages)[i], "messages[" + std::to_string(i) + "]");
  if (!error) reader.finish(body);
}

}  // namespace deepinfer::recipe::messages
