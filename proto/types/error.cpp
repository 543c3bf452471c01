#include "proto/types/error.hpp"

namespace deepinfer {

std::string_view to_string(error_code code) noexcept {
  switch (code) {
    case error_code::ok:
      return "ok";
    case error_code::internal:
      return "internal";
    case error_code::invalid_argument:
      return "invalid_argument";
    case error_code::not_found:
      return "not_found";
    case error_code::no_capacity:
      return "no_capacity";
    case error_code::deadline_exceeded:
      return "deadline_exceeded";
    case error_code::cancelled:
      return "cancelled";
    case error_code::unreachable:
      return "unreachable";
    case error_code::stale_epoch:
      return "stale_epoch";
    case error_code::corrupt:
      return "corrupt";
    case error_code::unauthenticated:
      return "unauthenticated";
    case error_code::too_large:
      return "too_large";
    case error_code::unsupported:
      return "unsupported";
  }
  return "internal";
}

error_code error_code_from_wire(uint16_t number) noexcept {
  constexpr auto last = static_cast<uint16_t>(error_code::unsupported);
  return number <= last ? static_cast<error_code>(number) : error_code::internal;
}

std::string to_string(const failure& f) {
  std::string text{to_string(f.code)};
  if (!f.detail.empty()) text.append(": ").append(f.detail);
  return text;
}

}  // namespace deepinfer
