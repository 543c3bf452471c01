#include "actors/node/commands.hpp"
#include "actors/node/token_file.hpp"
#include "runtime/model/forward_dump.hpp"
#include "runtime/model/random_checkpoint.hpp"

#include <cstdio>
#include <memory>
#include <string>

namespace deepinfer {
namespace {

struct model_flags {
  std::string dir, tokens_file, out, level = "L0", shape = "mini";
  bool per_layer = false;
  uint32_t chunk = 0;
  uint64_t seed = 1234;
};

int fail(const failure& why, int code) {
  std::fprintf(stderr, "deepinfer model: %s\n", why.detail.c_str());
  return code;
}

int info(const model_flags& flags) {
  const auto text = model::describe_model(flags.dir);
  if (!text) return fail(text.error(), exit_failed);
  std::printf("%s\n", text->c_str());
  return exit_done;
}

int forward(const model_flags& flags) {
  const auto tokens = read_token_file(flags.tokens_file);
  if (!tokens) return fail(tokens.error(), exit_usage);
  model::dump_options options;
  options.level = flags.level == "L1" ? model::numeric_level::L1 : model::numeric_level::L0;
  options.per_layer = flags.per_layer;
  options.chunk = flags.chunk;
  const auto done = model::write_forward_dump(flags.dir, *tokens, flags.out, options);
  return done ? exit_done : fail(done.error(), exit_failed);
}

int make_random(const model_flags& flags) {
  const auto shape = model::parse_random_shape(flags.shape);
  if (!shape) return fail(shape.error(), exit_usage);
  const auto done = model::make_random_checkpoint(flags.dir, *shape, {.seed = flags.seed});
  return done ? exit_done : fail(done.error(), exit_failed);
}

}  // namespace

void add_model_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("model", "Looks at, makes or runs a checkpoint.");
  command->require_subcommand(1);
  auto flags = std::make_shared<model_flags>();
  auto* show = command->add_subcommand("info", "Prints what a checkpoint holds, as JSON.");
  show->add_option("DIR", flags->dir, "folder of the checkpoint")->required();
  show->callback([flags, &exit_code] { exit_code = info(*flags); });

  auto* run = command->add_subcommand("forward",
                                      "Runs tokens through a checkpoint and writes the tensors.");
  run->add_option("DIR", flags->dir, "folder of the checkpoint")->required();
  run->add_option("--tokens-file", flags->tokens_file, "JSON array of token ids")->required();
  run->add_option("--out", flags->out, "safetensors file to write")->required();
  run->add_option("--level", flags->level, "L0 (exact) or L1 (cache quantisers)")
      ->check(CLI::IsMember({"L0", "L1"}));
  run->add_flag("--per-layer", flags->per_layer, "the tensors of every layer, too");
  run->add_option("--chunk", flags->chunk, "tokens at once (default: as many as the model allows)");
  run->callback([flags, &exit_code] { exit_code = forward(*flags); });

  auto* make = command->add_subcommand("make-random", "Writes a small random checkpoint.");
  make->add_option("DIR", flags->dir, "folder to write")->required();
  make->add_option("--shape", flags->shape, "mini, mini8 or mini12 (default mini)");
  make->add_option("--seed", flags->seed, "the same seed gives the same bytes");
  make->callback([flags, &exit_code] { exit_code = make_random(*flags); });
}

}  // namespace deepinfer
