#include "actors/node/commands.hpp"
#include "actors/node/prompt_images.hpp"
#include "actors/node/prompts_file.hpp"
#include "actors/node/token_file.hpp"
#include "runtime/model/generate.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {
namespace {

struct generate_flags {
  std::string model, prompts_file, tokens_file, level = "L1", kept_rows;
  std::vector<std::string> prompts, images;
  bool plain = false, json = false, thinking = false, ignore_eos = false;
  uint32_t max_tokens = 256, threads = 1;
  model::generate_options run;
  model::sampling_params sampling;
};

using token_lists = std::vector<std::vector<int32_t>>;

int fail(const failure& why, int code) {
  std::fprintf(stderr, "deepinfer generate: %s\n", why.detail.c_str());
  return code;
}

result<std::vector<int32_t>> encoded(const generate_flags& flags,
                                     const text::tokenizer& tokenizer,
                                     const std::string& prompt) {
  if (flags.plain) return tokenizer.encode(prompt, {});
  recipe::message said{.content = prompt};
  for (const std::string& file : flags.images) {
    said.content.insert(0, recipe::image_placeholder);
    said.images.push_back({.url = file});
  }
  recipe::conversation talk;
  talk.thinking = flags.thinking;
  talk.messages.push_back(std::move(said));
  const recipe::rendered_prompt rendered = recipe::render(talk);
  return tokenizer.encode(rendered.text, rendered.specials);
}

// The tokenizer is needed for text alone, going in or coming out.
result<std::shared_ptr<const text::tokenizer>> needed_tokenizer(const generate_flags& flags) {
  const bool text_in = !flags.prompts.empty() || !flags.prompts_file.empty();
  if (!text_in && flags.json) return std::shared_ptr<const text::tokenizer>();
  return text::load_tokenizer(std::filesystem::path(flags.model) / "tokenizer.json");
}

// The prompts of the command line, then those of the files.
result<token_lists> prompt_tokens(const generate_flags& flags, const text::tokenizer* tokenizer) {
  std::vector<std::string> texts = flags.prompts;
  if (!flags.prompts_file.empty()) {
    auto read = read_prompts_file(flags.prompts_file);
    if (!read) return read.error();
    texts.insert(texts.end(), read->begin(), read->end());
  }
  token_lists out;
  for (const std::string& text : texts) {
    auto tokens = encoded(flags, *tokenizer, text);
    if (!tokens) return tokens.error();
    out.push_back(*std::move(tokens));
  }
  if (!flags.tokens_file.empty()) {
    auto tokens = read_token_file(flags.tokens_file);
    if (!tokens) return tokens.error();
    out.push_back(*std::move(tokens));
  }
  return out;
}

// With the images, if there are any, in the only prompt.
result<std::vector<illustrated_prompt>> complete_prompts(const generate_flags& flags,
                                                         const text::tokenizer* tokenizer,
                                                         model::numeric_level level) {
  auto tokens = prompt_tokens(flags, tokenizer);
  if (!tokens) return tokens.error();
  std::vector<illustrated_prompt> out;
  if (flags.images.empty()) {
    for (auto& list : *tokens) out.push_back({std::move(list), {}, {}});
    return out;
  }
  if (tokens->size() != 1)
    return failure{error_code::invalid_argument, "--image goes with one prompt"};
  auto prompt = illustrate(std::move(tokens->front()), {flags.model, flags.images, level});
  if (!prompt) return prompt.error();
  out.push_back(*std::move(prompt));
  return out;
}

result<model::v41_options> model_options(const generate_flags& flags) {
  model::v41_options options;
  options.level = *model::parse_level(flags.level);
  options.draft_tokens = flags.run.draft_tokens;
  options.threads = flags.threads;
  if (flags.kept_rows.empty()) return options;
  uint32_t rows = 0;
  const char* end = flags.kept_rows.data() + flags.kept_rows.size();
  const auto read = std::from_chars(flags.kept_rows.data(), end, rows);
  const bool number = read.ec == std::errc() && read.ptr == end && rows != 0;
  if (!number && flags.kept_rows != "all")
    return failure{error_code::invalid_argument, "--kept-rows is a number of rows, or all"};
  options.kept_rows = rows;
  return options;
}

const char* name_of(model::generate_end end) {
  switch (end) {
    case model::generate_end::stop:
      return "stop";
    case model::generate_end::length:
      return "length";
    case model::generate_end::cancelled:
      return "cancelled";
    case model::generate_end::failed:
      return "failed";
  }
  return "failed";
}

// A line for each prompt; `acceptance` is the share of the drafts asked for.
void print_json(std::span<const illustrated_prompt> prompts,
                std::span<const model::generated> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const model::generated& g = out[i];
    std::printf("{\"prompt\":%s,\"tokens\":%s,\"end\":\"%s\",\"steps\":%u",
                token_json(prompts[i].tokens).c_str(), token_json(g.tokens).c_str(), name_of(g.end),
                g.steps);
    if (g.drafted != 0)
      std::printf(",\"drafted\":%u,\"accepted\":%u,\"acceptance\":%.4f", g.drafted, g.accepted,
                  static_cast<double>(g.accepted) / g.drafted);
    std::puts("}");
  }
}

// The text of a single prompt as it comes; of several, when all are over, since they would tear
// each other.
class live_text {
public:
  live_text(std::shared_ptr<const text::tokenizer> tokenizer,
            std::vector<int32_t> stop_tokens,
            size_t prompts)
      : stop_tokens_(std::move(stop_tokens)), waiting_(prompts) {
    for (size_t i = 0; i < prompts; ++i) decoders_.emplace_back(tokenizer);
  }

  bool show(size_t prompt, int32_t token) {
    if (std::ranges::find(stop_tokens_, token) != stop_tokens_.end()) return true;
    const auto released = decoders_[prompt].push(token);
    if (waiting_.size() > 1) {
      waiting_[prompt] += released.text;
      return true;
    }
    return print(released.text);
  }

  void finish() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_.size() > 1) std::printf("[%zu] ", i);
      print(waiting_[i]);
      std::fputc('\n', stdout);
    }
  }

private:
  static bool print(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  }

  std::vector<int32_t> stop_tokens_;
  std::vector<std::string> waiting_;
  std::vector<text::stream_decoder> decoders_;
};

int run(const generate_flags& flags) {
  const auto options = model_options(flags);
  if (!options) return fail(options.error(), exit_usage);
  const auto tokenizer = needed_tokenizer(flags);
  if (!tokenizer) return fail(tokenizer.error(), exit_usage);
  const auto prompts = complete_prompts(flags, tokenizer->get(), options->level);
  if (!prompts) return fail(prompts.error(), exit_usage);
  auto made = model::make_v41_model(flags.model, *options);
  if (!made) return fail(made.error(), exit_usage);
  std::vector<model::generate_prompt> asked;
  for (const illustrated_prompt& prompt : *prompts)
    asked.push_back({.tokens = prompt.tokens,
                     .images = prompt.images,
                     .sampling = flags.sampling,
                     .max_tokens = flags.max_tokens,
                     .ignore_eos = flags.ignore_eos});
  live_text text(*tokenizer, (*made)->info().stop_tokens, asked.size());
  const auto show = [&](size_t prompt, int32_t token) {
    return flags.json || text.show(prompt, token);
  };
  const auto out = model::generate(**made, asked, flags.run, show);
  if (!out) return fail(out.error(), exit_failed);
  if (flags.json) {
    print_json(*prompts, *out);
  } else {
    text.finish();
  }
  const bool failed =
      std::ranges::any_of(*out, [](const auto& g) { return g.end == model::generate_end::failed; });
  if (!failed) return exit_done;
  return fail({error_code::internal,
               "a token could not be computed: the model's numbers are not "
               "finite; check the checkpoint (deepinfer model verify)"},
              exit_failed);
}

void add_model_options(CLI::App& command, generate_flags& flags) {
  command.add_option("--model", flags.model, "folder of the checkpoint")
      ->envname(model_folder_variable)
      ->required();
  command.add_option("--level", flags.level, "numeric level: L0, L1 (default) or L2")
      ->check(CLI::IsMember({"L0", "L1", "L2"}));
  command
      .add_option("--draft-tokens", flags.run.draft_tokens,
                  "most tokens drafted and verified per step (default 0)")
      ->check(CLI::Range(0u, model::generate_limits::draft_tokens));
  command.add_option("--threads", flags.threads, "that compute (default 1); changes no token")
      ->check(CLI::Range(1u, 256u));
  command.add_option("--kept-rows", flags.kept_rows,
                     "rows at a prompt's end that pass the decoder, or all (default: a window and "
                     "12)");
}

void add_prompt_options(CLI::App& command, generate_flags& flags) {
  command.add_option("--prompt", flags.prompts, "what the user says; several make a batch")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--prompts-file", flags.prompts_file, "prompts, a JSON string per line");
  command.add_option("--tokens-file", flags.tokens_file, "prompt as a JSON array of token ids");
  auto* images =
      command.add_option("--image", flags.images,
                         "picture in front of the prompt (PNG, JPEG, WebP, GIF); several "
                         "in their order; a tokens file says where by image tokens");
  images->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--plain", flags.plain, "take prompts as they are, without the chat format")
      ->excludes(images);
  command.add_flag("--thinking", flags.thinking, "let the model think first");
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("generate", "Offline inference in this process, without a cluster.");
  auto flags = std::make_shared<generate_flags>();
  add_model_options(*command, *flags);
  add_prompt_options(*command, *flags);
  command->add_option("--batch", flags->run.prompts_in_flight, "prompts computed at once (8)")
      ->check(CLI::Range(1u, model::generate_limits::prompts_in_flight));
  command->add_flag("--json", flags->json, "print token ids and counts as JSON, a line per prompt");
  command->add_flag("--ignore-eos", flags->ignore_eos, "go on to --max-tokens");
  command->add_option("--max-tokens", flags->max_tokens, "most output tokens per prompt")
      ->check(CLI::Range(1u, 1u << 20));
  command->add_option("--temperature", flags->sampling.temperature, "0 is greedy (default)")
      ->check(CLI::Range(0.0f, 2.0f));
  command->add_option("--top-p", flags->sampling.top_p, "nucleus")->check(CLI::Range(0.0f, 1.0f));
  command->add_option("--top-k", flags->sampling.top_k, "0 is off");
  command->add_option("--seed", flags->sampling.seed, "of the sampling noise");
  command->callback([flags, command, &exit_code] {
    if (command->count("--prompt") + command->count("--prompts-file") +
            command->count("--tokens-file") ==
        0) {
      exit_code =
          fail({error_code::invalid_argument, "give --prompt, --prompts-file or --tokens-file"},
               exit_usage);
      return;
    }
    exit_code = run(*flags);
  });
}

}  // namespace deepinfer
