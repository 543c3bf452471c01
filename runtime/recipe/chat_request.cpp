#include "runtime/recipe/chat_request.hpp"

#include "proto/types/limits.hpp"
#include "runtime/recipe/chat_parts.hpp"
#include "runtime/recipe/field_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace deepinfer::recipe {
namespace {

constexpr int64_t most_u32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t most_i64 = std::numeric_limits<int64_t>::max();

/// What `reasoning_effort` says about thinking: `number` 0 for "none".
struct requested_effort {
  bool given = false;
  uint8_t number = 0;
};

requested_effort read_effort(field_reader& body) {
  static constexpr std::array<std::pair<std::string_view, uint8_t>, 8> words = {{
      {"none", 0},
      {"minimal", effort::low},
      {"low", effort::low},
      {"medium", effort::high},
      {"high", effort::high},
      {"xhigh", effort::high},
      {"max", effort::max},
      {"ultra", effort::max},
  }};
  const json_value* found = body.find("reasoning_effort");
  if (found == nullptr) return {};
  if (const auto* word = found->as<std::string>()) {
    for (const auto& [name, number] : words)
      if (*word == name) return {true, number};
  } else if (const auto* number = found->as<int64_t>(); number && *number >= 1 && *number <= 100) {
    return {true, static_cast<uint8_t>(*number)};
  }
  body.fail("reasoning_effort",
            "must be none, minimal, low, medium, high, xhigh, max, ultra or an integer from 1 to "
            "100");
  return {};
}

/// `thinking` decides; else an effort does; else the default.
void read_thinking(field_reader& body, conversation& talk, first_error& error) {
  const requested_effort asked = read_effort(body);
  if (asked.given) talk.thinking = asked.number != 0;
  if (const json_value* found = body.find("thinking")) {
    field_reader thinking(*found, "thinking", error);
    const std::string type = thinking.required_string("type");
    if (type != "enabled" && type != "adaptive" && type != "disabled")
      thinking.fail("type", "must be enabled, adaptive or disabled");
    static_cast<void>(thinking.integer("budget_tokens", {0, most_u32}));
    talk.thinking = type != "disabled";
  }
  talk.effort = asked.number != 0 ? asked.number : effort::high;
}

std::vector<std::string> read_stop(field_reader& body) {
  const json_value* found = body.find("stop");
  if (found == nullptr) return {};
  std::vector<std::string> stops;
  if (const auto* one = found->as<std::string>()) {
    stops.push_back(*one);
  } else if (const auto* many = found->as<json_array>()) {
    if (many->size() > limits::max_stop_strings)
      body.fail("stop", "must have at most " + std::to_string(limits::max_stop_strings) +
                            " entries, not " + std::to_string(many->size()));
    for (const json_value& item : *many) {
      const auto* text = item.as<std::string>();
      if (text == nullptr) body.fail("stop", "must be a string or an array of strings");
      if (text == nullptr || body.failed()) return {};
      stops.push_back(*text);
    }
  } else {
    body.fail("stop", "must be a string or an array of strings");
  }
  std::erase_if(stops, [](const std::string& stop) { return stop.empty(); });
  return stops;
}

generation_options read_generation(field_reader& body) {
  generation_options options;
  // The older name wins: to the published interface the newer one is an unknown field.
  const auto completion = body.integer("max_completion_tokens", {1, most_u32});
  const auto tokens = body.integer("max_tokens", {1, most_u32});
  if (const auto limit = tokens ? tokens : completion)
    options.max_tokens = static_cast<uint32_t>(*limit);
  if (const auto value = body.real("temperature", {0, 2}))
    options.temperature = static_cast<float>(*value);
  if (const auto value = body.real("top_p", {0, 1, true}))
    // Above 0 as asked: a value below what a float can hold still means "only the best token".
    options.top_p = std::max(static_cast<float>(*value), std::numeric_limits<float>::min());
  if (const auto value = body.integer("top_k", {-1, most_u32}))
    options.top_k = static_cast<uint32_t>(std::max<int64_t>(0, *value));  // -1 also means off
  if (const auto value = body.integer("seed", {0, most_i64}))
    options.seed = static_cast<uint64_t>(*value);
  options.stop = read_stop(body);
  options.ignore_eos = body.boolean("ignore_eos").value_or(false);
  // Read for their types; nothing else depends on them.
  static_cast<void>(body.integer("n", {1, 1}));
  static_cast<void>(body.real("frequency_penalty", {-2, 2}));
  static_cast<void>(body.real("presence_penalty", {-2, 2}));
  static_cast<void>(body.boolean("parallel_tool_calls"));
  return options;
}

void read_stream(field_reader& body, chat_request& request, first_error& error) {
  request.stream = body.boolean("stream").value_or(false);
  request.include_usage = !request.stream;
  const json_value* found = body.find("stream_options");
  if (found == nullptr) return;
  if (!request.stream) body.fail("stream_options", "needs `stream` to be true");
  field_reader options(*found, "stream_options", error);
  request.include_usage = options.boolean("include_usage").value_or(false);
}

}  // namespace

api_result<chat_request> parse_chat_request(std::string_view body_text,
                                            const conversion_options& options) {
  const auto root = parse_json(body_text, options.json);
  if (!root) return bad_request({}, "The request body is " + root.error().detail);
  first_error error;
  field_reader body(*root, {}, error);
  chat_request request;
  request.talk.thinking = options.thinking_by_default;
  request.model = body.required_string("model");
  read_thinking(body, request.talk, error);
  request.generation = read_generation(body);
  read_stream(body, request, error);
  chat::read_tools(body, request.talk, error);
  chat::read_messages(body, request.talk, error);
  chat::read_response_format(body, request.talk, error);
  if (!error && request.talk.continues_last && request.talk.choice == tool_choice::required)
    body.fail("tool_choice", "cannot be required when the last message is a prefix");
  if (error) return *std::move(error);
  return request;
}

}  // namespace deepinfer::recipe
