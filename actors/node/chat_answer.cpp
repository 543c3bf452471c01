#include "actors/node/chat_answer.hpp"

#include <utility>

namespace deepinfer::chat {
namespace {

using recipe::api_protocol;
using recipe::json_array;
using recipe::json_object;
using recipe::json_value;

constexpr std::string_view end_of_stream = "[DONE]";

const json_value* find(const json_value* value, std::string_view key) {
  const auto* object = value != nullptr ? value->as<json_object>() : nullptr;
  if (object == nullptr) return nullptr;
  for (const recipe::json_member& member : *object)
    if (member.key == key) return &member.value;
  return nullptr;
}

std::string text(const json_value* value, std::string_view key) {
  const json_value* found = find(value, key);
  const auto* content = found != nullptr ? found->as<std::string>() : nullptr;
  return content != nullptr ? *content : std::string{};
}

const json_array* list_of(const json_value* value, std::string_view key) {
  const json_value* found = find(value, key);
  return found != nullptr ? found->as<json_array>() : nullptr;
}

std::string_view name_of(api_protocol protocol) {
  switch (protocol) {
    case api_protocol::responses:
      return "Responses";
    case api_protocol::messages:
      return "Messages";
    case api_protocol::chat:
    case api_protocol::completions:
      break;
  }
  return "Chat Completions";
}

/// What the server says went wrong, in the body of an answer or the data of an event.
failure told_by(const json_value* error) {
  std::string message = text(error, "message");
  return {error_code::internal,
          message.empty() ? std::string{"the server reports an error"} : std::move(message)};
}

}  // namespace

failure answer::corrupt(const std::string& what) const {
  std::string text{"the server's answer is not "};
  text.append(name_of(protocol_)).append(": ").append(what);
  return {error_code::corrupt, std::move(text)};
}

result<json_value> answer::read(std::string_view json) const {
  auto parsed = recipe::parse_json(json, {max_answer_bytes_, 64, 100'000});
  if (!parsed) return corrupt(parsed.error().detail);
  const json_value* error = find(&*parsed, "error");
  if (error != nullptr && !error->is_null()) return told_by(error);
  return parsed;
}

result<piece> answer::keep(result<piece> part) {
  if (!part) return part;
  if (content_.size() + part->content.size() > max_answer_bytes_)
    return failure{error_code::too_large, "the answer is longer than this command keeps"};
  content_ += part->content;
  return part;
}

/// The other protocols' words for an end, as Chat Completions say it.
void answer::finish(std::string reason) {
  if (reason.empty()) return;
  if (reason == "max_tokens" || reason == "max_output_tokens") reason = "length";
  if (reason == "end_turn" || reason == "stop_sequence" || reason == "completed") reason = "stop";
  finish_reason_ = std::move(reason);
}

result<piece> answer::take_event(std::string_view data) {
  if (is_done_) return piece{};
  if (data == end_of_stream) {
    is_done_ = true;
    return piece{};
  }
  const auto in = read(data);
  if (!in) return in.error();
  switch (protocol_) {
    case api_protocol::responses:
      return keep(take_response_event(*in));
    case api_protocol::messages:
      return keep(take_message_event(*in));
    case api_protocol::chat:
    case api_protocol::completions:
      break;
  }
  return keep(take_choice(*in, "delta"));
}

result<piece> answer::take_whole(std::string_view body) {
  const auto in = read(body);
  if (!in) return in.error();
  auto got = protocol_ == api_protocol::responses  ? take_response(*in)
             : protocol_ == api_protocol::messages ? take_message(*in)
                                                   : take_choice(*in, "message");
  is_done_ = got.has_value();
  return keep(std::move(got));
}

result<piece> answer::take_choice(const json_value& in, std::string_view part) {
  const json_array* list = list_of(&in, "choices");
  if (list == nullptr) return corrupt("an event has no choices");
  if (list->empty()) return piece{};  // some servers end with an event of usage alone
  const json_value& choice = list->front();
  const json_value* content = find(&choice, part);
  finish(text(&choice, "finish_reason"));
  return piece{text(content, "reasoning_content"), text(content, "content")};
}

void answer::finish_response(const json_value* response) {
  std::string reason = text(find(response, "incomplete_details"), "reason");
  finish(reason.empty() ? text(response, "status") : std::move(reason));
}

result<piece> answer::take_response_event(const json_value& in) {
  const std::string type = text(&in, "type");
  if (type.empty()) return corrupt("an event has no type");
  if (type == "response.reasoning_text.delta") return piece{text(&in, "delta"), {}};
  if (type == "response.output_text.delta") return piece{{}, text(&in, "delta")};
  if (type == "error") return told_by(&in);
  const json_value* response = find(&in, "response");
  if (type == "response.failed") return told_by(find(response, "error"));
  if (type == "response.completed" || type == "response.incomplete") {
    finish_response(response);
    is_done_ = true;
  }
  return piece{};
}

result<piece> answer::take_response(const json_value& response) {
  const json_array* output = list_of(&response, "output");
  if (output == nullptr) return corrupt("there is no output");
  if (text(&response, "status") == "failed") return told_by(find(&response, "error"));
  piece out;
  for (const json_value& item : *output) {
    const json_array* parts = list_of(&item, "content");
    if (parts == nullptr) continue;
    std::string& to = text(&item, "type") == "reasoning" ? out.reasoning : out.content;
    for (const json_value& part : *parts) to += text(&part, "text");
  }
  finish_response(&response);
  return out;
}

result<piece> answer::take_message_event(const json_value& in) {
  const std::string type = text(&in, "type");
  if (type.empty()) return corrupt("an event has no type");
  const json_value* delta = find(&in, "delta");
  if (type == "content_block_delta") return piece{text(delta, "thinking"), text(delta, "text")};
  if (type == "message_delta") finish(text(delta, "stop_reason"));
  if (type == "message_stop") is_done_ = true;
  return piece{};
}

result<piece> answer::take_message(const json_value& message) {
  const json_array* blocks = list_of(&message, "content");
  if (blocks == nullptr) return corrupt("there is no content");
  piece out;
  for (const json_value& block : *blocks) {
    out.reasoning += text(&block, "thinking");
    out.content += text(&block, "text");
  }
  finish(text(&message, "stop_reason"));
  return out;
}

}  // namespace deepinfer::chat
