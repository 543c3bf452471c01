#pragma once

#include "proto/types/result.hpp"
#include "runtime/recipe/api_protocol.hpp"
#include "runtime/recipe/json_value.hpp"

#include <cstddef>
#include <string>
#include <string_view>

/// Answers as a client sees them, in any protocol. Pure.
namespace deepinfer::chat {

struct piece {
  std::string reasoning;
  std::string content;
};

/// Follows one answer to its end, and knows whether there was one.
class answer {
public:
  static constexpr size_t default_answer_bytes = size_t{64} << 20;

  explicit answer(recipe::api_protocol protocol = recipe::api_protocol::chat,
                  size_t max_answer_bytes = default_answer_bytes)
      : protocol_(protocol), max_answer_bytes_(max_answer_bytes) {}

  /// The data of one event. `internal` with the server's words for an error event; `corrupt` for
  /// what is no event of such a stream; `too_large`.
  [[nodiscard]] result<piece> take_event(std::string_view data);
  /// The body of an answer in one piece.
  [[nodiscard]] result<piece> take_whole(std::string_view body);

  /// The model ended its answer, and the server the stream. All else was cut off.
  [[nodiscard]] bool is_complete() const { return is_done_ && !finish_reason_.empty(); }
  /// As Chat Completions name it ("stop", "length"), whatever the protocol.
  [[nodiscard]] const std::string& finish_reason() const { return finish_reason_; }
  /// All content so far, without the reasoning.
  [[nodiscard]] const std::string& content() const { return content_; }

private:
  [[nodiscard]] result<recipe::json_value> read(std::string_view json) const;
  [[nodiscard]] failure corrupt(const std::string& what) const;
  result<piece> keep(result<piece> part);
  void finish(std::string reason);

  result<piece> take_choice(const recipe::json_value& in, std::string_view part);
  result<piece> take_response_event(const recipe::json_value& in);
  result<piece> take_response(const recipe::json_value& response);
  result<piece> take_message_event(const recipe::json_value& in);
  result<piece> take_message(const recipe::json_value& message);
  void finish_response(const recipe::json_value* response);

  recipe::api_protocol protocol_;
  size_t max_answer_bytes_;
  bool is_done_ = false;
  std::string finish_reason_;
  std::string content_;
};

}  // namespace deepinfer::chat
