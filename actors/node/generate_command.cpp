#include "actors/node/commands.hpp"
#include "actors/node/token_file.hpp"
#include "runtime/model/generate.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace deepinfer {
namespace {

struct generate_flags {
  std::string model, prompt, tokens_file, level = "L0";
  bool plain = false, json = false, thinking = false, ignore_eos = false;
  uint32_t max_tokens = 256;
  model::sampling_params sampling;
};

int fail(const failure& why, int code) {
  std::fprintf(stderr, "deepinfer generate: %s\n", why.detail.c_str());
  return code;
}

result<std::vector<int32_t>> prompt_tokens(const generate_flags& flags,
                                           const text::tokenizer& tokenizer) {
  if (!flags.tokens_file.empty()) return read_token_file(flags.tokens_file);
  if (flags.plain) return tokenizer.encode(flags.prompt, {});
  recipe::conversation talk;
  talk.thinking = flags.thinking;
  talk.messages.push_back({.content = flags.prompt});
  const recipe::rendered_prompt rendered = recipe::render(talk);
  return tokenizer.encode(rendered.text, rendered.specials);
}

int run(const generate_flags& flags) {
  const std::filesystem::path dir{flags.model};
  auto tokenizer = text::load_tokenizer(dir / "tokenizer.json");
  if (!tokenizer) return fail(tokenizer.error(), exit_usage);
  const auto prompt = prompt_tokens(flags, **tokenizer);
  if (!prompt) return fail(prompt.error(), exit_usage);
  model::v41_options options;
  options.level = flags.level == "L1" ? model::numeric_level::L1 : model::numeric_level::L0;
  auto made = model::make_v41_model(dir, options);
  if (!made) return fail(made.error(), exit_usage);
  text::stream_decoder decoder{*tokenizer};
  const auto show = [&](int32_t token) {
    const auto& stops = (*made)->info().stop_tokens;
    if (flags.json || std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
    const auto released = decoder.push(token);
    std::fwrite(released.text.data(), 1, released.text.size(), stdout);
    return std::fflush(stdout) == 0;
  };
  const auto out = model::generate(**made, *prompt,
                                   {flags.max_tokens, 256, flags.ignore_eos, flags.sampling}, show);
  if (!out) return fail(out.error(), exit_failed);
  if (flags.json) {
    std::printf("{\"prompt\":%s,\"tokens\":%s,\"end\":\"%s\"}\n", token_json(*prompt).c_str(),
                token_json(out->tokens).c_str(),
                out->end == model::generate_end::stop ? "stop" : "length");
  } else {
    std::fputc('\n', stdout);
  }
  return exit_done;
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("generate", "Offline inference in this process, without a cluster.");
  auto flags = std::make_shared<generate_flags>();
  command->add_option("--model", flags->model, "folder of the checkpoint")
      ->envname(model_folder_variable)
      ->required();
  auto* prompt = command->add_option("--prompt", flags->prompt, "what the user says");
  auto* file = command->add_option("--tokens-file", flags->tokens_file,
                                   "prompt as a JSON array of token ids");
  prompt->excludes(file);
  command->add_flag("--plain", flags->plain, "take the prompt as it is, without the chat format");
  command->add_flag("--thinking", flags->thinking, "let the model think first");
  command->add_flag("--json", flags->json, "print token ids as JSON");
  command->add_flag("--ignore-eos", flags->ignore_eos, "go on to --max-tokens");
  command->add_option("--max-tokens", flags->max_tokens, "most output tokens")
      ->check(CLI::Range(1u, 1u << 20));
  command->add_option("--temperature", flags->sampling.temperature, "0 is greedy (default)")
      ->check(CLI::Range(0.0f, 2.0f));
  command->add_option("--top-p", flags->sampling.top_p, "nucleus")->check(CLI::Range(0.0f, 1.0f));
  command->add_option("--top-k", flags->sampling.top_k, "0 is off");
  command->add_option("--seed", flags->sampling.seed, "of the sampling noise");
  command->add_option("--level", flags->level, "L0 or L1")->check(CLI::IsMember({"L0", "L1"}));
  command->callback([flags, command, &exit_code] {
    if (command->count("--prompt") + command->count("--tokens-file") == 0) {
      exit_code =
          fail({error_code::invalid_argument, "give --prompt or --tokens-file"}, exit_usage);
      return;
    }
    exit_code = run(*flags);
  });
}

}  // namespace deepinfer
