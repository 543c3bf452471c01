#include "runtime/http/response_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace deepinfer::http {
namespace {

bool is_token(std::string_view text) {
  static constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

bool is_field_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  });
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void append_number(std::string& out, uint64_t value) {
  std::array<char, 20> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), written.ptr);
}

}  // namespace

bool is_bodiless(uint16_t status) {
  return status < 200 || status == 204 || status == 304;
}

result<std::string> write_head(const response_head& head, const http_headers& extra) {
  if (head.status < 200 || head.status > 599)
    return failure{error_code::invalid_argument, "the status of an answer is 200 to 599"};
  std::string out;
  out.reserve(192);
  out += "HTTP/1.1 ";
  append_number(out, head.status);
  out.append(" ").append(reason_phrase(head.status)).append("\r\n");
  if (!is_field_value(head.content_type))
    return failure{error_code::invalid_argument, "the content type holds a control character"};
  if (!head.content_type.empty()) append_header(out, "content-type", head.content_type);
  if (head.framing == body_framing::chunked) {
    append_header(out, "transfer-encoding", "chunked");
  } else if (head.framing == body_framing::length && !is_bodiless(head.status)) {
    out += "content-length: ";
    append_number(out, head.content_length);
    out += "\r\n";
  }
  if (head.closes) {
    append_header(out, "connection", "close");
  } else if (head.is_http_10) {
    append_header(out, "connection", "keep-alive");
  }
  for (const http_header& h : extra) {
    if (!is_token(h.name) || !is_field_value(h.value))
      return failure{error_code::invalid_argument, "header " + h.name + " is not valid"};
    append_header(out, h.name, h.value);
  }
  out += "\r\n";
  return out;
}

std::string refusal_answer(uint16_t status, const http_refusal& refusal) {
  const response_head head{.status = status,
                           .content_type = "application/json",
                           .content_length = refusal.body.size(),
                           .closes = true};
  auto text = write_head(head, refusal.headers);
  if (!text) text = write_head(head, {});  // better without its headers than no answer
  return *std::move(text) + refusal.body;
}

std::string chunk_size_line(uint64_t bytes) {
  std::array<char, 18> text;
  auto written = std::to_chars(text.data(), text.data() + 16, bytes, 16);
  *written.ptr++ = '\r';
  *written.ptr++ = '\n';
  return {text.data(), written.ptr};
}

}  // namespace deepinfer::http
