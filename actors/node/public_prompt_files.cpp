#include "actors/node/public_prompt_files.hpp"

#include "actors/node/text_file.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/recipe/system_prompt.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace deepinfer {
namespace {

constexpr std::string_view setting = "kvcache.public_prompts";

failure wrong(const std::string& why) {
  return {error_code::invalid_argument, std::string{setting} + ": " + why};
}

using beginnings = std::vector<std::vector<int32_t>>;

result<beginnings> read_one(const std::string& file, const recipe::prompt_reader& reader) {
  auto text = read_text_file(file, setting, max_public_prompt_bytes);
  if (!text) return text.error();
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  auto tokens = recipe::system_beginnings(*text, reader);
  if (!tokens) return wrong(file + ": " + tokens.error().message);
  size_t longest = 0;
  for (const auto& one : *tokens) longest = std::max(longest, one.size());
  if (longest < model::cache_block_tokens)
    return wrong(file + " is too short to be shared: with what prompts begin with it is " +
                 std::to_string(longest) + " tokens, and blocks are of " +
                 std::to_string(model::cache_block_tokens) + "; take it off the list");
  return *std::move(tokens);
}

}  // namespace

result<std::shared_ptr<const public_prompts>> read_public_prompts(
    const std::vector<std::string>& files, const recipe::prompt_reader& reader) {
  if (files.empty()) return std::shared_ptr<const public_prompts>{};
  if (files.size() > max_public_prompts)
    return wrong("names " + std::to_string(files.size()) + " files; at most " +
                 std::to_string(max_public_prompts) + " prompts are compared with each request");
  beginnings all;
  for (const std::string& file : files) {
    auto one = read_one(file, reader);
    if (!one) return one.error();
    std::move(one->begin(), one->end(), std::back_inserter(all));
  }
  return std::make_shared<const public_prompts>(std::move(all));
}

}  // namespace deepinfer
