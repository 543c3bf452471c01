#include "runtime/recipe/field_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace deepinfer::recipe {
namespace {

std::string shown(double number) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), end.ptr};
}

}  // namespace

std::string_view type_name(const json_value& value) {
  static constexpr std::array<std::string_view, 8> names = {"null",       "a boolean", "an integer",
                                                            "an integer", "a number",  "a string",
                                                            "an array",   "an object"};
  return names[value.data.index()];
}

std::string in_quotes(std::string_view text) {
  constexpr size_t most = 64;
  size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  std::string out(1, '\'');
  out.append(text, 0, end).append(end < text.size() ? "...'" : "'");
  return out;
}

field_reader::field_reader(const json_value& object, std::string path, first_error& error)
    : members_(object.as<json_object>()), path_(std::move(path)), error_(error) {
  if (members_ == nullptr) fail({}, "must be an object, not " + std::string(type_name(object)));
}

std::string field_reader::path(std::string_view key) const {
  if (key.empty()) return path_;
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void field_reader::fail(std::string_view key, std::string_view why) {
  if (error_) return;
  std::string where = path(key);
  std::string message = (where.empty() ? "The request body" : "`" + where + "`");
  message.append(" ").append(why);
  error_ = bad_request(std::move(where), std::move(message));
}

const json_value* field_reader::find(std::string_view key) {
  const json_value* found = nullptr;
  if (members_ == nullptr) return nullptr;
  for (const json_member& member : *members_) {
    if (member.key != key) continue;
    if (found != nullptr) fail(key, "is given twice");
    found = &member.value;
  }
  return found == nullptr || found->is_null() ? nullptr : found;
}

const json_value* field_reader::require(std::string_view key) {
  const json_value* found = find(key);
  if (found == nullptr) fail(key, "is required");
  return found;
}

std::optional<std::string> field_reader::string(std::string_view key) {
  const json_value* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* text = found->as<std::string>()) return *text;
  fail(key, "must be a string, not " + std::string(type_name(*found)));
  return std::nullopt;
}

std::string field_reader::required_string(std::string_view key) {
  if (require(key) == nullptr) return {};
  return string(key).value_or(std::string{});
}

std::optional<bool> field_reader::boolean(std::string_view key) {
  const json_value* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* truth = found->as<bool>()) return *truth;
  fail(key, "must be true or false, not " + std::string(type_name(*found)));
  return std::nullopt;
}

std::optional<double> field_reader::real(std::string_view key, real_range allowed) {
  const json_value* found = find(key);
  if (found == nullptr) return std::nullopt;
  double number = 0;
  if (const auto* real = found->as<double>()) {
    number = *real;
  } else if (const auto* integer = found->as<int64_t>()) {
    number = static_cast<double>(*integer);
  } else if (const auto* large = found->as<uint64_t>()) {
    number = static_cast<double>(*large);
  } else {
    fail(key, "must be a number, not " + std::string(type_name(*found)));
    return std::nullopt;
  }
  const bool above = allowed.open_below ? number > allowed.least : number >= allowed.least;
  if (above && number <= allowed.most) return number;
  fail(key, std::string("must be ") + (allowed.open_below ? "above " : "from ") +
                shown(allowed.least) + " to " + shown(allowed.most) + ", not " + shown(number));
  return std::nullopt;
}

std::optional<int64_t> field_reader::integer(std::string_view key, integer_range allowed) {
  const json_value* found = find(key);
  if (found == nullptr) return std::nullopt;
  const auto* number = found->as<int64_t>();
  if (number == nullptr && found->as<uint64_t>() == nullptr) {
    fail(key, "must be an integer, not " + std::string(type_name(*found)));
    return std::nullopt;
  }
  if (number != nullptr && *number >= allowed.least && *number <= allowed.most) return *number;
  fail(key, "must be an integer from " + std::to_string(allowed.least) + " to " +
                std::to_string(allowed.most));
  return std::nullopt;
}

const json_array* field_reader::array(std::string_view key) {
  const json_value* found = find(key);
  if (found == nullptr) return nullptr;
  const auto* items = found->as<json_array>();
  if (items == nullptr) fail(key, "must be an array, not " + std::string(type_name(*found)));
  return items;
}

}  // namespace deepinfer::recipe
