// How one value meets one field: types, ranges, printing.
#include "runtime/base/config.hpp"
#include "runtime/base/config_text.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>

namespace deepinfer {
namespace {

template <class T>
constexpr bool is_whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

std::string join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

/// The kinds of field, as a reader of an error or of `--help` calls them.
enum class field_kind : uint8_t { truth, whole, size, real, duration, text, list };

constexpr std::string_view kind_names[] = {"true or false",
                                           "integer",
                                           "size such as \"64MiB\"",
                                           "number",
                                           "duration such as \"250ms\" or \"10s\"",
                                           "text",
                                           "list of texts"};

std::string print_number(int64_t value, field_kind kind) {
  if (kind == field_kind::size) return config_text::print_size(static_cast<uint64_t>(value));
  if (kind == field_kind::duration)
    return config_text::print_duration(std::chrono::milliseconds{value});
  return std::to_string(value);
}

std::string print_range(const int_range& range, field_kind kind) {
  const bool open_low = range.low == std::numeric_limits<int64_t>::min();
  const bool open_high = range.high == std::numeric_limits<int64_t>::max();
  if (open_low && open_high) return "";
  if (open_high) return "at least " + print_number(range.low, kind);
  if (open_low) return "at most " + print_number(range.high, kind);
  return print_number(range.low, kind) + " to " + print_number(range.high, kind);
}

/// What text from environment or command line means for a kind; nothing if it does not fit.
std::optional<config_value> from_text(const std::string& text, field_kind kind) {
  const auto wrap = [](auto parsed) -> std::optional<config_value> {
    if (!parsed) return std::nullopt;
    return config_value{*parsed};
  };
  switch (kind) {
    case field_kind::truth:
      return wrap(config_text::parse_bool(text));
    case field_kind::whole:
      return wrap(config_text::parse_integer(text));
    case field_kind::size:
      return wrap(config_text::parse_size(text));
    case field_kind::real:
      return wrap(config_text::parse_real(text));
    case field_kind::duration: {
      const auto value = config_text::parse_duration(text);
      if (!value) return std::nullopt;
      return config_value{int64_t{value->count()}};
    }
    case field_kind::text:
      return config_value{text};
    case field_kind::list:
      return config_value{config_text::parse_list(text)};
  }
  return std::nullopt;
}

/// The same for a typed TOML value: sizes and durations may be numbers or text.
std::optional<config_value> from_toml(const config_value& value, field_kind kind) {
  const auto* text = std::get_if<std::string>(&value);
  switch (kind) {
    case field_kind::truth:
      return std::holds_alternative<bool>(value) ? std::optional{value} : std::nullopt;
    case field_kind::whole:
      return std::holds_alternative<int64_t>(value) ? std::optional{value} : std::nullopt;
    case field_kind::size:
    case field_kind::duration:
      if (text != nullptr) return from_text(*text, kind);
      return std::holds_alternative<int64_t>(value) ? std::optional{value} : std::nullopt;
    case field_kind::real:
      if (const auto* whole = std::get_if<int64_t>(&value))
        return config_value{static_cast<double>(*whole)};
      return std::holds_alternative<double>(value) ? std::optional{value} : std::nullopt;
    case field_kind::text:
      return text != nullptr ? std::optional{value} : std::nullopt;
    case field_kind::list:
      return std::holds_alternative<std::vector<std::string>>(value) ? std::optional{value}
                                                                     : std::nullopt;
  }
  return std::nullopt;
}

template <class Target>
field_kind kind_of(const Target& target, bool is_size) {
  return std::visit(
      [is_size](auto* field) {
        using T = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<T, bool>) return field_kind::truth;
        if constexpr (std::is_same_v<T, double>) return field_kind::real;
        if constexpr (std::is_same_v<T, std::string>) return field_kind::text;
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return field_kind::list;
        if constexpr (std::is_same_v<T, std::chrono::milliseconds>) return field_kind::duration;
        return is_size ? field_kind::size : field_kind::whole;
      },
      target);
}

bool is_allowed(const config_value& value, const choices& c) {
  const auto known = [&c](const std::string& text) {
    return std::find(c.allowed.begin(), c.allowed.end(), text) != c.allowed.end();
  };
  if (const auto* text = std::get_if<std::string>(&value)) return known(*text);
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  return list != nullptr && std::all_of(list->begin(), list->end(), known);
}

/// Why a value of the right kind is out of range; empty if it is not.
template <class Limit>
std::string range_error(const config_value& value, const Limit& limit, field_kind kind) {
  if (const auto* range = std::get_if<int_range>(&limit)) {
    const int64_t number = std::get<int64_t>(value);
    if (number < range->low || number > range->high)
      return "must be " + print_range(*range, kind) + ", not " + print_number(number, kind);
  }
  if (const auto* range = std::get_if<real_range>(&limit)) {
    const double number = std::get<double>(value);
    if (!(number >= range->low && number <= range->high))
      return "must be " + config_text::print_real(range->low) + " to " +
             config_text::print_real(range->high) + ", not " + config_text::print_real(number);
  }
  if (const auto* c = std::get_if<choices>(&limit); c != nullptr && !is_allowed(value, *c))
    return "must be one of: " + join(c->allowed);
  return "";
}

}  // namespace

result<config_value> config_schema::fit(const described_field& field, const assignment& a) const {
  const field_kind kind = kind_of(field.target, field.is_size);
  const auto prefix = a.where + ": " + field.key + " ";
  const auto value =
      a.is_text ? from_text(std::get<std::string>(a.value), kind) : from_toml(a.value, kind);
  if (!value)
    return failure{error_code::invalid_argument,
                   prefix + "must be a value of this kind: " +
                       std::string(kind_names[static_cast<size_t>(kind)])};
  if (const std::string why = range_error(*value, field.range, kind); !why.empty())
    return failure{error_code::invalid_argument, prefix + why};
  return *value;
}

void config_schema::store(const described_field& field, const config_value& value) {
  std::visit(
      [&value](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
          *target = std::chrono::milliseconds{std::get<int64_t>(value)};
        } else if constexpr (is_whole<T>) {
          *target = static_cast<T>(std::get<int64_t>(value));  // `fit` has checked the range
        } else {
          *target = std::get<T>(value);
        }
      },
      field.target);
}

std::string config_schema::print(const described_field& field) {
  return std::visit(
      [&field](auto* target) -> std::string {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
          return *target ? "true" : "false";
        } else if constexpr (std::is_same_v<T, double>) {
          return config_text::print_real(*target);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return config_text::quote(*target);
        } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
          return config_text::quote(config_text::print_duration(*target));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::vector<std::string> quoted;
          for (const std::string& item : *target) quoted.push_back(config_text::quote(item));
          return std::string("[").append(join(quoted)).append("]");
        } else {
          if (field.is_size)
            return config_text::quote(config_text::print_size(static_cast<uint64_t>(*target)));
          return std::to_string(*target);
        }
      },
      field.target);
}

std::string config_schema::type_and_range(const described_field& field) {
  const field_kind kind = kind_of(field.target, field.is_size);
  std::string out{kind_names[static_cast<size_t>(kind)]};
  if (const auto* range = std::get_if<int_range>(&field.range)) {
    const std::string text = print_range(*range, kind);
    if (!text.empty()) out += ", " + text;
  }
  if (const auto* range = std::get_if<real_range>(&field.range))
    out +=
        ", " + config_text::print_real(range->low) + " to " + config_text::print_real(range->high);
  if (const auto* c = std::get_if<choices>(&field.range)) out += ": " + join(c->allowed);
  return out;
}

}  // namespace deepinfer
