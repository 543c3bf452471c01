// Loads a checkpoint and continues prompts in this process, without a cluster:
//   offline_inference --model MODEL_DIR "What can you do?" "Tell me a story."
// Without --model the folder comes from DEEPINFER_HF_MODEL_DIR.
//
// Four steps: load, encode, generate with a callback per token, decode.
#include "runtime/model/generate.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;

namespace {

int stop(const failure& why) {
  std::fprintf(stderr, "%s\n", to_string(why).c_str());
  return 1;
}

// The prompt format of the family; `specials` says which parts are control tokens.
result<std::vector<int32_t>> encode(const text::tokenizer& tokenizer, const char* said) {
  recipe::conversation talk;
  talk.thinking = false;
  talk.messages.push_back({.content = said});
  const recipe::rendered_prompt prompt = recipe::render(talk);
  return tokenizer.encode(prompt.text, prompt.specials);
}

int run(const std::filesystem::path& folder, const std::vector<const char*>& questions) {
  // 1. Load. Weights stay in their file and format; three tokens are drafted and verified per step.
  constexpr uint32_t drafts = 3;
  const auto tokenizer = text::load_tokenizer(folder / "tokenizer.json");
  if (!tokenizer) return stop(tokenizer.error());
  const auto model = model::make_v41_model(folder, {.draft_tokens = drafts});
  if (!model) return stop(model.error());

  // 2. Encode. Every prompt has its own sampling; drafts and batch change none of its tokens.
  std::vector<std::vector<int32_t>> tokens;
  for (const char* said : questions) {
    auto encoded = encode(**tokenizer, said);
    if (!encoded) return stop(encoded.error());
    tokens.push_back(*std::move(encoded));
  }
  std::vector<model::generate_prompt> prompts;
  for (size_t i = 0; i < tokens.size(); ++i)
    prompts.push_back({.tokens = tokens[i],
                       .sampling = {.temperature = 0.6f, .top_p = 0.95f, .seed = i},
                       .max_tokens = 200});

  // 3. Generate all at once. The callback sees each token when it is certain: here a single prompt
  // streams, and the texts of several are collected.
  std::vector<text::stream_decoder> decoders(prompts.size(), text::stream_decoder{*tokenizer});
  std::vector<std::string> texts(prompts.size());
  const std::vector<int32_t>& stop_tokens = (*model)->info().stop_tokens;
  const auto out = model::generate(
      **model, prompts, {.draft_tokens = drafts}, [&](size_t prompt, int32_t token) {
        if (std::ranges::find(stop_tokens, token) != stop_tokens.end()) return true;
        const std::string_view text = decoders[prompt].push(token).text;
        texts[prompt] += text;
        if (prompts.size() > 1) return true;
        std::fwrite(text.data(), 1, text.size(), stdout);
        return std::fflush(stdout) == 0;
      });
  if (!out) return stop(out.error());

  // 4. What came of it.
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() > 1) std::printf("> %s\n%s", questions[i], texts[i].c_str());
    const model::generated& g = (*out)[i];
    std::printf("\n(%zu tokens behind %zu, %u of %u drafts accepted)\n", g.tokens.size(),
                tokens[i].size(), g.accepted, g.drafted);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* folder = std::getenv("DEEPINFER_HF_MODEL_DIR");
  int at = 1;
  if (argc > 2 && std::strcmp(argv[1], "--model") == 0) folder = argv[2], at = 3;
  if (folder == nullptr || at >= argc) {
    std::fprintf(stderr,
                 "usage: offline_inference [--model MODEL_DIR] PROMPT...\n"
                 "Without --model, DEEPINFER_HF_MODEL_DIR names the folder.\n");
    return 2;
  }
  return run(folder, {argv + at, argv + argc});
}
