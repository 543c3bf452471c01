#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/api_protocol.hpp"
#include "runtime/recipe/output_parser.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// How an answer is written in its protocol's words. Each protocol has two formats: a stream of
/// events, and one body, which is what the events add up to.
namespace deepinfer::recipe {

/// How an answer ended, the same for every protocol.
enum class finish_reason : uint8_t { stop, stop_sequence, tool_calls, length, content_filter };

/// What the caller knows of a response and this room cannot: identity and time.
struct response_identity {
  std::string id;          ///< `chatcmpl-...`, `cmpl-...`, `resp_...`, `msg_...`
  uint64_t created_s = 0;  ///< Unix time in seconds
  std::string model;       ///< name to report
  std::optional<std::string> fingerprint;
  std::string request_id;  ///< what an error names that ends a stream; empty: none
};

struct token_usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;                ///< prompt tokens that a cache saved
  uint32_t completion_tokens = 0;            ///< of all choices
  std::optional<uint32_t> reasoning_tokens;  ///< reported when set
};

/// What a format must know of the request.
struct answer_traits {
  bool thinking = true;
  bool include_usage = false;
  bool logprobs = false;
  std::vector<std::string> custom_tools;
};

/// A token as clients see it; `bytes` may be part of a character.
struct shown_token {
  std::string bytes;
  float logprob = 0;
};

struct shown_logprobs {
  bool reasoning = false;  ///< the token belongs to the reasoning, not to the visible text
  shown_token chosen;
  std::vector<shown_token> best;
};

/// A piece of one choice's answer.
struct choice_chunk {
  uint32_t choice = 0;
  output_chunk::kind what = output_chunk::kind::text;
  std::string_view text;
  /// Of the tokens read since the choice's last chunk, this one's included; only when asked for.
  std::span<const shown_logprobs> logprobs;
};

struct choice_end {
  uint32_t choice = 0;
  finish_reason reason = finish_reason::stop;
  std::string_view stop_sequence;            ///< the one that matched, if any
  std::span<const shown_logprobs> logprobs;  ///< of tokens that made no chunk
  /// Usage so far: complete once the last choice has ended.
  token_usage usage;
  uint64_t completed_s = 0;  ///< Unix time in seconds
  bool is_last = true;       ///< the answer is over; what closes it is written too
};

/// Writes one answer: `begin`, then for each choice its chunks and its `end`. Every call appends to
/// `out` what is to be sent, possibly nothing. Used by one caller at a time.
class answer_format {
public:
  virtual ~answer_format() = default;
  virtual void begin(std::string& out, const token_usage& prompt) = 0;
  virtual void chunk(std::string& out, const choice_chunk& piece) = 0;
  virtual void end(std::string& out, const choice_end& how) = 0;
  /// Instead of `end`: the answer cannot be completed. In a stream this is its last event; a body
  /// that was not begun is the caller's to refuse (`error_body`).
  virtual void fail(std::string& out, const api_error& error) = 0;
};

[[nodiscard]] std::unique_ptr<answer_format> make_event_format(api_protocol protocol,
                                                               response_identity identity,
                                                               answer_traits traits);
[[nodiscard]] std::unique_ptr<answer_format> make_body_format(api_protocol protocol,
                                                              response_identity identity,
                                                              answer_traits traits);

/// The body of an error before the first byte, in the protocol's own envelope.
[[nodiscard]] std::string error_body(api_protocol protocol,
                                     const api_error& error,
                                     std::string_view request_id);

/// What keeps a quiet stream open; clients of every protocol skip it.
[[nodiscard]] std::string keep_alive();

}  // namespace deepinfer::recipe
