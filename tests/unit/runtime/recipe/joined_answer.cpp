#include "tests/unit/runtime/recipe/joined_answer.hpp"

#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <cstdint>

namespace deepinfer::test {
namespace {

using recipe::api_protocol;
using recipe::json_array;
using recipe::json_value;

std::string text_or_none(const json_value& object, std::string_view key) {
  const json_value* found = find_member(object, key);
  const std::string* text = found == nullptr ? nullptr : found->as<std::string>();
  return text == nullptr ? std::string{} : *text;
}

const json_array& array_member(const json_value& object, std::string_view key) {
  const auto* items = member(object, key).as<json_array>();
  REQUIRE(items != nullptr);
  return *items;
}

size_t index_member(const json_value& object, std::string_view key) {
  const auto* number = member(object, key).as<int64_t>();
  REQUIRE(number != nullptr);
  return static_cast<size_t>(*number);
}

/// The JSON of each frame; the end mark of the protocols that have one must be there, and last.
std::vector<json_value> frames_of(api_protocol protocol, std::string_view stream) {
  std::vector<json_value> frames;
  const bool has_end = protocol == api_protocol::chat || protocol == api_protocol::completions;
  constexpr std::string_view end_mark = "data: [DONE]\n\n";
  REQUIRE(stream.ends_with(end_mark) == has_end);
  if (has_end) stream.remove_suffix(end_mark.size());
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    std::string_view frame = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    std::string_view event;
    if (!has_end) {
      REQUIRE(frame.starts_with("event: "));
      event = frame.substr(7, frame.find('\n') - 7);
      frame.remove_prefix(event.size() + 8);
    }
    REQUIRE(frame.starts_with("data: "));
    frames.push_back(read_json(frame.substr(6)));
    if (!has_end) REQUIRE(string_member(frames.back(), "type") == event);
  }
  return frames;
}

void take_usage(joined_answer& into, const json_value& from) {
  const json_value* usage = find_member(from, "usage");
  if (usage != nullptr && !usage->is_null()) into.usage = spaced(*usage);
}

// --- Chat Completions and Completions ---

const json_value& only_choice(const json_value& body) {
  const json_array& choices = array_member(body, "choices");
  REQUIRE(choices.size() == 1);
  return choices.front();
}

void take_chat_calls(joined_answer& into, const json_value& delta) {
  const json_value* calls = find_member(delta, "tool_calls");
  if (calls == nullptr) return;
  for (const json_value& call : *calls->as<json_array>()) {
    const json_value& function = member(call, "function");
    if (index_member(call, "index") == into.calls.size())
      into.calls.push_back({string_member(call, "id"), string_member(function, "name"), {}});
    REQUIRE(index_member(call, "index") + 1 == into.calls.size());
    into.calls.back().arguments += string_member(function, "arguments");
  }
}

joined_answer join_chat(const std::vector<json_value>& frames) {
  joined_answer made;
  for (const json_value& frame : frames) {
    const json_value& choice = only_choice(frame);
    const json_value& delta = member(choice, "delta");
    made.reasoning += text_or_none(delta, "reasoning_content");
    made.text += text_or_none(delta, "content");
    take_chat_calls(made, delta);
    made.finish += text_or_none(choice, "finish_reason");
    take_usage(made, frame);
  }
  return made;
}

joined_answer read_chat(const json_value& body) {
  joined_answer made;
  const json_value& choice = only_choice(body);
  const json_value& said = member(choice, "message");
  made.reasoning = text_or_none(said, "reasoning_content");
  made.text = text_or_none(said, "content");
  if (find_member(said, "tool_calls") != nullptr)
    for (const json_value& call : array_member(said, "tool_calls")) {
      const json_value& function = member(call, "function");
      made.calls.push_back({string_member(call, "id"), string_member(function, "name"),
                            string_member(function, "arguments")});
    }
  made.finish = string_member(choice, "finish_reason");
  take_usage(made, body);
  return made;
}

joined_answer join_completions(const std::vector<json_value>& frames) {
  joined_answer made;
  for (const json_value& frame : frames) {
    made.text += string_member(only_choice(frame), "text");
    made.finish += text_or_none(only_choice(frame), "finish_reason");
    take_usage(made, frame);
  }
  return made;
}

// --- Messages ---

void take_stop(joined_answer& into, const json_value& from) {
  into.finish = string_member(from, "stop_reason") + "/" + text_or_none(from, "stop_sequence");
}

void take_block_delta(joined_answer& into, const json_value& delta) {
  const std::string type = string_member(delta, "type");
  if (type == "thinking_delta") into.reasoning += string_member(delta, "thinking");
  if (type == "text_delta") into.text += string_member(delta, "text");
  if (type != "input_json_delta") return;
  REQUIRE_FALSE(into.calls.empty());
  into.calls.back().arguments += string_member(delta, "partial_json");
}

joined_answer join_messages(const std::vector<json_value>& events) {
  joined_answer made;
  size_t blocks = 0;
  bool open = false;
  for (const json_value& event : events) {
    const std::string type = string_member(event, "type");
    if (type.starts_with("content_block")) {
      REQUIRE(open == (type != "content_block_start"));
      REQUIRE(index_member(event, "index") == blocks);
    }
    if (type == "content_block_start") {
      open = true;
      const json_value& block = member(event, "content_block");
      if (string_member(block, "type") == "tool_use")
        made.calls.push_back({string_member(block, "id"), string_member(block, "name"), {}});
    } else if (type == "content_block_delta") {
      take_block_delta(made, member(event, "delta"));
    } else if (type == "content_block_stop") {
      open = false;
      ++blocks;
    } else if (type == "message_delta") {
      REQUIRE_FALSE(open);
      take_stop(made, member(event, "delta"));
      take_usage(made, event);
    }
  }
  REQUIRE(string_member(events.back(), "type") == "message_stop");
  return made;
}

joined_answer read_messages(const json_value& body) {
  joined_answer made;
  for (const json_value& block : array_member(body, "content")) {
    const std::string type = string_member(block, "type");
    if (type == "thinking") made.reasoning += string_member(block, "thinking");
    if (type == "text") made.text += string_member(block, "text");
    if (type == "tool_use")
      made.calls.push_back({string_member(block, "id"), string_member(block, "name"),
                            spaced(member(block, "input"))});
  }
  take_stop(made, body);
  take_usage(made, body);
  return made;
}

// --- Responses ---

void take_item(joined_answer& into, const json_value& item) {
  const std::string type = string_member(item, "type");
  if (type == "reasoning" || type == "message") {
    std::string& text = type == "reasoning" ? into.reasoning : into.text;
    for (const json_value& part : array_member(item, "content"))
      text += string_member(part, "text");
    return;
  }
  const std::string space = text_or_none(item, "namespace");
  into.calls.push_back({string_member(item, "call_id"),
                        (space.empty() ? "" : space + "::") + string_member(item, "name"),
                        string_member(item, type == "function_call" ? "arguments" : "input")});
}

joined_answer read_responses(const json_value& body) {
  joined_answer made;
  for (const json_value& item : array_member(body, "output")) take_item(made, item);
  const json_value& details = member(body, "incomplete_details");
  made.finish = string_member(body, "status") + "/" +
                (details.is_null() ? "" : string_member(details, "reason"));
  take_usage(made, body);
  return made;
}

joined_answer join_responses(const std::vector<json_value>& events) {
  joined_answer made;
  std::string deltas;  // of the open item
  for (size_t i = 0; i < events.size(); ++i) {
    const json_value& event = events[i];
    const std::string type = string_member(event, "type");
    REQUIRE(index_member(event, "sequence_number") == i);
    if (type == "response.output_item.added") deltas.clear();
    if (type.ends_with(".delta")) deltas += string_member(event, "delta");
    if (type == "response.output_item.done") {
      const json_value& item = member(event, "item");
      joined_answer alone;
      take_item(alone, item);
      // What the item holds in the end is what came in parts.
      CHECK(deltas ==
            alone.reasoning + alone.text + (alone.calls.empty() ? "" : alone.calls[0].arguments));
      take_item(made, item);
    }
  }
  const joined_answer told = read_responses(member(events.back(), "response"));
  made.finish = told.finish;
  made.usage = told.usage;
  CHECK(told == made);
  return made;
}

}  // namespace

joined_answer join_stream(api_protocol protocol, std::string_view stream) {
  const std::vector<json_value> frames = frames_of(protocol, stream);
  REQUIRE_FALSE(frames.empty());
  switch (protocol) {
    case api_protocol::chat:
      return join_chat(frames);
    case api_protocol::completions:
      return join_completions(frames);
    case api_protocol::responses:
      return join_responses(frames);
    case api_protocol::messages:
      return join_messages(frames);
  }
  return {};
}

joined_answer read_body(api_protocol protocol, std::string_view body) {
  const json_value parsed = read_json(body);
  switch (protocol) {
    case api_protocol::chat:
      return read_chat(parsed);
    case api_protocol::completions:
      return join_completions({parsed});
    case api_protocol::responses:
      return read_responses(parsed);
    case api_protocol::messages:
      return read_messages(parsed);
  }
  return {};
}

joined_answer as_in_body(api_protocol protocol, joined_answer answer) {
  if (protocol != api_protocol::messages) return answer;
  for (joined_answer::call& call : answer.calls) {
    const auto parsed = recipe::parse_json(call.arguments);
    const bool object = parsed && parsed->as<recipe::json_object>() != nullptr;
    call.arguments = object ? spaced(*parsed) : "{}";
  }
  return answer;
}

}  // namespace deepinfer::test
