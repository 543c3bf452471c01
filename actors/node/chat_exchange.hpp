#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Chat Completions as a client sees it: requests out, answers in. Pure.
namespace deepinfer::chat {

struct turn {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// What is not given is left to the server.
struct request_options {
  std::string model = "default";
  std::string thinking;  ///< "on", "off", or empty
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> seed;
  bool is_streamed = true;
};

/// The body of `POST /v1/chat/completions`. Texts must be UTF-8.
[[nodiscard]] std::string request_body(const request_options& options,
                                       const std::vector<turn>& talk);

struct piece {
  std::string reasoning;
  std::string content;
};

/// Follows one answer to its end, and knows whether there was one.
class answer {
public:
  static constexpr size_t default_answer_bytes = size_t{64} << 20;

  explicit answer(size_t max_answer_bytes = default_answer_bytes)
      : max_answer_bytes_(max_answer_bytes) {}

  /// The data of one event. `internal` with the server's words for an error event; `corrupt` for
  /// what is no event of such a stream; `too_large`.
  [[nodiscard]] result<piece> take_event(std::string_view data);
  /// The body of an answer in one piece.
  [[nodiscard]] result<piece> take_whole(std::string_view body);

  /// The model ended its answer, and the server the stream. All else was cut off.
  [[nodiscard]] bool is_complete() const { return is_done_ && !finish_reason_.empty(); }
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }
  /// All content so far, without the reasoning.
  [[nodiscard]] const std::string& content() const { return content_; }

private:
  result<piece> take_choice(std::string_view json, std::string_view part);

  size_t max_answer_bytes_;
  bool is_done_ = false;
  std::string finish_reason_;
  std::string content_;
};

}  // namespace deepinfer::chat
