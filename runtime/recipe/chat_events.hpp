#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/output_parser.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::recipe {

/// How an answer ended, the same for every protocol.
enum class finish_reason : uint8_t { stop, stop_sequence, tool_calls, length, content_filter };

/// What the caller knows of a response and this room cannot: identity and time.
struct response_identity {
  std::string id;          ///< `chatcmpl-...`
  uint64_t created_s = 0;  ///< Unix time in seconds
  std::string model;       ///< name to report
  std::optional<std::string> fingerprint;
};

struct token_usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;  ///< prompt tokens that a cache saved
  uint32_t completion_tokens = 0;
  std::optional<uint32_t> reasoning_tokens;  ///< reported when set
};

struct chat_event_options {
  bool thinking = true;
  bool include_usage = false;
};

/// Writes the frames of a streamed Chat Completions answer: each call appends whole frames
/// (`data: {...}\n\n`) to `out`.
class chat_event_writer {
public:
  chat_event_writer(response_identity identity, chat_event_options options)
      : identity_(std::move(identity)), options_(options) {}

  void start(std::string& out) const;
  void chunk(std::string& out, const output_chunk& piece);
  /// The last chunk and `[DONE]`.
  void finish(std::string& out, finish_reason reason, const token_usage& usage) const;

private:
  response_identity identity_;
  chat_event_options options_;
  uint32_t calls_ = 0;  // announced so far; arguments belong to the last
};

/// Collects the chunks of an answer that is sent in one piece.
class chat_collector {
public:
  void chunk(const output_chunk& piece);

  /// The `chat.completion` object.
  [[nodiscard]] std::string body(const response_identity& identity,
                                 chat_event_options options,
                                 finish_reason reason,
                                 const token_usage& usage) const;

private:
  struct call {
    std::string name, arguments;
  };
  std::string content_, reasoning_;
  std::vector<call> calls_;
};

/// The frame for an error after the first byte of a stream; nothing follows it, not even `[DONE]`,
/// so that no client takes the answer for a complete one.
[[nodiscard]] std::string error_frame(const api_error& error);

/// One row of `GET /v1/models`.
struct model_entry {
  std::string name;
  uint64_t created_s = 0;
  std::string owner = "deepinfer";
};

/// The body of `GET /v1/models`, and of `GET /v1/models/{name}`.
[[nodiscard]] std::string models_body(const std::vector<model_entry>& models);
[[nodiscard]] std::string model_body(const model_entry& model);

}  // namespace deepinfer::recipe
