#include "actors/node/recipe_config.hpp"

#include "actors/node/text_file.hpp"

namespace deepinfer {
namespace {

constexpr uintmax_t longest_description = 64 << 10;

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
  auto text = read_text_file(config.apply_patch_description, "recipe.apply_patch_description",
                             longest_description);
  if (!text) return text.error();
  options.conversion.apply_patch_description = *std::move(text);
  return options;
}

}  // namespace deepinfer
