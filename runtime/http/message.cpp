#include "runtime/http/message.hpp"

#include <array>

namespace deepinfer {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

struct phrase {
  uint16_t status;
  std::string_view text;
};

constexpr std::array phrases{phrase{100, "Continue"},
                             phrase{200, "OK"},
                             phrase{201, "Created"},
                             phrase{202, "Accepted"},
                             phrase{204, "No Content"},
                             phrase{301, "Moved Permanently"},
                             phrase{302, "Found"},
                             phrase{304, "Not Modified"},
                             phrase{400, "Bad Request"},
                             phrase{401, "Unauthorized"},
                             phrase{403, "Forbidden"},
                             phrase{404, "Not Found"},
                             phrase{405, "Method Not Allowed"},
                             phrase{408, "Request Timeout"},
                             phrase{409, "Conflict"},
                             phrase{413, "Content Too Large"},
                             phrase{415, "Unsupported Media Type"},
                             phrase{417, "Expectation Failed"},
                             phrase{422, "Unprocessable Content"},
                             phrase{429, "Too Many Requests"},
                             phrase{431, "Request Header Fields Too Large"},
                             phrase{499, "Client Closed Request"},
                             phrase{500, "Internal Server Error"},
                             phrase{501, "Not Implemented"},
                             phrase{502, "Bad Gateway"},
                             phrase{503, "Service Unavailable"},
                             phrase{504, "Gateway Timeout"}};

}  // namespace

std::string_view find_header(const http_headers& headers, std::string_view name) {
  for (const http_header& h : headers)
    if (h.name == name) return h.value;
  return {};
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::optional<std::string> http_request::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name)
      return percent_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::string problem_json(const http_problem& problem) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, problem.message);
  out += ",\"type\":";
  append_json_string(out, problem.type);
  out += ",\"param\":null,\"code\":";
  append_json_string(out, problem.code);
  out += "}}";
  return out;
}

std::string_view reason_phrase(uint16_t status) {
  for (const phrase& p : phrases)
    if (p.status == status) return p.text;
  return status < 400 ? "OK" : "Error";
}

}  // namespace deepinfer
