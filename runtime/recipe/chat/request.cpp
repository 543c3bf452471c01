#include "runtime/recipe/chat/request.hpp"

#include "runtime/recipe/chat/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe::chat {
namespace {

constexpr int64_t most_alternatives = 20;

/// `n`, `logprobs`, `top_logprobs`: extensions, which the published interface leaves unread.
void read_choices(field_reader& body,
                  generation_options& options,
                  const conversion_options& limits) {
  if (const auto n = body.integer("n", {1, limits.max_choices}))
    options.choices = static_cast<uint32_t>(*n);
  const auto alternatives = body.integer("top_logprobs", {0, most_alternatives});
  if (body.boolean("logprobs").value_or(false)) {
    options.logprobs = static_cast<uint32_t>(alternatives.value_or(0));
  } else if (alternatives.value_or(0) > 0) {
    body.fail("top_logprobs", "needs `logprobs` to be true");
  }
}

generation_options read_generation(field_reader& body, const conversion_options& limits) {
  generation_options options;
  // The older name wins: to the published interface the newer one is an unknown field.
  const auto completion = read_token_limit(body, "max_completion_tokens");
  const auto tokens = read_token_limit(body, "max_tokens");
  options.max_tokens = tokens ? tokens : completion;
  read_sampling(body, options);
  options.stop = read_stop(body, "stop");
  std::erase_if(options.stop, [](const std::string& stop) { return stop.empty(); });
  read_choices(body, options, limits);
  // Read for their types; nothing else depends on them.
  static_cast<void>(body.real("frequency_penalty", {-2, 2}));
  static_cast<void>(body.real("presence_penalty", {-2, 2}));
  static_cast<void>(body.boolean("parallel_tool_calls"));
  return options;
}

}  // namespace

void read(field_reader& body,
          client_request& request,
          const conversion_options& options,
          first_error& error) {
  request.talk.thinking = options.thinking_by_default;
  const auto asked = read_effort(body, "reasoning_effort", chat_efforts);
  apply_thinking(request.talk, read_thinking_switch(body, error), asked);
  request.generation = read_generation(body, options);
  read_stream(body, request, error);
  read_tools(body, request.talk, error);
  read_messages(body, request.talk, error);
  if (const json_value* found = body.find("response_format")) {
    field_reader format(*found, "response_format", error);
    read_format(format, "json_schema", request.talk, request.generation, error);
  }
  if (!error && request.talk.continues_last && request.talk.choice == tool_choice::required)
    body.fail("tool_choice", "cannot be required when the last message is a prefix");
}

}  // namespace deepinfer::recipe::chat
