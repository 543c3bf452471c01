// Loads a checkpoint and continues one prompt, without a cluster:
//   offline_inference MODEL_DIR "What can you do?"
// Load, encode, generate with a callback per token, decode as it comes.
#include "runtime/model/generate.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdio>
#include <filesystem>

using namespace deepinfer;

namespace {

int stop(const failure& why) {
  std::fprintf(stderr, "%s\n", to_string(why).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: offline_inference MODEL_DIR PROMPT\n");
    return 2;
  }
  const std::filesystem::path folder{argv[1]};
  const auto tokenizer = text::load_tokenizer(folder / "tokenizer.json");
  if (!tokenizer) return stop(tokenizer.error());
  const auto model = model::make_v41_model(folder, {.level = model::numeric_level::L0});
  if (!model) return stop(model.error());

  // The prompt format of the family; the ranges say which parts are control tokens.
  recipe::conversation talk;
  talk.thinking = false;
  talk.messages.push_back({.content = argv[2]});
  const recipe::rendered_prompt prompt = recipe::render(talk);
  const auto tokens = (*tokenizer)->encode(prompt.text, prompt.specials);
  if (!tokens) return stop(tokens.error());

  text::stream_decoder decoder{*tokenizer};
  const int32_t stop_token = (*model)->info().stop_tokens.front();
  const auto out = model::generate(**model, *tokens, {.max_tokens = 200}, [&](int32_t token) {
    if (token == stop_token) return true;
    const auto released = decoder.push(token);
    std::fwrite(released.text.data(), 1, released.text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  if (!out) return stop(out.error());
  std::printf("\n%zu tokens from %zu\n", out->tokens.size(), tokens->size());
  return 0;
}
