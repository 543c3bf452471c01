#include "runtime/recipe/json_value.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace deepinfer::recipe {
namespace {

namespace dom = simdjson::dom;

failure refuse(std::string detail) {
  return {error_code::invalid_argument, "not valid JSON: " + std::move(detail)};
}

bool is_number_character(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/// True for integers that the parser refuses (beyond 64 bits) or misreads (`-0` as 0); both are
/// doubles to us.
bool wants_fraction(std::string_view number) {
  if (number == "-0") return true;
  const auto overflows = [number](auto into) {
    const auto read = std::from_chars(number.data(), number.data() + number.size(), into);
    return read.ec == std::errc::result_out_of_range && read.ptr == number.data() + number.size();
  };
  return number.starts_with('-') ? overflows(int64_t{}) : overflows(uint64_t{});
}

/// Writes such integers with a fraction, which changes no value, and leaves all else as it is.
std::string with_fractions(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string || c == '"') {
      if (in_string && c == '\\') out += text[i++];
      if (c == '"') in_string = !in_string;
      if (i < text.size()) out += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_number_character(text[end])) ++end;
    const std::string_view number = text.substr(i, end - i);
    out += number.empty() ? text.substr(i, 1) : number;
    if (!number.empty() && wants_fraction(number)) out += ".0";
    i = std::max(end, i + 1);
  }
  return out;
}

class builder {
public:
  explicit builder(size_t max_values) : left_(max_values) {}

  bool build(dom::element from, json_value& to) {
    if (left_-- == 0) return false;
    switch (from.type()) {
      case dom::element_type::ARRAY:
        return build_array(from.get_array().value_unsafe(), to);
      case dom::element_type::OBJECT:
        return build_object(from.get_object().value_unsafe(), to);
      case dom::element_type::INT64:
        to.data = from.get_int64().value_unsafe();
        break;
      case dom::element_type::UINT64:
        to.data = from.get_uint64().value_unsafe();
        break;
      case dom::element_type::DOUBLE:
        to.data = from.get_double().value_unsafe();
        break;
      case dom::element_type::STRING:
        to.data = std::string(from.get_string().value_unsafe());
        break;
      case dom::element_type::BOOL:
        to.data = from.get_bool().value_unsafe();
        break;
      case dom::element_type::NULL_VALUE:
        break;
    }
    return true;
  }

private:
  bool build_array(dom::array from, json_value& to) {
    auto& items = to.data.emplace<json_array>();
    for (const dom::element item : from)
      if (!build(item, items.emplace_back())) return false;
    return true;
  }

  bool build_object(dom::object from, json_value& to) {
    auto& members = to.data.emplace<json_object>();
    for (const dom::key_value_pair member : from) {
      members.push_back({std::string(member.key), {}});
      if (!build(member.value, members.back().value)) return false;
    }
    return true;
  }

  size_t left_;
};

simdjson::error_code read(dom::parser& parser, std::string_view text, dom::element& root) {
  return parser.parse(text.data(), text.size()).get(root);
}

}  // namespace

result<json_value> parse_json(std::string_view text, const json_limits& limits) {
  if (text.size() > limits.max_bytes)
    return failure{error_code::too_large, "a JSON text of " + std::to_string(text.size()) +
                                              " bytes, more than " +
                                              std::to_string(limits.max_bytes)};
  dom::parser parser(limits.max_bytes * 2 + 1024);
  if (parser.allocate(std::max<size_t>(text.size(), 64), limits.max_depth) != simdjson::SUCCESS)
    return failure{error_code::no_capacity, "no memory to read the JSON text"};
  dom::element root;
  std::string rewritten;
  auto error = read(parser, text, root);
  if (error == simdjson::NUMBER_ERROR ||
      (error == simdjson::SUCCESS && text.find("-0") != std::string_view::npos)) {
    rewritten = with_fractions(text);
    error = read(parser, rewritten, root);
  }
  if (error == simdjson::DEPTH_ERROR)
    return failure{error_code::too_large,
                   "JSON nested deeper than " + std::to_string(limits.max_depth) + " levels"};
  if (error != simdjson::SUCCESS) return refuse(simdjson::error_message(error));
  json_value value;
  if (!builder(limits.max_values).build(root, value))
    return failure{error_code::too_large,
                   "JSON with more than " + std::to_string(limits.max_values) + " values"};
  return value;
}

}  // namespace deepinfer::recipe
