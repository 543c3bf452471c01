#include "actors/node/token_file.hpp"

#include <simdjson.h>

namespace deepinfer {

result<std::vector<int32_t>> read_token_file(const std::string& path) {
  const failure wrong{error_code::invalid_argument, path + " is no JSON array of token ids"};
  simdjson::padded_string text;
  if (simdjson::padded_string::load(path).get(text) != simdjson::SUCCESS)
    return failure{error_code::not_found, "cannot read " + path};
  simdjson::dom::parser parser;
  simdjson::dom::array array;
  if (parser.parse(text).get(array) != simdjson::SUCCESS) return wrong;
  std::vector<int32_t> ids;
  for (const auto element : array) {
    int64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) return wrong;
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::string token_json(std::span<const int32_t> ids) {
  std::string text = "[";
  for (const int32_t id : ids) text.append(text.size() > 1 ? "," : "").append(std::to_string(id));
  return text + "]";
}

}  // namespace deepinfer
