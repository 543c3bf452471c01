#pragma once

#include "proto/types/check.hpp"
#include "proto/types/error.hpp"

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace deepinfer {

/// A value, or the reason why there is none. Converts from both; test with `if (r)`, read with
/// `*r` / `r->`, and pass the reason on with `r.error()`. Reading the absent half is a bug
/// (`DEEPINFER_CHECK`).
template <class T>
class [[nodiscard]] result {
public:
  using value_type = T;

  result(T value) : data_(std::in_place_index<0>, std::move(value)) {}        // NOLINT
  result(failure error) : data_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const noexcept { return data_.index() == 0; }
  [[nodiscard]] bool has_value() const noexcept { return data_.index() == 0; }

  T& operator*() & {
    DEEPINFER_CHECK(has_value());
    return *std::get_if<0>(&data_);
  }
  const T& operator*() const& {
    DEEPINFER_CHECK(has_value());
    return *std::get_if<0>(&data_);
  }
  T&& operator*() && {
    DEEPINFER_CHECK(has_value());
    return std::move(*std::get_if<0>(&data_));
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  [[nodiscard]] const failure& error() const& {
    DEEPINFER_CHECK(!has_value());
    return *std::get_if<1>(&data_);
  }
  [[nodiscard]] failure&& error() && {
    DEEPINFER_CHECK(!has_value());
    return std::move(*std::get_if<1>(&data_));
  }

private:
  std::variant<T, failure> data_;
};

/// Done, or the reason why not. `return {};` means done.
template <>
class [[nodiscard]] result<void> {
public:
  using value_type = void;

  result() = default;
  result(failure error) : error_(std::move(error)) {}  // NOLINT

  explicit operator bool() const noexcept { return !error_.has_value(); }
  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }

  [[nodiscard]] const failure& error() const {
    DEEPINFER_CHECK(error_.has_value());
    return *error_;
  }

private:
  std::optional<failure> error_;
};

}  // namespace deepinfer
