#include "actors/node/prompts_file.hpp"

#include <simdjson.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace deepinfer {

result<std::vector<std::string>> read_prompts_file(const std::string& path) {
  std::error_code trouble;
  const auto size = std::filesystem::file_size(path, trouble);
  std::ifstream in(path, std::ios::binary);
  if (trouble || !in) return failure{error_code::not_found, "cannot read " + path};
  if (size > prompts_file_limits::bytes)
    return failure{error_code::too_large, path + " has more than " +
                                              std::to_string(prompts_file_limits::bytes >> 20) +
                                              " MiB; split it"};
  std::vector<std::string> prompts;
  simdjson::dom::parser parser;
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string_view prompt;
    if (parser.parse(line).get(prompt) != simdjson::SUCCESS)
      return failure{error_code::invalid_argument,
                     path + " line " + std::to_string(number) + " is no JSON string"};
    if (prompts.size() == prompts_file_limits::prompts)
      return failure{error_code::too_large, path + " has more than " +
                                                std::to_string(prompts_file_limits::prompts) +
                                                " prompts; split it"};
    prompts.emplace_back(prompt);
  }
  if (prompts.empty()) return failure{error_code::invalid_argument, path + " holds no prompt"};
  return prompts;
}

}  // namespace deepinfer
