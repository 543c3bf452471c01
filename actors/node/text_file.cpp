#include "actors/node/text_file.hpp"

#include "runtime/recipe/conversation.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace deepinfer {

result<std::string> read_text_file(const std::string& path,
                                   std::string_view setting,
                                   uintmax_t most_bytes) {
  const std::string named = path + ", which " + std::string{setting} + " names,";
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  std::ifstream in;
  if (is_file) in.open(path, std::ios::binary);  // opening a pipe would wait for its writer
  if (!is_file || !in)
    return failure{error_code::not_found,
                   "cannot read " + path + ", which " + std::string{setting} + " names"};
  if (std::filesystem::file_size(path, error) > most_bytes)
    return failure{error_code::invalid_argument,
                   named + " is longer than " + std::to_string(most_bytes >> 10) + " KiB"};
  std::ostringstream text;
  text << in.rdbuf();
  std::string out = std::move(text).str();
  // Refused here, once, since it would make every request fail that uses it, or match none.
  if (!text::is_utf8(out) || out.find(recipe::image_placeholder) != std::string::npos)
    return failure{error_code::invalid_argument,
                   named + " is not UTF-8, or spells an image placeholder"};
  return out;
}

}  // namespace deepinfer
