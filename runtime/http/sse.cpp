#include "runtime/http/sse.hpp"

namespace deepinfer {
namespace {

const failure event_too_large{error_code::too_large,
                              "an event of the stream is longer than max_event_bytes"};

}  // namespace

result<void> sse_parser::feed(std::string_view bytes,
                              const std::function<void(const sse_event&)>& on_event) {
  while (!bytes.empty()) {
    if (is_after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    is_after_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > max_event_bytes_) return event_too_large;
    if (end == std::string_view::npos) {
      line_.append(piece);
      return {};
    }
    is_after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      end_line(piece, on_event);  // the usual case: no copy of the line
    } else {
      line_.append(piece);
      end_line(line_, on_event);
      line_.clear();
    }
    if (current_.data.size() > max_event_bytes_) return event_too_large;
  }
  return {};
}

void sse_parser::end_line(std::string_view line,
                          const std::function<void(const sse_event&)>& on_event) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (is_first_line_ && line.starts_with(byte_order_mark)) line.remove_prefix(3);
  is_first_line_ = false;
  if (line.empty()) {
    if (has_data_) {
      current_.data.pop_back();  // the end of its last line
      if (current_.event.empty()) current_.event = "message";
      on_event(current_);
    }
    has_data_ = false;
    current_.event.clear();
    current_.data.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == 0) return;  // a comment
  if (colon == std::string_view::npos) return set_field(line, "");
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  set_field(line.substr(0, colon), value);
}

void sse_parser::set_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    has_data_ = true;
    current_.data.append(value).append("\n");
  } else if (name == "event") {
    current_.event = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    current_.id = value;
  }
  // `retry` concerns clients that reconnect by themselves; unknown fields are ignored by the rule
}

void append_sse_event(std::string& out, std::string_view event, std::string_view data) {
  if (!event.empty()) out.append("event: ").append(event).append("\n");
  while (true) {
    const size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    const bool is_pair = data.substr(end).starts_with("\r\n");
    data.remove_prefix(end + (is_pair ? 2 : 1));
  }
  out += '\n';
}

std::string sse_comment(std::string_view text) {
  std::string out = ": ";
  for (const char c : text) out += c == '\r' || c == '\n' ? ' ' : c;
  return out.append("\n\n");
}

}  // namespace deepinfer
