#include "runtime/recipe/prepare.hpp"

#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/field_reader.hpp"

#include <algorithm>

namespace deepinfer::recipe {
namespace {

constexpr float least_top_p_thinking = 0.95F;

/// What asks for more than words can be refused only here: the deployment knows what it enforces.
std::optional<api_error> refuse_constraint(const output_constraint& constraint) {
  std::string begin(1, '`');
  begin.append(constraint.field).append("` asks for ");
  switch (constraint.what) {
    case output_constraint::kind::none:
      return std::nullopt;
    case output_constraint::kind::json_schema:
      return bad_request(constraint.field,
                         begin +
                             "a `json_schema`, which cannot be enforced by this deployment "
                             "yet; leave it out and describe the schema in a message");
    case output_constraint::kind::regex:
      break;
  }
  return bad_request(constraint.field, begin +
                                           "a `regex`, which cannot be enforced by this "
                                           "deployment yet; use text");
}

/// In time linear in the text, whatever the number of images.
void replace_images(conversation& talk) {
  constexpr std::string_view instead = "[Unsupported Image]";
  for (message& one : talk.messages) {
    if (one.images.empty()) continue;
    std::string replaced;
    size_t done = 0;
    for (size_t at = 0; (at = one.content.find(image_placeholder, done)) != std::string::npos;) {
      replaced.append(one.content, done, at - done).append(instead);
      done = at + image_placeholder.size();
    }
    one.content = replaced.append(one.content, done);
    one.images.clear();
  }
}

sampling_choice choose_sampling(const client_request& request, const recipe_options& options) {
  const generation_options& asked = request.generation;
  sampling_choice chosen;
  chosen.temperature = asked.temperature.value_or(1.0F);
  chosen.top_p = asked.top_p.value_or(1.0F);
  chosen.top_k = asked.top_k.value_or(0);
  chosen.seed = asked.seed;
  if (request.talk.thinking && options.thinking_forces_temperature) {
    chosen.temperature = 1.0F;
    chosen.top_p = std::max(chosen.top_p, least_top_p_thinking);
  }
  return chosen;
}

/// In JSON mode text is hidden up to the value: whether the prompt has begun that already.
bool begins_json(std::string_view content) {
  return content.find_first_of("{[") != std::string_view::npos ||
         content.find("```json\n") != std::string_view::npos ||
         content.find("```\n") != std::string_view::npos;
}

parser_options choose_parsing(const client_request& request, const recipe_options& options) {
  const conversation& talk = request.talk;
  parser_options parsing;
  parsing.stop = request.generation.stop;
  if (request.raw) {
    parsing.start = parser_start::plain;
    return parsing;
  }
  parsing.parse_tool_calls = talk.renders_tools();
  parsing.json_mode = talk.format == response_format::json;
  parsing.repair_arguments = options.repair_arguments;
  if (talk.continues_last) {
    const message& prefix = talk.messages.back();
    if (!talk.thinking || !prefix.content.empty()) {
      const bool in_json = parsing.json_mode && begins_json(prefix.content);
      parsing.start = in_json ? parser_start::json_value : parser_start::content;
    } else {
      parsing.start = prefix.reasoning.empty() ? parser_start::thinking : parser_start::reasoning;
    }
  } else if (talk.choice == tool_choice::required && talk.renders_tools()) {
    parsing.start = parser_start::calls;
  } else {
    parsing.start = talk.thinking ? parser_start::thinking : parser_start::answer;
  }
  return parsing;
}

/// What a protocol calls the prompt, and the limit of the output.
struct limit_fields {
  std::string prompt, completion;
};
limit_fields limit_fields_of(api_protocol protocol) {
  switch (protocol) {
    case api_protocol::chat:
    case api_protocol::messages:
      break;
    case api_protocol::completions:
      return {"prompt", "max_tokens"};
    case api_protocol::responses:
      return {"input", "max_output_tokens"};
  }
  return {"messages", "max_tokens"};
}

/// Room for the output, or the error that says why there is none.
api_result<uint32_t> choose_max_tokens(const prepared_request& prompt,
                                       std::optional<uint32_t> explicit_tokens,
                                       const served_model& model,
                                       const recipe_options& options) {
  const size_t prompt_tokens = prompt.tokens.size();
  const uint32_t limit = std::min(model.context_tokens, options.max_prompt_tokens);
  const uint64_t completion = explicit_tokens.value_or(1);
  const uint64_t wanted = prompt_tokens + completion;
  if (wanted > model.context_tokens || prompt_tokens > limit) {
    const limit_fields fields = limit_fields_of(prompt.protocol);
    return bad_request(
        explicit_tokens ? fields.completion : fields.prompt,
        "This model's maximum context length is " + std::to_string(model.context_tokens) +
            " tokens (at most " + std::to_string(limit) + " of them in `" + fields.prompt +
            "`), but " + std::to_string(wanted) +
            " were requested: " + std::to_string(prompt_tokens) + " in the messages, " +
            std::to_string(completion) + " in the completion (`" + fields.completion +
            "`). Shorten the prompt or the completion.");
  }
  if (explicit_tokens) return *explicit_tokens;
  const uint32_t usual =
      prompt.thinking ? options.default_max_tokens_thinking : options.default_max_tokens;
  const auto left = static_cast<uint32_t>(model.context_tokens - prompt_tokens);
  return std::max(1u, std::min(usual, left));
}

}  // namespace

std::optional<api_error> check_model(std::string_view name, const served_model& model) {
  const bool known =
      name == model.name || name == "default" ||
      std::find(model.aliases.begin(), model.aliases.end(), name) != model.aliases.end();
  if (known) return std::nullopt;
  return api_error{404, "invalid_request_error", "model_not_found", "model",
                   "`model` names " + in_quotes(name) + ", which is not served here; use " +
                       in_quotes(model.name)};
}

rendered_prompt render_request(client_request& request, const render_options& options) {
  if (request.raw) return render_raw(*request.raw);
  replace_images(request.talk);
  return render(std::move(request.talk), options);
}

api_result<std::vector<int32_t>> encode_prompt(const rendered_prompt& prompt,
                                               const prompt_reader& reader) {
  // Keys of the shared cache are made of tokens alone: before a picture may become part of a prompt
  // here, what it shows must become part of them (storage::media_mark), or prompts with different
  // pictures would share blocks.
  if (!prompt.images.empty())
    return bad_request({}, "Pictures cannot be part of a prompt here; describe them in words");
  for (const text::special_range& range : prompt.specials) {
    const auto spelled = std::string_view(prompt.text).substr(range.begin, range.end - range.begin);
    if (!reader.tokenizer.special_id(spelled))
      return bad_request(
          {}, "This model has no token " + std::string(spelled) + ", which the request needs");
  }
  auto tokens = reader.encoder == nullptr
                    ? reader.tokenizer.encode(prompt.text, prompt.specials)
                    : reader.encoder->encode(reader.scope, prompt.text, prompt.specials);
  if (!tokens) return to_api_error(tokens.error());
  return *std::move(tokens);
}

api_result<prepared_request> prepare(api_protocol protocol,
                                     std::string_view body,
                                     const prompt_reader& reader,
                                     const served_model& model,
                                     const recipe_options& options) {
  auto request = parse_request(protocol, body, options.conversion);
  if (!request) return request.error();
  if (auto error = check_model(request->model, model)) return *std::move(error);
  if (auto error = refuse_constraint(request->generation.constraint)) return *std::move(error);

  prepared_request made;
  made.protocol = protocol;
  made.model = model.name;
  made.sampling = choose_sampling(*request, options);
  made.parsing = choose_parsing(*request, options);
  made.thinking = request->talk.thinking;
  auto tokens = encode_prompt(render_request(*request, options.rendering), reader);
  if (!tokens) return tokens.error();
  made.tokens = *std::move(tokens);
  const auto max_tokens = choose_max_tokens(made, request->generation.max_tokens, model, options);
  if (!max_tokens) return max_tokens.error();
  made.max_tokens = *max_tokens;
  made.choices = request->generation.choices;
  made.logprobs = request->generation.logprobs;
  made.ignore_eos = request->generation.ignore_eos;
  made.stream = request->stream;
  made.include_usage = request->include_usage;
  made.report_reasoning_tokens = options.report_reasoning_tokens;
  if (request->raw && request->raw->echo) made.echo = std::move(request->raw->text);
  made.custom_tools = std::move(request->custom_tools);
  return made;
}

api_result<size_t> count_tokens(api_protocol protocol,
                                std::string_view body,
                                const prompt_reader& reader,
                                const served_model& model,
                                const recipe_options& options) {
  auto request = parse_request(protocol, body, options.conversion);
  if (!request) return request.error();
  if (auto error = check_model(request->model, model)) return *std::move(error);
  const auto tokens = encode_prompt(render_request(*request, options.rendering), reader);
  if (!tokens) return tokens.error();
  return tokens->size();
}

result<void> check_tokenizer(const text::tokenizer& tokenizer) {
  for (const std::string_view needed : token::needed)
    if (!tokenizer.special_id(needed))
      return failure{error_code::unsupported, "tokenizer.json has no token '" +
                                                  std::string(needed) +
                                                  "': it is not of the DeepSeek-V4.1 family"};
  return {};
}

}  // namespace deepinfer::recipe
