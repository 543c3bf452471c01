#include "actors/node/chat_exchange.hpp"

#include "runtime/recipe/json_value.hpp"

#include <array>
#include <charconv>

namespace deepinfer::chat {
namespace {

using recipe::json_array;
using recipe::json_object;
using recipe::json_value;

constexpr std::string_view end_of_stream = "[DONE]";

void append_number(std::string& out, double value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), written.ptr);
}

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

failure corrupt(const std::string& what) {
  return {error_code::corrupt, "the server's answer is not Chat Completions: " + what};
}

}  // namespace

std::string request_body(const request_options& options, const std::vector<turn>& talk) {
  std::string out = "{\"model\":";
  recipe::append_json_string(out, options.model);
  out += ",\"messages\":[";
  for (size_t i = 0; i < talk.size(); ++i) {
    out += i > 0 ? ",{\"role\":" : "{\"role\":";
    recipe::append_json_string(out, talk[i].role);
    out += ",\"content\":";
    recipe::append_json_string(out, talk[i].content);
    out += '}';
  }
  out += ']';
  if (!options.thinking.empty()) {
    out += ",\"thinking\":{\"type\":";
    out += options.thinking == "on" ? "\"enabled\"}" : "\"disabled\"}";
  }
  if (options.temperature) append_number(out += ",\"temperature\":", *options.temperature);
  if (options.top_p) append_number(out += ",\"top_p\":", *options.top_p);
  if (options.max_tokens) out += ",\"max_tokens\":" + std::to_string(*options.max_tokens);
  if (options.seed) out += ",\"seed\":" + std::to_string(*options.seed);
  out += options.is_streamed ? ",\"stream\":true}" : ",\"stream\":false}";
  return out;
}

result<piece> answer::take_event(std::string_view data) {
  if (is_done_) return piece{};
  if (data == end_of_stream) {
    is_done_ = true;
    return piece{};
  }
  return take_choice(data, "delta");
}

result<piece> answer::take_whole(std::string_view body) {
  auto got = take_choice(body, "message");
  is_done_ = got.has_value();
  return got;
}

result<piece> answer::take_choice(std::string_view json, std::string_view part) {
  const auto parsed = recipe::parse_json(json, {max_answer_bytes_, 64, 100'000});
  if (!parsed) return corrupt(parsed.error().detail);
  if (const json_value* error = find(&*parsed, "error"); error != nullptr && !error->is_null()) {
    const std::string message = text(error, "message");
    return failure{error_code::internal, message.empty() ? "the server reports an error" : message};
  }
  const json_value* choices = find(&*parsed, "choices");
  const auto* list = choices != nullptr ? choices->as<json_array>() : nullptr;
  if (list == nullptr) return corrupt("an event has no choices");
  if (list->empty()) return piece{};  // some servers end with an event of usage alone
  const json_value& choice = list->front();
  const json_value* content = find(&choice, part);
  piece out{text(content, "reasoning_content"), text(content, "content")};
  if (std::string reason = text(&choice, "finish_reason"); !reason.empty())
    finish_reason_ = std::move(reason);
  if (content_.size() + out.content.size() > max_answer_bytes_)
    return failure{error_code::too_large, "the answer is longer than this command keeps"};
  content_ += out.content;
  return out;
}

}  // namespace deepinfer::chat
