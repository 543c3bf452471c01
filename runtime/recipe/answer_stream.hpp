#pragma once

#include "proto/types/token_logprobs.hpp"
#include "runtime/recipe/answer_format.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace deepinfer::recipe {

/// Why an engine stopped, as far as the answer's text does not tell.
enum class engine_finish : uint8_t {
  stop,    ///< end of sequence
  length,  ///< max_tokens or the context limit
  content_filter
};

/// Output tokens of one choice.
struct choice_tokens {
  uint32_t choice = 0;
  std::span<const int32_t> tokens;
  std::span<const token_logprobs> logprobs;  ///< one for each token when asked for, else empty
};

/// The answer to one prepared request. Call `start` once, `push` for each choice's tokens in order,
/// `finish` once for each choice. A streaming request gets bytes to send from each call, possibly
/// none; any other gets empty strings, and its one body from the last `finish`.
class answer_stream {
public:
  answer_stream(std::shared_ptr<const text::tokenizer> tokenizer,
                const prepared_request& request,
                response_identity identity);

  struct prompt_facts {
    uint32_t prompt_tokens = 0;
    uint32_t cached_tokens = 0;
  };
  [[nodiscard]] std::string start(prompt_facts prompt);
  [[nodiscard]] std::string push(const choice_tokens& what);

  struct choice_finish {
    uint32_t choice = 0;
    engine_finish reason = engine_finish::stop;
    uint64_t now_s = 0;  ///< Unix time in seconds
    /// Of the prompt, if more is known than when the answer began.
    std::optional<uint32_t> cached_tokens;
  };
  [[nodiscard]] std::string finish(const choice_finish& how);

  /// Instead of what is left: the last bytes of a stream that cannot be completed.
  [[nodiscard]] std::string fail(const api_error& error);

  /// A stop sequence ended this choice: cancel its generation and call `finish`; more tokens are
  /// ignored.
  [[nodiscard]] bool stopped(uint32_t choice = 0) const {
    return choices_[choice].parser.stopped();
  }

  [[nodiscard]] const token_usage& usage() const { return usage_; }

private:
  struct choice_state {
    text::stream_decoder decoder;
    output_parser parser;
    std::vector<shown_logprobs> logprobs;  // of tokens read since the last chunk
    bool ended = false;
  };

  void take(choice_state& to, int32_t token);
  void take_scored(choice_state& to, int32_t token, const token_logprobs& scores);
  void release(uint32_t choice, std::string& out);
  [[nodiscard]] finish_reason resolve(const choice_state& of, engine_finish reason) const;
  [[nodiscard]] bool is_silent(int32_t token) const;

  std::shared_ptr<const text::tokenizer> tokenizer_;
  std::vector<choice_state> choices_;
  std::unique_ptr<answer_format> format_;
  std::vector<output_chunk> chunks_;
  std::vector<int32_t> silent_;  // turn tokens: never text
  token_usage usage_;
  uint32_t open_choices_ = 0;
  std::string echo_;
  bool ignore_eos_ = false;
};

}  // namespace deepinfer::recipe
