#include "runtime/model/json_fields.hpp"

#include <cmath>
#include <fstream>
#include <utility>

namespace deepinfer::model {

json_fields::json_fields(simdjson::dom::element element, std::string path, trouble& first_trouble)
    : element_(element), path_(std::move(path)), trouble_(first_trouble) {
  if (!element_.is_object()) complain("", "must be an object");
}

void json_fields::complain(std::string_view key, std::string_view what) const {
  if (trouble_) return;
  std::string name = path_;
  if (!key.empty()) name.append(".").append(key);
  trouble_ = failure{error_code::invalid_argument, name.append(" ").append(what)};
}

std::optional<simdjson::dom::element> json_fields::find(std::string_view key) const {
  simdjson::dom::object object;
  simdjson::dom::element found;
  if (element_.get(object) != simdjson::SUCCESS) return std::nullopt;
  if (object.at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return found;
}

bool json_fields::has(std::string_view key) const {
  return find(key).has_value();
}

uint32_t json_fields::whole(std::string_view key, whole_range range) const {
  const auto found = find(key);
  uint64_t value = 0;
  if (!found) {
    complain(key, "is missing");
  } else if (found->get(value) != simdjson::SUCCESS || value < range.least || value > range.most) {
    complain(key, "must be a whole number in " + std::to_string(range.least) + ".." +
                      std::to_string(range.most));
    value = range.least;
  }
  return static_cast<uint32_t>(value);
}

uint32_t json_fields::whole_or(std::string_view key, whole_range range, uint32_t fallback) const {
  return has(key) ? whole(key, range) : fallback;
}

double json_fields::real(std::string_view key, real_range range) const {
  const auto found = find(key);
  double value = 0;
  if (!found) {
    complain(key, "is missing");
  } else if (found->get(value) != simdjson::SUCCESS || !std::isfinite(value) ||
             value < range.least || value > range.most) {
    complain(key, "must be a number in " + std::to_string(range.least) + ".." +
                      std::to_string(range.most));
    value = range.least;
  }
  return value;
}

double json_fields::real_or(std::string_view key, real_range range, double fallback) const {
  return has(key) ? real(key, range) : fallback;
}

std::string json_fields::text_or(std::string_view key, std::string_view fallback) const {
  const auto found = find(key);
  std::string_view value = fallback;
  if (found && found->get(value) != simdjson::SUCCESS) {
    complain(key, "must be a text");
    value = fallback;
  }
  return std::string(value);
}

bool json_fields::flag_or(std::string_view key, bool fallback) const {
  const auto found = find(key);
  bool value = fallback;
  if (found && found->get(value) != simdjson::SUCCESS) {
    complain(key, "must be true or false");
    value = fallback;
  }
  return value;
}

std::vector<uint64_t> json_fields::wholes(std::string_view key,
                                          whole_range range,
                                          size_t longest) const {
  const auto found = find(key);
  if (!found) return {};
  simdjson::dom::array array;
  if (found->get(array) != simdjson::SUCCESS || array.size() > longest) {
    complain(key, "must be an array of at most " + std::to_string(longest) + " numbers");
    return {};
  }
  std::vector<uint64_t> out;
  out.reserve(array.size());
  for (const simdjson::dom::element item : array) {
    uint64_t value = 0;
    if (item.get(value) != simdjson::SUCCESS || value < range.least || value > range.most) {
      complain(key, "must hold whole numbers in " + std::to_string(range.least) + ".." +
                        std::to_string(range.most));
      return {};
    }
    out.push_back(value);
  }
  return out;
}

std::optional<json_fields> json_fields::object(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return json_fields(*found, path_ + "." + std::string(key), trouble_);
}

result<void> json_document::parse(std::string_view text, std::string_view name) {
  const auto error = parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::SUCCESS) return {};
  return failure{error_code::corrupt,
                 std::string(name) + " is not valid JSON: " + simdjson::error_message(error)};
}

result<std::string> read_text(const std::filesystem::path& file, size_t most_bytes) {
  // Opening a pipe would wait for its writer.
  std::error_code trouble;
  if (std::filesystem::exists(file, trouble) && !std::filesystem::is_regular_file(file, trouble))
    return failure{error_code::not_found, file.string() + " is not a regular file"};
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return failure{error_code::not_found, "cannot open " + file.string()};
  const std::streamoff size = in.tellg();
  if (size < 0) return failure{error_code::not_found, file.string() + " is not a regular file"};
  if (static_cast<uint64_t>(size) > most_bytes)
    return failure{error_code::too_large,
                   file.string() + " is longer than " + std::to_string(most_bytes) + " bytes"};
  std::string text(static_cast<size_t>(size), '\0');
  in.seekg(0);
  in.read(text.data(), size);
  if (!in) return failure{error_code::corrupt, "cannot read " + file.string()};
  return text;
}

}  // namespace deepinfer::model
