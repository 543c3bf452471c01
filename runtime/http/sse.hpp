#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

/// Server-sent events (WHATWG HTML, "event stream interpretation"), both directions. Pure.
namespace deepinfer {

struct sse_event {
  std::string event;  ///< "message" if the stream named none
  std::string data;   ///< lines joined by '\n'
  std::string id;     ///< last id the stream has given
};

/// Reads a stream in pieces cut anywhere.
class sse_parser {
public:
  static constexpr size_t default_event_bytes = size_t{4} << 20;

  /// `max_event_bytes` bounds one line and the data of one event.
  explicit sse_parser(size_t max_event_bytes = default_event_bytes)
      : max_event_bytes_(max_event_bytes) {}

  /// Calls `on_event` for each event that ends within `bytes`. `too_large` over the bound: the
  /// parser is useless then.
  result<void> feed(std::string_view bytes, const std::function<void(const sse_event&)>& on_event);

  /// An event has begun and not ended: at the end of a stream it was cut off.
  [[nodiscard]] bool has_partial() const {
    return !line_.empty() || has_data_ || !current_.event.empty();
  }

private:
  void end_line(std::string_view line, const std::function<void(const sse_event&)>& on_event);
  void set_field(std::string_view name, std::string_view value);

  size_t max_event_bytes_;
  std::string line_;
  bool is_after_return_ = false;  ///< the last byte was '\r': a '\n' now belongs to it
  bool is_first_line_ = true;
  bool has_data_ = false;
  sse_event current_;
};

/// Appends one event; an empty `event` is left out. Each line of `data` becomes one data line.
void append_sse_event(std::string& out, std::string_view event, std::string_view data);

/// A comment line keeps proxies and clients from giving up on a quiet stream.
[[nodiscard]] std::string sse_comment(std::string_view text);

}  // namespace deepinfer
