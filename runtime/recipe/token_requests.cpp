#include "runtime/recipe/token_requests.hpp"

#include "runtime/recipe/field_reader.hpp"
#include "runtime/recipe/json_value.hpp"
#include "runtime/recipe/json_writer.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace deepinfer::recipe {
namespace {

/// What `/tokenize` reads itself; the rest belongs to Chat Completions.
struct token_fields {
  std::string model = "default";
  bool has_messages = false;
  bool special = true;
  bool strings = false;
  std::optional<std::string> prompt;
};

void read_fields(field_reader& body, token_fields& fields) {
  if (auto name = body.string("model")) fields.model = *std::move(name);
  fields.has_messages = body.find("messages") != nullptr;
  fields.prompt = body.string("prompt");
  fields.special = body.boolean("add_special_tokens").value_or(true);
  fields.strings = body.boolean("return_token_strs").value_or(false);
  if (!body.boolean("add_generation_prompt").value_or(true))
    body.fail("add_generation_prompt", "cannot be false: a prompt ends where the answer begins");
  if (fields.prompt && fields.has_messages) body.fail("prompt", "cannot be used with `messages`");
  if (!fields.prompt && !fields.has_messages) body.fail("prompt", "or `messages` is required");
}

api_result<rendered_prompt> render_messages(std::string_view body, const recipe_options& options) {
  conversion_options conversion = options.conversion;
  conversion.model_if_absent = "default";
  auto request = parse_request(api_protocol::chat, body, conversion);
  if (!request) return request.error();
  return render_request(*request, options.rendering);
}

api_result<rendered_prompt> render_fields(std::string_view body,
                                          token_fields& fields,
                                          const recipe_options& options) {
  if (fields.has_messages) return render_messages(body, options);
  if (!fields.special) return rendered_prompt{*std::move(fields.prompt), {}, {}};
  return render_raw({*std::move(fields.prompt), std::nullopt, false});
}

std::string tokenize_body(std::span<const int32_t> ids,
                          const token_fields& fields,
                          const text::tokenizer& tokenizer,
                          const served_model& model) {
  std::string out;
  json_writer json(out);
  json.begin_object();
  json.number("count", ids.size());
  json.number("max_model_len", model.context_tokens);
  json.key("tokens");
  json.begin_array();
  for (const int32_t id : ids) json.element(static_cast<uint64_t>(id));
  json.end_array();
  if (fields.strings) {
    json.key("token_strs");
    json.begin_array();
    for (const int32_t id : ids)
      json.element(tokenizer.decode({&id, 1}, text::decode_mode::keep_special));
    json.end_array();
  }
  json.end_object();
  return out;
}

/// Complains about the first item that is no id.
std::vector<int32_t> read_ids(field_reader& body, const json_array& items, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  ids.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto* id = items[i].as<int64_t>();
    if (id == nullptr || *id < 0 || *id >= int64_t{vocabulary}) {
      body.fail("tokens[" + std::to_string(i) + "]",
                "must be a token id, from 0 to " + std::to_string(vocabulary - 1));
      return {};
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

api_result<std::string> tokenize(std::string_view body_text,
                                 const prompt_reader& reader,
                                 const served_model& model,
                                 const recipe_options& options) {
  token_fields fields;
  {
    const auto root = parse_json(body_text, options.conversion.json);
    if (!root) return bad_request({}, "The request body is " + root.error().detail);
    first_error error;
    field_reader body(*root, {}, error);
    read_fields(body, fields);
    if (error) return *std::move(error);
  }
  if (auto unknown = check_model(fields.model, model)) return *std::move(unknown);
  const auto prompt = render_fields(body_text, fields, options);
  if (!prompt) return prompt.error();
  const auto ids = encode_prompt(*prompt, reader);
  if (!ids) return ids.error();
  // An answer is several times as long as the prompt: without a bound, clients that read slowly
  // would fill the memory with a few requests.
  if (ids->size() > options.max_prompt_tokens)
    return bad_request(fields.has_messages ? "messages" : "prompt",
                       "The prompt has " + std::to_string(ids->size()) + " tokens, more than the " +
                           std::to_string(options.max_prompt_tokens) +
                           " that one answer lists; send it in parts");
  return tokenize_body(*ids, fields, reader.tokenizer, model);
}

api_result<std::string> detokenize(std::string_view body_text,
                                   const text::tokenizer& tokenizer,
                                   const served_model& model,
                                   const recipe_options& options) {
  json_limits limits = options.conversion.json;
  limits.max_values = std::max<size_t>(limits.max_values, size_t{options.max_prompt_tokens} + 64);
  const auto root = parse_json(body_text, limits);
  if (!root) return bad_request({}, "The request body is " + root.error().detail);
  first_error error;
  field_reader body(*root, {}, error);
  const std::string name = body.string("model").value_or("default");
  std::vector<int32_t> ids;
  if (body.require("tokens") != nullptr)
    if (const json_array* items = body.array("tokens")) {
      if (items->size() > options.max_prompt_tokens)
        body.fail("tokens", "has more than " + std::to_string(options.max_prompt_tokens) + " ids");
      else
        ids = read_ids(body, *items, tokenizer.vocabulary_size());
    }
  if (error) return *std::move(error);
  if (auto unknown = check_model(name, model)) return *std::move(unknown);
  std::string out;
  json_writer json(out);
  json.begin_object();
  json.text("prompt", tokenizer.decode(ids, text::decode_mode::keep_special));
  json.end_object();
  return out;
}

}  // namespace deepinfer::recipe
