#include "actors/node/chat_exchange.hpp"

#include "runtime/recipe/json_value.hpp"

#include <array>
#include <charconv>
#include <span>

namespace deepinfer::chat {
namespace {

using recipe::api_protocol;

void append_number(std::string& out, double value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), written.ptr);
}

void append_turns(std::string& out, std::string_view key, std::span<const turn> talk) {
  out.append(",\"").append(key).append("\":[");
  for (const turn& one : talk) {
    out += &one != talk.data() ? ",{\"role\":" : "{\"role\":";
    recipe::append_json_string(out, one.role);
    out += ",\"content\":";
    recipe::append_json_string(out, one.content);
    out += '}';
  }
  out += ']';
}

/// The talk in the protocol's place for it; Responses and Messages say apart what the system says.
void append_talk(std::string& out, api_protocol protocol, std::span<const turn> talk) {
  if (protocol == api_protocol::chat) return append_turns(out, "messages", talk);
  const bool is_messages = protocol == api_protocol::messages;
  if (!talk.empty() && talk.front().role == "system") {
    out += is_messages ? ",\"system\":" : ",\"instructions\":";
    recipe::append_json_string(out, talk.front().content);
    talk = talk.subspan(1);
  }
  append_turns(out, is_messages ? "messages" : "input", talk);
}

void append_thinking(std::string& out, const request_options& options) {
  if (options.thinking.empty()) return;
  const bool is_on = options.thinking == "on";
  if (options.protocol == api_protocol::responses) {
    out += is_on ? ",\"reasoning\":{\"effort\":\"high\"}" : ",\"reasoning\":{\"effort\":\"none\"}";
    return;
  }
  out += ",\"thinking\":{\"type\":";
  out += is_on ? "\"enabled\"}" : "\"disabled\"}";
}

}  // namespace

std::string_view request_path(api_protocol protocol) {
  switch (protocol) {
    case api_protocol::responses:
      return "/responses";
    case api_protocol::messages:
      return "/messages";
    case api_protocol::chat:
    case api_protocol::completions:
      break;
  }
  return "/chat/completions";
}

std::string request_body(const request_options& options, const std::vector<turn>& talk) {
  std::string out = "{\"model\":";
  recipe::append_json_string(out, options.model);
  append_talk(out, options.protocol, talk);
  append_thinking(out, options);
  if (options.temperature) append_number(out += ",\"temperature\":", *options.temperature);
  if (options.top_p) append_number(out += ",\"top_p\":", *options.top_p);
  if (options.max_tokens) {
    out += options.protocol == api_protocol::responses ? ",\"max_output_tokens\":"
                                                       : ",\"max_tokens\":";
    out += std::to_string(*options.max_tokens);
  }
  if (options.seed) out += ",\"seed\":" + std::to_string(*options.seed);
  out += options.is_streamed ? ",\"stream\":true}" : ",\"stream\":false}";
  return out;
}

}  // namespace deepinfer::chat
