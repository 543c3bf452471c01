#pragma once

#include "proto/types/limits.hpp"
#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/prompt_encoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The room's front door: a request body in, token ids and settings out. The way back is
/// `answer_stream.hpp`.
namespace deepinfer::recipe {

/// The model that requests are prepared for.
struct served_model {
  std::string name;                  ///< what `/v1/models` lists
  std::vector<std::string> aliases;  ///< other names that are accepted; `default` always is
  uint32_t context_tokens = 0;       ///< prompt and output together
};

struct recipe_options {
  conversion_options conversion;
  render_options rendering;
  /// The published service samples with temperature 1 whenever the model thinks, whatever the
  /// request says, and raises top_p to 0.95. Switch this off to obey the request instead: only then
  /// can a thinking request be greedy (`temperature` 0), as small models and tests want it.
  bool thinking_forces_temperature = true;
  bool repair_arguments = false;         ///< see `parser_options`
  bool report_reasoning_tokens = false;  ///< in `usage.completion_tokens_details`
  uint32_t default_max_tokens = 8192;    ///< when the request names none; cut to what fits
  uint32_t default_max_tokens_thinking = 65536;
  uint32_t max_prompt_tokens = limits::max_prompt_tokens;
};

struct sampling_choice {
  float temperature = 1;  ///< 0 is greedy
  float top_p = 1;
  uint32_t top_k = 0;            ///< 0 is off
  std::optional<uint64_t> seed;  ///< absent: the caller draws one
};

/// Everything that is known of a request before the first token is computed.
struct prepared_request {
  api_protocol protocol = api_protocol::chat;
  std::string model;            ///< the served model's name
  std::vector<int32_t> tokens;  ///< the prompt
  sampling_choice sampling;
  uint32_t max_tokens = 0;  ///< of output, at least 1; prompt and output fit the context
  uint32_t choices = 1;
  std::optional<uint32_t> logprobs;  ///< alternatives to tell beside each token's own
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = true;
  bool thinking = true;
  bool report_reasoning_tokens = false;
  std::string echo;  ///< text that every choice begins with
  std::vector<std::string> custom_tools;
  parser_options parsing;
};

/// Renders a converted request: its conversation, or its raw prompt. Images become the text
/// `[Unsupported Image]`, as the published service does for models without vision.
[[nodiscard]] rendered_prompt render_request(client_request& request,
                                             const render_options& options = {});

/// What turns a prompt into ids.
struct prompt_reader {
  const text::tokenizer& tokenizer;
  text::prompt_encoder* encoder = nullptr;  ///< may remember prompts; null: encode from scratch
  std::string_view scope = {};              ///< whose prompts `encoder` may reuse

  prompt_reader(const text::tokenizer& plain) : tokenizer(plain) {}  // NOLINT
  prompt_reader(const text::tokenizer& names, text::prompt_encoder& how, std::string_view whose)
      : tokenizer(names), encoder(&how), scope(whose) {}
};

/// The ids of a rendered prompt; 400 when the tokenizer lacks a control token that it needs.
[[nodiscard]] api_result<std::vector<int32_t>> encode_prompt(const rendered_prompt& prompt,
                                                             const prompt_reader& reader);

/// The 404 for a model that is not served here.
[[nodiscard]] std::optional<api_error> check_model(std::string_view name,
                                                   const served_model& model);

/// Converts, renders, encodes and checks one request body. Pure and re-entrant: time grows with
/// the body, which `options.conversion.json` bounds.
[[nodiscard]] api_result<prepared_request> prepare(api_protocol protocol,
                                                   std::string_view body,
                                                   const prompt_reader& reader,
                                                   const served_model& model,
                                                   const recipe_options& options = {});

/// How many tokens the prompt of a request body has, as `POST /v1/messages/count_tokens` asks
/// (`messages::count_body` is the answer). Converted and checked as a request to generate is, but
/// no context limit applies, nor what only an answer needs.
[[nodiscard]] api_result<size_t> count_tokens(api_protocol protocol,
                                              std::string_view body,
                                              const prompt_reader& reader,
                                              const served_model& model,
                                              const recipe_options& options = {});

/// Whether a tokenizer has all tokens that prompts need; ask once, at start.
[[nodiscard]] result<void> check_tokenizer(const text::tokenizer& tokenizer);

}  // namespace deepinfer::recipe
