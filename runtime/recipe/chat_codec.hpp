#pragma once

#include "proto/types/limits.hpp"
#include "runtime/recipe/chat_events.hpp"
#include "runtime/recipe/chat_request.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The room's front: a Chat Completions body in, token ids and settings out; token ids in, events
/// or a complete response out.
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
  std::string model;            ///< the served model's name
  std::vector<int32_t> tokens;  ///< the prompt
  sampling_choice sampling;
  uint32_t max_tokens = 0;  ///< of output, at least 1; prompt and output fit the context
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = true;
  bool thinking = true;
  bool report_reasoning_tokens = false;
  parser_options parsing;
};

/// Converts, renders, encodes and checks one request body. Pure and re-entrant: time grows with
/// the body, which `options.conversion.json` bounds.
[[nodiscard]] api_result<prepared_request> prepare_chat(std::string_view body,
                                                        const text::tokenizer& tokenizer,
                                                        const served_model& model,
                                                        const recipe_options& options = {});

/// Whether a tokenizer has all tokens that prompts need; ask once, at start.
[[nodiscard]] result<void> check_tokenizer(const text::tokenizer& tokenizer);

/// Why an engine stopped, as far as the answer's text does not tell.
enum class engine_finish : uint8_t {
  stop,    ///< end of sequence
  length,  ///< max_tokens or the context limit
  content_filter
};

/// The answer to one prepared request. Call `start` once, `push` for the tokens in order, `finish`
/// once. A streaming request gets frames to send from each call, possibly none; any other gets
/// empty strings, and its one body from `finish`.
class chat_stream {
public:
  chat_stream(std::shared_ptr<const text::tokenizer> tokenizer,
              const prepared_request& request,
              response_identity identity);

  struct prompt_facts {
    uint32_t prompt_tokens = 0;
    uint32_t cached_tokens = 0;
  };
  [[nodiscard]] std::string start(prompt_facts prompt);
  [[nodiscard]] std::string push(std::span<const int32_t> tokens);
  [[nodiscard]] std::string finish(engine_finish reason);

  /// A stop sequence ended the answer: cancel the generation and call `finish`; more tokens are
  /// ignored.
  [[nodiscard]] bool stopped() const { return parser_.stopped(); }

  [[nodiscard]] const token_usage& usage() const { return usage_; }

private:
  void take(int32_t token);
  [[nodiscard]] std::string release();
  [[nodiscard]] finish_reason resolve(engine_finish reason) const;
  [[nodiscard]] bool is_silent(int32_t token) const;

  std::shared_ptr<const text::tokenizer> tokenizer_;
  text::stream_decoder decoder_;
  output_parser parser_;
  response_identity identity_;
  chat_event_options event_options_;
  chat_event_writer events_;
  chat_collector collector_;
  std::vector<output_chunk> chunks_;
  std::vector<int32_t> silent_;  // turn tokens: never text
  token_usage usage_;
  bool streaming_ = false;
  bool ignore_eos_ = false;
};

}  // namespace deepinfer::recipe
