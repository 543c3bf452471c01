#include "actors/node/recipe_config.hpp"

#include "runtime/recipe/conversation.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace deepinfer {
namespace {

constexpr uintmax_t longest_description = 64 << 10;

result<std::string> read_description(const std::string& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  std::ifstream in{path, std::ios::binary};
  if (!is_file || !in)
    return failure{error_code::not_found,
                   "cannot read " + path + ", which recipe.apply_patch_description names"};
  if (std::filesystem::file_size(path, error) > longest_description)
    return failure{error_code::invalid_argument, path + " is longer than 64 KiB"};
  std::ostringstream text;
  text << in.rdbuf();
  std::string out = std::move(text).str();
  // Refused here, once, since it would make every request fail that declares the tool.
  if (!text::is_utf8(out) || out.find(recipe::image_placeholder) != std::string::npos)
    return failure{error_code::invalid_argument,
                   path + " is not UTF-8, or spells an image placeholder"};
  return out;
}

}  // namespace

result<recipe::recipe_options> make_recipe_options(const recipe_config& config) {
  recipe::recipe_options options;
  options.conversion.thinking_by_default = config.thinking_by_default;
  options.conversion.refuse_web_search_in_responses = config.web_search_in_responses == "refuse";
  options.conversion.refuse_web_search_in_messages = config.web_search_in_messages == "refuse";
  if (config.history_reasoning == "drop_before_last_user")
    options.rendering.history = recipe::history_reasoning::drop_before_last_user;
  options.thinking_forces_temperature = config.thinking_forces_temperature;
  options.repair_arguments = config.repair_arguments;
  options.report_reasoning_tokens = config.report_reasoning_tokens;
  options.default_max_tokens = config.default_max_tokens;
  options.default_max_tokens_thinking = config.default_max_tokens_thinking;
  options.max_prompt_tokens = config.max_prompt_tokens;
  if (config.apply_patch_description.empty()) return options;
  auto text = read_description(config.apply_patch_description);
  if (!text) return text.error();
  options.conversion.apply_patch_description = *std::move(text);
  return options;
}

}  // namespace deepinfer
