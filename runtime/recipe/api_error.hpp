#pragma once

#include "proto/types/check.hpp"
#include "proto/types/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace deepinfer::recipe {

/// An error as a client of the HTTP interface sees it.
struct api_error {
  int status = 400;     ///< HTTP status
  std::string type;     ///< class of error, as in the body
  std::string code;     ///< the same, or something finer
  std::string param;    ///< path of the offending field (`messages[2].content`); may be empty
  std::string message;  ///< for people; names the field
};

/// 400: the request is wrong, in the field `param`.
[[nodiscard]] api_error bad_request(std::string param, std::string message);

/// A failure of the serving system as a client should see it: what the client can act on keeps its
/// text, an internal detail does not leave the house.
[[nodiscard]] api_error to_api_error(const failure& reason);

/// The body that goes with it: `{"error":{"message","type","param":null,"code"}}`. The published
/// interface always has `param` null, and names the field in the message.
[[nodiscard]] std::string error_body(const api_error& error);

/// A value, or the error to send instead. As `result<T>`.
template <class T>
class [[nodiscard]] api_result {
public:
  api_result(T value) : data_(std::in_place_index<0>, std::move(value)) {}          // NOLINT
  api_result(api_error error) : data_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const noexcept { return data_.index() == 0; }

  T& operator*() & {
    DEEPINFER_CHECK(data_.index() == 0);
    return *std::get_if<0>(&data_);
  }
  const T& operator*() const& {
    DEEPINFER_CHECK(data_.index() == 0);
    return *std::get_if<0>(&data_);
  }
  T&& operator*() && {
    DEEPINFER_CHECK(data_.index() == 0);
    return std::move(*std::get_if<0>(&data_));
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  [[nodiscard]] const api_error& error() const& {
    DEEPINFER_CHECK(data_.index() == 1);
    return *std::get_if<1>(&data_);
  }

private:
  std::variant<T, api_error> data_;
};

}  // namespace deepinfer::recipe
