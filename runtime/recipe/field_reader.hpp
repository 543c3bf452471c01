#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/json_value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// The first complaint about a request. Readers go on after it, with neutral values, so that
/// converters need not check after every field; whoever finishes looks at it once.
using first_error = std::optional<api_error>;

/// Typed access to the fields of one JSON object of a request. Unknown fields are ignored, null is
/// the same as absent, a field of the wrong type or given twice is an error that names its path.
class field_reader {
public:
  /// `path` is the object's own place (`messages[2]`), empty for the whole body.
  field_reader(const json_value& object, std::string path, first_error& error);

  /// The field, or null when absent (or null).
  [[nodiscard]] const json_value* find(std::string_view key);
  /// The same, but absence is an error.
  [[nodiscard]] const json_value* require(std::string_view key);

  [[nodiscard]] std::optional<std::string> string(std::string_view key);
  [[nodiscard]] std::string required_string(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);

  struct real_range {
    double least, most;
    bool open_below = false;  ///< `least` itself is not allowed
  };
  [[nodiscard]] std::optional<double> real(std::string_view key, real_range allowed);

  struct integer_range {
    int64_t least, most;
  };
  [[nodiscard]] std::optional<int64_t> integer(std::string_view key, integer_range allowed);
  [[nodiscard]] const json_array* array(std::string_view key);

  [[nodiscard]] std::string path(std::string_view key) const;
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  /// Complains about a field, unless something was wrong before; empty `key`: about the object.
  void fail(std::string_view key, std::string_view why);

private:
  const json_object* members_ = nullptr;
  std::string path_;
  first_error& error_;
};

/// Names the type of a value in a message.
[[nodiscard]] std::string_view type_name(const json_value& value);

/// Client text for a message: in quotes, cut to 64 bytes between characters.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace deepinfer::recipe
