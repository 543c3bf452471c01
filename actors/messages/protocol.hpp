#pragma once

#include "proto/types/ids.hpp"
#include "proto/types/token_logprobs.hpp"
#include "runtime/http/message.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/recipe/api_error.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The seam between the request actor, which moves tokens, and an API, which is about words.
namespace deepinfer {

/// What an answer cost, for usage objects.
struct answer_usage {
  uint32_t prompt_tokens = 0;
  /// Of the prompt, that a cache saved; 0 until the first choice's prefill has told.
  uint32_t cached_tokens = 0;
  uint32_t output_tokens = 0;
  bool rerouted = false;
};

/// Output tokens of one choice of a request.
struct fed_tokens {
  uint32_t choice = 0;
  std::span<const int32_t> ids;
  std::span<const token_logprobs> logprobs;  ///< one for each id when asked for, else empty
};

/// How one choice ended.
struct choice_result {
  uint32_t choice = 0;
  schedule::end_reason reason = schedule::end_reason::stop;
  std::chrono::seconds now{0};  ///< since 1970
};

/// Turns the output tokens of one request into bytes for its client. Used by one actor only.
class answer_writer {
public:
  struct fed {
    std::string bytes;      ///< to be sent now; empty for answers in one piece
    bool finished = false;  ///< a stop string matched: nothing that follows is wanted
  };

  virtual ~answer_writer() = default;
  /// Bytes in front of the first token of a stream, with what is known of its cost by then;
  /// nothing when called again.
  virtual std::string begin(const answer_usage& usage) = 0;
  virtual fed feed(const fed_tokens& tokens) = 0;
  /// The rest of a choice's stream; with the last choice the rest of the answer, or the whole of
  /// one in one piece.
  virtual std::string end(const choice_result& how, const answer_usage& usage) = 0;
  /// The last bytes of a stream that cannot be finished.
  virtual std::string fail(const recipe::api_error& error) = 0;
  /// A byte sequence that keeps a waiting client's connection alive.
  virtual std::string keep_alive() = 0;
};

/// A request in tokens.
struct prepared_exchange {
  std::vector<int32_t> tokens;
  model::sampling_params sampling;
  uint32_t choices = 1;              ///< independent answers
  std::optional<uint32_t> logprobs;  ///< wanted, with so many alternatives beside each token
  uint32_t max_tokens = 0;           ///< of each choice
  bool ignore_eos = false;
  bool stream = false;
  std::unique_ptr<answer_writer> writer;
  /// The answer itself, of a request that needs no model (counting tokens, say); nothing above
  /// counts then.
  std::optional<std::string> answered;
};

/// What the answer needs besides the request.
struct exchange_context {
  request_id id;
  std::chrono::seconds created{0};  ///< since 1970
  uint64_t default_seed = 0;        ///< for requests that bring none
};

using prepared_result = recipe::api_result<std::shared_ptr<prepared_exchange>>;

/// Without state that a caller could see; one object for all codec actors, thread-safe.
class protocol_codec {
public:
  virtual ~protocol_codec() = default;
  [[nodiscard]] virtual prepared_result prepare(const http_request& request,
                                                const exchange_context& context) const = 0;
  /// The body that tells `error` to the client of `request`.
  [[nodiscard]] virtual std::string error_body(const http_request& request,
                                               const recipe::api_error& error,
                                               const exchange_context& context) const = 0;
  /// Whether `POST path` is a request that `prepare` understands.
  [[nodiscard]] virtual bool serves(std::string_view path) const = 0;
  /// All paths, for people.
  [[nodiscard]] virtual const std::string& routes() const {
    static const std::string none;
    return none;
  }
  /// Answers `GET path` where that needs no codec (the list of models); nothing for other paths.
  [[nodiscard]] virtual std::optional<recipe::api_result<std::string>> look_up(
      const http_request& request) const = 0;
  /// Numbers of all codecs together, for the console.
  [[nodiscard]] virtual std::vector<std::pair<std::string, int64_t>> counters() const { return {}; }
};

}  // namespace deepinfer
