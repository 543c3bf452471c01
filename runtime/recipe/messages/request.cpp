#include "runtime/recipe/messages/request.hpp"

#include "runtime/recipe/messages/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <utility>

namespace deepinfer::recipe::messages {
namespace {

/// Unlike the other protocols: always an array, and nothing in it is empty.
std::vector<std::string> read_stop_sequences(field_reader& body) {
  constexpr std::string_view key = "stop_sequences";
  if (body.array(key) == nullptr) return {};
  std::vector<std::string> stops = read_stop(body, key);
  for (size_t i = 0; i < stops.size(); ++i)
    if (stops[i].empty()) body.fail("stop_sequences[" + std::to_string(i) + "]", "is empty");
  return stops;
}

generation_options read_generation(field_reader& body) {
  generation_options options;
  options.max_tokens = read_token_limit(body, "max_tokens");
  read_sampling(body, options);
  options.stop = read_stop_sequences(body);
  return options;
}

/// A format of the answer; this protocol knows one beside plain text.
void read_schema_format(field_reader& owner,
                        std::string_view key,
                        client_request& request,
                        first_error& error) {
  const json_value* found = owner.find(key);
  if (found == nullptr) return;
  field_reader format(*found, owner.path(key), error);
  if (format.required_string("type") != "json_schema") format.fail("type", "must be json_schema");
  if (!error && format.require("schema") != nullptr)
    read_format(format, {}, request.talk, request.generation, error);
}

/// `output_config` with `effort` and `format`, and the older place of the latter.
std::optional<uint8_t> read_output(field_reader& body,
                                   client_request& request,
                                   first_error& error) {
  read_schema_format(body, "output_format", request, error);
  const json_value* found = body.find("output_config");
  if (found == nullptr) return std::nullopt;
  field_reader config(*found, "output_config", error);
  read_schema_format(config, "format", request, error);
  return read_effort(config, "effort", messages_efforts);
}

void read_system(field_reader& body, conversation& talk, first_error& error) {
  if (body.find("system") == nullptr) return;
  message made{.from = role::system};
  read_texts(body, "system", made, error);
  talk.messages.push_back(std::move(made));
}

}  // namespace

void read(field_reader& body,
          client_request& request,
          const conversion_options& options,
          first_error& error) {
  request.generation = read_generation(body);
  request.stream = body.boolean("stream").value_or(false);
  request.talk.thinking = options.thinking_by_default;
  const auto asked = read_output(body, request, error);
  apply_thinking(request.talk, read_thinking_switch(body, error), asked);
  read_tools(body, request, options, error);
  read_system(body, request.talk, error);
  read_messages(body, request.talk, options, error);
}

}  // namespace deepinfer::recipe::messages
