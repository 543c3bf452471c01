#pragma once

#include "runtime/http/client.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace deepinfer::http {

/// Turns bytes into one answer, its body handed on as it comes. Pure.
class answer_reader {
public:
  answer_reader(uint32_t header_bytes, bool is_head, const http_body_sink& sink);
  ~answer_reader();
  answer_reader(const answer_reader&) = delete;
  answer_reader& operator=(const answer_reader&) = delete;

  /// `corrupt`, `too_large` (header), or `cancelled` by the sink. Bytes after the answer are
  /// `corrupt` too: we send one request at a time.
  result<void> feed(std::string_view bytes);
  /// The server closed: true if that is how this answer ends.
  [[nodiscard]] bool end_of_stream();
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] bool keeps_alive() const;
  [[nodiscard]] http_answer take();

private:
  class parser;
  void renew();

  const uint32_t header_bytes_;
  const bool is_head_;
  const http_body_sink& sink_;
  std::unique_ptr<parser> parser_;
  std::string held_;  ///< not yet parsed
};

}  // namespace deepinfer::http
