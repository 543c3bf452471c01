#include "runtime/recipe/responses/items.hpp"

namespace deepinfer::recipe::responses {
namespace {

std::string_view id_prefix(output_item::kind what) {
  switch (what) {
    case output_item::kind::reasoning:
      return "rs_";
    case output_item::kind::message:
      return "msg_";
    case output_item::kind::function_call:
      return "fc_";
    case output_item::kind::custom_call:
      break;
  }
  return "ctc_";
}

std::string_view status_word(output_item::state status) {
  switch (status) {
    case output_item::state::in_progress:
      return "in_progress";
    case output_item::state::completed:
      return "completed";
    case output_item::state::incomplete:
      break;
  }
  return "incomplete";
}

void write_content(json_writer& json, const output_item& item) {
  json.key("content");
  json.begin_array();
  if (item.status != output_item::state::in_progress) {
    json.begin_object();
    write_part(json, item);
    json.end_object();
  }
  json.end_array();
}

void write_call(json_writer& json, const output_item& item) {
  json.text("call_id", item.call_id);
  json.text("name", item.name);
  if (item.what == output_item::kind::custom_call) return json.text("input", item.text);
  if (!item.name_space.empty()) json.text("namespace", item.name_space);
  json.text("arguments", item.text);
}

void write_empty_array(json_writer& json, std::string_view name) {
  json.key(name);
  json.begin_array();
  json.end_array();
}

}  // namespace

output_item make_item(output_item::kind what, size_t index, std::string_view response) {
  output_item item;
  item.what = what;
  item.index = index;
  item.id.append(id_prefix(what)).append(response).append("_").append(std::to_string(index));
  return item;
}

output_item make_call(output_item::kind what,
                      size_t index,
                      std::string_view response,
                      std::string_view called,
                      std::string_view call) {
  constexpr std::string_view mark = "::";
  output_item item = make_item(what, index, response);
  item.call_id.append("call_").append(response).append("_").append(call);
  const size_t at = what == output_item::kind::function_call ? called.find(mark) : called.npos;
  if (at != called.npos) item.name_space = called.substr(0, at);
  item.name = at == called.npos ? called : called.substr(at + mark.size());
  return item;
}

void write_item(json_writer& json, const output_item& item) {
  const auto head = [&json, &item](std::string_view type) {
    json.text("type", type);
    json.text("id", item.id);
    json.text("status", status_word(item.status));
  };
  switch (item.what) {
    case output_item::kind::reasoning:
      head("reasoning");
      write_content(json, item);
      return write_empty_array(json, "summary");
    case output_item::kind::message:
      head("message");
      json.text("role", "assistant");
      json.text("phase", item.is_commentary ? "commentary" : "final_answer");
      return write_content(json, item);
    case output_item::kind::function_call:
      head("function_call");
      return write_call(json, item);
    case output_item::kind::custom_call:
      head("custom_tool_call");
      return write_call(json, item);
  }
}

void write_part(json_writer& json, const output_item& item) {
  if (item.what == output_item::kind::reasoning) {
    json.text("type", "reasoning_text");
  } else {
    json.text("type", "output_text");
    write_empty_array(json, "annotations");
    write_empty_array(json, "logprobs");
  }
  json.text("text", item.text);
}

void write_usage(json_writer& json, const token_usage& usage) {
  json.key("usage");
  json.begin_object();
  json.number("input_tokens", usage.prompt_tokens);
  json.key("input_tokens_details");
  json.begin_object();
  json.number("cached_tokens", usage.cached_tokens);
  json.end_object();
  json.number("output_tokens", usage.completion_tokens);
  json.key("output_tokens_details");
  json.begin_object();
  json.number("reasoning_tokens", usage.reasoning_tokens.value_or(0));
  json.end_object();
  json.number("total_tokens", uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.end_object();
}

}  // namespace deepinfer::recipe::responses
