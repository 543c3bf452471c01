#include "runtime/recipe/completions/request.hpp"

#include "runtime/recipe/request_fields.hpp"

#include <utility>

namespace deepinfer::recipe::completions {
namespace {

constexpr int64_t most_alternatives = 20;

raw_prompt read_prompt(field_reader& body) {
  raw_prompt raw;
  if (const json_value* found = body.require("prompt")) {
    // Ids could spell control tokens, and several prompts are several requests.
    if (const auto* text = found->as<std::string>()) {
      raw.text = *text;
    } else {
      body.fail("prompt", "must be one string, not " + std::string(type_name(*found)));
    }
  }
  raw.suffix = body.string("suffix");
  raw.echo = body.boolean("echo").value_or(false);
  if (raw.echo && raw.suffix) body.fail("echo", "cannot be used with `suffix`");
  return raw;
}

generation_options read_generation(field_reader& body, const conversion_options& limits) {
  generation_options options;
  options.max_tokens = read_token_limit(body, "max_tokens");
  read_sampling(body, options);
  options.stop = read_stop(body, "stop");
  std::erase_if(options.stop, [](const std::string& stop) { return stop.empty(); });
  if (const auto n = body.integer("n", {1, limits.max_choices}))
    options.choices = static_cast<uint32_t>(*n);
  if (const auto count = body.integer("logprobs", {0, most_alternatives}))
    options.logprobs = static_cast<uint32_t>(*count);
  static_cast<void>(body.integer("best_of", {1, 1}));
  static_cast<void>(body.real("frequency_penalty", {-2, 2}));
  static_cast<void>(body.real("presence_penalty", {-2, 2}));
  return options;
}

}  // namespace

void read(field_reader& body,
          client_request& request,
          const conversion_options& options,
          first_error& error) {
  request.talk.thinking = false;
  request.raw = read_prompt(body);
  request.generation = read_generation(body, options);
  if (request.raw->echo && request.generation.logprobs)
    body.fail("logprobs", "cannot be used with `echo`: prompts are not scored");
  read_stream(body, request, error);
}

}  // namespace deepinfer::recipe::completions
