#include "runtime/recipe/detect_protocol.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace deepinfer::recipe {
namespace {

constexpr std::array<api_protocol, 4> protocols = {api_protocol::chat, api_protocol::completions,
                                                   api_protocol::responses, api_protocol::messages};

struct mark {
  std::string_view field;
  api_protocol of;
};

/// Fields of the body that only one protocol has. Not all that it has: `parallel_tool_calls`, for
/// one, is a field of two.
constexpr auto body_marks = std::to_array<mark>({
    {"input", api_protocol::responses},
    {"instructions", api_protocol::responses},
    {"max_output_tokens", api_protocol::responses},
    {"reasoning", api_protocol::responses},
    {"text", api_protocol::responses},
    {"previous_response_id", api_protocol::responses},
    {"prompt", api_protocol::completions},
    {"suffix", api_protocol::completions},
    {"echo", api_protocol::completions},
    {"best_of", api_protocol::completions},
    {"system", api_protocol::messages},
    {"stop_sequences", api_protocol::messages},
    {"output_config", api_protocol::messages},
    {"anthropic_version", api_protocol::messages},
    {"reasoning_effort", api_protocol::chat},
    {"response_format", api_protocol::chat},
    {"max_completion_tokens", api_protocol::chat},
    {"functions", api_protocol::chat},
    {"function_call", api_protocol::chat},
    {"modalities", api_protocol::chat},
    {"prediction", api_protocol::chat},
    {"logit_bias", api_protocol::chat},
    {"web_search_options", api_protocol::chat},
});

constexpr auto tool_marks = std::to_array<mark>({
    {"function", api_protocol::chat},
    {"parameters", api_protocol::responses},
    {"input_schema", api_protocol::messages},
});

constexpr auto message_marks = std::to_array<mark>({
    {"tool_calls", api_protocol::chat},
    {"tool_call_id", api_protocol::chat},
    {"reasoning_content", api_protocol::chat},
    {"prefix", api_protocol::chat},
    {"call_id", api_protocol::responses},
});

/// `type` of a block in a message's `content`.
constexpr auto block_marks = std::to_array<mark>({
    {"image_url", api_protocol::chat},
    {"file", api_protocol::chat},
    {"input_text", api_protocol::responses},
    {"output_text", api_protocol::responses},
    {"input_image", api_protocol::responses},
    {"tool_use", api_protocol::messages},
    {"tool_result", api_protocol::messages},
    {"thinking", api_protocol::messages},
    {"document", api_protocol::messages},
    {"image", api_protocol::messages},
});

/// Collects what was found until two finds contradict each other.
class evidence {
public:
  template <size_t Count>
  void look(std::string_view field, const std::array<mark, Count>& marks) {
    const auto found = std::find_if(marks.begin(), marks.end(),
                                    [field](const mark& m) { return m.field == field; });
    if (found == marks.end() || other_) return;
    if (!first_) {
      first_ = *found;
    } else if (first_->of != found->of) {
      other_ = *found;
    }
  }

  [[nodiscard]] const std::optional<mark>& first() const { return first_; }
  [[nodiscard]] const std::optional<mark>& other() const { return other_; }

private:
  std::optional<mark> first_;
  std::optional<mark> other_;
};

const json_value* find(const json_value& object, std::string_view key) {
  const auto* members = object.as<json_object>();
  if (members == nullptr) return nullptr;
  for (const json_member& one : *members)
    if (one.key == key && !one.value.is_null()) return &one.value;
  return nullptr;
}

template <size_t Count>
void look_at_fields(const json_value& object,
                    const std::array<mark, Count>& marks,
                    evidence& found) {
  const auto* members = object.as<json_object>();
  if (members == nullptr) return;
  for (const json_member& one : *members)
    if (!one.value.is_null()) found.look(one.key, marks);
}

void look_at_messages(const json_value& body, evidence& found) {
  const json_value* list = find(body, "messages");
  const auto* messages = list == nullptr ? nullptr : list->as<json_array>();
  if (messages == nullptr) return;
  for (const json_value& one : *messages) {
    look_at_fields(one, message_marks, found);
    const json_value* content = find(one, "content");
    const auto* blocks = content == nullptr ? nullptr : content->as<json_array>();
    if (blocks == nullptr) continue;
    for (const json_value& block : *blocks) {
      const json_value* type = find(block, "type");
      if (type == nullptr) continue;
      if (const auto* name = type->as<std::string>()) found.look(*name, block_marks);
    }
  }
}

void look_at_tools(const json_value& body, evidence& found) {
  const json_value* list = find(body, "tools");
  const auto* tools = list == nullptr ? nullptr : list->as<json_array>();
  if (tools == nullptr) return;
  for (const json_value& one : *tools) look_at_fields(one, tool_marks, found);
}

api_error unclear(std::string_view why) {
  api_error error = bad_request({}, std::string("The protocol is not clear: ").append(why));
  error.code = unclear_protocol;
  return error;
}

}  // namespace

std::optional<api_protocol> find_protocol(std::string_view name) {
  for (const api_protocol one : protocols)
    if (to_string(one) == name) return one;
  return std::nullopt;
}

api_result<api_protocol> detect_protocol(std::string_view body, const json_limits& limits) {
  const auto root = parse_json(body, limits);
  if (!root) return bad_request({}, "The request body is " + root.error().detail);
  if (root->as<json_object>() == nullptr)
    return bad_request({}, "The request body must be an object");
  evidence found;
  look_at_fields(*root, body_marks, found);
  look_at_messages(*root, found);
  look_at_tools(*root, found);
  if (found.other()) {
    const auto said = [](const mark& m) {
      std::string text(1, '`');
      return text.append(m.field).append("` is of ").append(to_string(m.of));
    };
    return unclear(said(*found.first()) + ", but " + said(*found.other()));
  }
  if (found.first()) return found.first()->of;
  if (find(*root, "messages") != nullptr) return api_protocol::chat;
  return unclear("there is neither `messages` nor `input` nor `prompt`");
}

}  // namespace deepinfer::recipe
