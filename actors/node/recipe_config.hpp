#pragma once

#include "proto/types/limits.hpp"
#include "runtime/base/config.hpp"
#include "runtime/recipe/prepare.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[recipe]`.
struct recipe_config {
  std::vector<std::string> aliases;
  bool thinking_by_default = true;
  bool thinking_forces_temperature = true;
  bool report_reasoning_tokens = false;
  bool repair_arguments = false;
  std::string history_reasoning = "keep";
  std::string web_search_in_responses = "ignore";
  std::string web_search_in_messages = "refuse";
  std::string apply_patch_description;
  uint32_t default_max_tokens = 8192;
  uint32_t default_max_tokens_thinking = 65536;
  uint32_t max_prompt_tokens = limits::max_prompt_tokens;

  template <class V>
  void describe(V& v) {
    v.field("aliases", aliases, "More names that requests may call the model by.");
    v.field("thinking_by_default", thinking_by_default,
            "Requests that say nothing about it think first.");
    v.field("thinking_forces_temperature", thinking_forces_temperature,
            "A thinking request is sampled with temperature 1, whatever it says, as the published "
            "service does.");
    v.field("report_reasoning_tokens", report_reasoning_tokens, "Count reasoning tokens in usage.");
    v.field(
        "repair_arguments", repair_arguments,
        "Tool arguments that the model marked up badly are mended to valid JSON: without a type "
        "they are strings, without a value null.");
    v.field("history_reasoning", history_reasoning, one_of({"keep", "drop_before_last_user"}),
            "Earlier turns' reasoning: as sent, or without that of turns before the last question "
            "when no tools are declared.");
    v.field("web_search_in_responses", web_search_in_responses, one_of({"ignore", "refuse"}),
            "What a web_search tool does in Responses; nobody here can run it.");
    v.field("web_search_in_messages", web_search_in_messages, one_of({"ignore", "refuse"}),
            "The same in Messages.");
    v.field("apply_patch_description", apply_patch_description,
            "File with the description of the tool apply_patch; empty: our own words.");
    v.field("default_max_tokens", default_max_tokens, between(1, 1 << 20),
            "Output limit of requests that name none.");
    v.field("default_max_tokens_thinking", default_max_tokens_thinking, between(1, 1 << 20),
            "The same when the model thinks.");
    v.field("max_prompt_tokens", max_prompt_tokens, between(1, 1 << 20), "Longest prompt.");
  }
};

/// Reads the file that the settings name; `not_found` or `invalid_argument` says what is wrong
/// with it.
[[nodiscard]] result<recipe::recipe_options> make_recipe_options(const recipe_config& config);

}  // namespace deepinfer
