#include "runtime/recipe/request_fields.hpp"

#include "proto/types/limits.hpp"
#include "runtime/recipe/tool_schema.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace deepinfer::recipe {
namespace {

constexpr int64_t most_u32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t most_i64 = std::numeric_limits<int64_t>::max();
constexpr size_t max_image_url_bytes = 8192;

constexpr std::array<effort_word, 8> efforts = {{
    {"none", 0},
    {"minimal", effort::low},
    {"low", effort::low},
    {"medium", effort::high},
    {"high", effort::high},
    {"xhigh", effort::high},
    {"max", effort::max},
    {"ultra", effort::max},
}};

}  // namespace

const std::span<const effort_word> chat_efforts{efforts};
const std::span<const effort_word> messages_efforts = chat_efforts.subspan(2);

std::optional<uint8_t> read_effort(field_reader& fields,
                                   std::string_view key,
                                   std::span<const effort_word> words) {
  const json_value* found = fields.find(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* word = found->as<std::string>()) {
    for (const auto& [name, number] : words)
      if (*word == name) return number;
  } else if (const auto* number = found->as<int64_t>(); number && *number >= 1 && *number <= 100) {
    return static_cast<uint8_t>(*number);
  }
  std::string why = "must be ";
  for (const auto& [name, number] : words) why.append(name).append(", ");
  fields.fail(key, why + "or an integer from 1 to 100");
  return std::nullopt;
}

std::optional<bool> read_thinking_switch(field_reader& body, first_error& error) {
  const json_value* found = body.find("thinking");
  if (found == nullptr) return std::nullopt;
  field_reader thinking(*found, "thinking", error);
  const std::string type = thinking.required_string("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    thinking.fail("type", "must be enabled, adaptive or disabled");
  static_cast<void>(thinking.integer("budget_tokens", {0, most_u32}));
  return type != "disabled";
}

void apply_thinking(conversation& talk,
                    std::optional<bool> thinking,
                    std::optional<uint8_t> asked) {
  if (asked) talk.thinking = *asked != 0;
  if (thinking) talk.thinking = *thinking;
  talk.effort = asked.value_or(0) != 0 ? *asked : effort::high;
}

void read_sampling(field_reader& body, generation_options& options) {
  if (const auto value = body.real("temperature", {0, 2}))
    options.temperature = static_cast<float>(*value);
  if (const auto value = body.real("top_p", {0, 1, true}))
    // Above 0 as asked: a value below what a float can hold still means "only the best token".
    options.top_p = std::max(static_cast<float>(*value), std::numeric_limits<float>::min());
  if (const auto value = body.integer("top_k", {-1, most_u32}))
    options.top_k = static_cast<uint32_t>(std::max<int64_t>(0, *value));  // -1 also means off
  if (const auto value = body.integer("seed", {0, most_i64}))
    options.seed = static_cast<uint64_t>(*value);
  options.ignore_eos = body.boolean("ignore_eos").value_or(false);
}

std::optional<uint32_t> read_token_limit(field_reader& body, std::string_view key) {
  const auto limit = body.integer(key, {1, most_u32});
  if (!limit) return std::nullopt;
  return static_cast<uint32_t>(*limit);
}

std::vector<std::string> read_stop(field_reader& body, std::string_view key) {
  const json_value* found = body.find(key);
  if (found == nullptr) return {};
  std::vector<std::string> stops;
  if (const auto* one = found->as<std::string>()) {
    stops.push_back(*one);
  } else if (const auto* many = found->as<json_array>()) {
    if (many->size() > limits::max_stop_strings)
      body.fail(key, "must have at most " + std::to_string(limits::max_stop_strings) +
                         " entries, not " + std::to_string(many->size()));
    for (const json_value& item : *many) {
      const auto* text = item.as<std::string>();
      if (text == nullptr) body.fail(key, "must be a string or an array of strings");
      if (text == nullptr || body.failed()) return {};
      stops.push_back(*text);
    }
  } else {
    body.fail(key, "must be a string or an array of strings");
  }
  for (const std::string& stop : stops)
    if (stop.size() > limits::max_stop_bytes)
      body.fail(key, "has an entry of " + std::to_string(stop.size()) + " bytes, more than " +
                         std::to_string(limits::max_stop_bytes));
  return stops;
}

void read_stream(field_reader& body, client_request& request, first_error& error) {
  request.stream = body.boolean("stream").value_or(false);
  request.include_usage = !request.stream;
  const json_value* found = body.find("stream_options");
  if (found == nullptr) return;
  if (!request.stream) body.fail("stream_options", "needs `stream` to be true");
  field_reader options(*found, "stream_options", error);
  request.include_usage = options.boolean("include_usage").value_or(false);
}

void refuse_placeholder(std::string_view text, field_reader& owner, std::string_view key) {
  if (text.find(image_placeholder) != std::string_view::npos)
    owner.fail(key, "must not contain " + std::string(image_placeholder));
}

image_detail read_detail(field_reader& fields) {
  static constexpr std::array<std::pair<std::string_view, image_detail>, 4> details = {{
      {"low", image_detail::low},
      {"high", image_detail::high},
      {"original", image_detail::original},
      {"auto", image_detail::automatic},
  }};
  const auto asked = fields.string("detail");
  if (!asked) return image_detail::high;
  for (const auto& [name, detail] : details)
    if (name == *asked) return detail;
  fields.fail("detail", "must be low, high, original or auto");
  return image_detail::high;
}

bool is_external_url(std::string_view url) {
  return url.size() >= 4 && (url[0] | 0x20) == 'h' && (url[1] | 0x20) == 't' &&
         (url[2] | 0x20) == 't' && (url[3] | 0x20) == 'p';
}

void check_image_url(field_reader& fields, std::string_view key, std::string_view url) {
  if (is_external_url(url)) {
    if (url.size() > max_image_url_bytes)
      fields.fail(key, "is longer than " + std::to_string(max_image_url_bytes) + " bytes");
  } else if (url.find("base64,") == std::string_view::npos) {
    fields.fail(key, "must be an http(s) URL or a data URL with base64 content");
  }
  refuse_placeholder(url, fields, key);
}

tool_definition read_function(field_reader& function, std::string_view schema_key) {
  tool_definition tool;
  tool.name = function.required_string("name");
  if (!is_tool_name(tool.name))
    function.fail("name", "must be 1 to 128 ASCII letters, digits, underscores or hyphens");
  tool.description = function.string("description").value_or(std::string{});
  tool.strict = function.boolean("strict").value_or(false);
  refuse_placeholder(tool.description, function, "description");
  if (const json_value* parameters = function.find(schema_key)) {
    if (const auto complaint = tool_schema_complaint(*parameters))
      function.fail(schema_key, *complaint);
    tool.parameters.clear();
    append_spaced_json(tool.parameters, *parameters);
    refuse_placeholder(tool.parameters, function, schema_key);
  }
  return tool;
}

void choose_tool(conversation& talk,
                 std::string_view name,
                 field_reader& body,
                 std::string_view field) {
  std::erase_if(talk.tools, [name](const tool_definition& tool) { return tool.name != name; });
  if (talk.tools.empty())
    body.fail(field, "names the tool " + in_quotes(name) + ", which `tools` does not declare");
  talk.choice = tool_choice::required;
}

void choose_by_word(conversation& talk, std::string_view word, field_reader& body) {
  if (word == "none") {
    talk.choice = tool_choice::none;
  } else if (word == "required") {
    talk.choice = tool_choice::required;
  } else if (word != "auto") {
    body.fail("tool_choice", "must be none, auto, required or a named tool");
  }
}

void check_forced_call(conversation& talk, field_reader& body, std::string_view without) {
  if (talk.choice != tool_choice::required) return;
  if (talk.tools.empty()) {
    talk.choice = tool_choice::automatic;
  } else if (talk.thinking) {
    body.fail("tool_choice", "can force a call only with " + std::string(without));
  }
}

bool mentions_json(const conversation& talk) {
  const auto mentions = [](std::string_view text) {
    for (size_t i = 0; i + 4 <= text.size(); ++i)
      if ((text[i] | 0x20) == 'j' && (text[i + 1] | 0x20) == 's' && (text[i + 2] | 0x20) == 'o' &&
          (text[i + 3] | 0x20) == 'n')
        return true;
    return false;
  };
  return std::any_of(talk.messages.begin(), talk.messages.end(),
                     [&mentions](const message& m) { return mentions(m.content); });
}

void read_format(field_reader& format,
                 std::string_view schema_key,
                 conversation& talk,
                 generation_options& options,
                 first_error& error) {
  const std::string type = format.required_string("type");
  options.constraint.field = format.path({});
  if (type == "json_object") {
    talk.format = response_format::json;
    if (!mentions_json(talk))
      format.fail("type", "json_object needs the word \"json\" in some message");
  } else if (type == "json_schema") {
    options.constraint.what = output_constraint::kind::json_schema;
    const json_value* inner = schema_key.empty() ? nullptr : format.require(schema_key);
    if (!schema_key.empty() && inner == nullptr) return;
    std::optional<field_reader> nested;
    if (inner != nullptr) nested.emplace(*inner, format.path(schema_key), error);
    field_reader& fields = nested ? *nested : format;
    options.constraint.name = fields.string("name").value_or(std::string{});
    if (const json_value* schema = fields.find("schema"))
      append_spaced_json(options.constraint.text, *schema);
    static_cast<void>(fields.boolean("strict"));
  } else if (type == "regex") {
    options.constraint.what = output_constraint::kind::regex;
    options.constraint.text = format.required_string("regex");
  } else if (type != "text") {
    format.fail("type", "must be text, json_object, json_schema or regex");
  }
}

}  // namespace deepinfer::recipe
