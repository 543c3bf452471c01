#pragma once

#include "proto/types/ids.hpp"
#include "runtime/http/message.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/recipe/api_error.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// The seam between the request actor, which moves tokens, and an API, which is about words. Chat
/// Completions is `chat_protocol`; further protocols are further implementations.
namespace deepinfer {

/// What an answer cost, for usage objects.
struct answer_usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;
  uint32_t output_tokens = 0;
  bool rerouted = false;
};

/// Turns the output tokens of one request into bytes for its client. Used by one actor only.
class answer_writer {
public:
  struct fed {
    std::string bytes;      ///< to be sent now; empty for answers in one piece
    bool finished = false;  ///< a stop string matched: nothing that follows is wanted
  };

  virtual ~answer_writer() = default;
  /// Bytes in front of the first token of a stream; nothing when called again.
  virtual std::string begin() = 0;
  virtual fed feed(std::span<const int32_t> ids) = 0;
  /// The rest of a stream, or the whole answer.
  virtual std::string end(schedule::end_reason reason, const answer_usage& usage) = 0;
  /// The last bytes of a stream that cannot be finished.
  virtual std::string fail(const recipe::api_error& error) = 0;
  /// A byte sequence that keeps a waiting client's connection alive.
  virtual std::string keep_alive() = 0;
};

/// A request in tokens.
struct prepared_exchange {
  std::vector<int32_t> tokens;
  model::sampling_params sampling;
  uint32_t max_tokens = 0;
  bool ignore_eos = false;
  bool stream = false;
  std::unique_ptr<answer_writer> writer;
};

/// What the answer needs besides the request.
struct exchange_context {
  request_id id;
  std::chrono::seconds created{0};  ///< since 1970
  uint64_t default_seed = 0;        ///< for requests that bring none
};

/// Stateless; one object for all codec actors.
class protocol_codec {
public:
  virtual ~protocol_codec() = default;
  [[nodiscard]] virtual recipe::api_result<std::shared_ptr<prepared_exchange>> prepare(
      const http_request& request, const exchange_context& context) const = 0;
  /// Body of `GET /v1/models`.
  [[nodiscard]] virtual std::string models_body() const = 0;
};

}  // namespace deepinfer
