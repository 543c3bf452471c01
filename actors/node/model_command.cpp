#include "actors/node/commands.hpp"
#include "actors/node/progress_line.hpp"
#include "actors/node/token_file.hpp"
#include "runtime/model/forward_dump.hpp"
#include "runtime/model/model_size.hpp"
#include "runtime/model/random_checkpoint.hpp"
#include "runtime/model/verify_checkpoint.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace deepinfer {
namespace {

struct model_flags {
  std::string dir, tokens_file, out, level = "L0", shape = "mini";
  bool per_layer = false, fast = false, json = false, progress = false, force = false;
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
  std::error_code unknown;
  const std::filesystem::path out{flags.out};
  if (std::filesystem::equivalent(out.has_parent_path() ? out.parent_path() : ".", flags.dir,
                                  unknown))
    return fail({error_code::invalid_argument,
                 "--out lies in the checkpoint's own folder; name another place"},
                exit_usage);
  model::dump_options options;
  options.level = *model::parse_level(flags.level);
  options.per_layer = flags.per_layer;
  options.chunk = flags.chunk;
  const auto done = model::write_forward_dump(flags.dir, *tokens, flags.out, options);
  return done ? exit_done : fail(done.error(), exit_failed);
}

progress_line::when shown(const model_flags& flags) {
  return flags.progress ? progress_line::when::always : progress_line::when::on_terminal;
}

int make_random(const model_flags& flags) {
  const auto shape = model::parse_random_shape(flags.shape);
  if (!shape) return fail(shape.error(), exit_usage);
  model::random_options options;
  options.seed = flags.seed;
  if (flags.force) options.foreign = model::random_options::foreign_files::write_beside;
  result<void> done;
  {
    progress_line line(shown(flags));
    options.progress = [&line](uint64_t now, uint64_t all) { line.update(now, all); };
    done = model::make_random_checkpoint(flags.dir, *shape, options);
  }
  if (!done)
    return fail(done.error(),
                done.error().code == error_code::invalid_argument ? exit_usage : exit_failed);
  const model::model_size size = model::size_of_shape(*shape);
  std::printf("%s: %.1f M parameters, %.1f M of them active for a token, %.1f MB\n",
              flags.dir.c_str(), static_cast<double>(size.parameters) / 1e6,
              static_cast<double>(size.active()) / 1e6,
              static_cast<double>(size.resident_bytes + size.mapped_bytes) / 1e6);
  return exit_done;
}

result<uint32_t> tokenizer_size(const std::filesystem::path& file) {
  const auto tokenizer = text::load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  return (*tokenizer)->vocabulary_size();
}

int verify(const model_flags& flags) {
  std::error_code error;
  if (!std::filesystem::is_directory(flags.dir, error))
    return fail({error_code::not_found, flags.dir + " is not a folder"}, exit_usage);
  model::verify_options options;
  if (flags.fast) options.depth = model::verify_depth::headers;
  options.tokenizer_size = tokenizer_size;
  model::verify_report report;
  {
    progress_line line(shown(flags));
    options.progress = [&line](uint64_t done, uint64_t all) { line.update(done, all); };
    report = model::verify_checkpoint(flags.dir, options);
  }
  if (flags.json)
    std::printf("%s\n", model::verify_json(report).c_str());
  else
    std::fputs(model::verify_text(report).c_str(), stdout);
  return report.good() ? exit_done : exit_failed;
}

void add_folder(CLI::App& command, model_flags& flags) {
  command.add_option("DIR", flags.dir, "folder of the checkpoint")
      ->envname(model_folder_variable)
      ->required();
}

void add_verify(CLI::App& command, const std::shared_ptr<model_flags>& flags, int& exit_code) {
  auto* check = command.add_subcommand(
      "verify", "Checks every file of a checkpoint against its configuration.");
  add_folder(*check, *flags);
  check->add_flag("--fast", flags->fast, "do not read the tensors' data");
  check->add_flag("--json", flags->json, "print the report as JSON");
  check->add_flag("--progress", flags->progress, "show progress without a terminal, too");
  check->callback([flags, &exit_code] { exit_code = verify(*flags); });
}

void add_make_random(CLI::App& command, const std::shared_ptr<model_flags>& flags, int& exit_code) {
  auto* make = command.add_subcommand("make-random", "Writes a random checkpoint.");
  make->add_option("DIR", flags->dir, "folder to write")->required();
  make->add_option("--shape", flags->shape,
                   "mini, mini8, mini12, tiny, small or flash-shard (default mini)");
  make->add_option("--seed", flags->seed, "the same seed gives the same bytes");
  make->add_flag("--force", flags->force, "write into a folder that holds other files, too");
  make->add_flag("--progress", flags->progress, "show progress without a terminal, too");
  make->callback([flags, &exit_code] { exit_code = make_random(*flags); });
}

}  // namespace

void add_model_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("model", "Looks at, checks, makes or runs a checkpoint.");
  command->require_subcommand(1);
  auto flags = std::make_shared<model_flags>();
  auto* show = command->add_subcommand("info", "Prints what a checkpoint holds, as JSON.");
  add_folder(*show, *flags);
  show->callback([flags, &exit_code] { exit_code = info(*flags); });

  auto* run = command->add_subcommand("forward",
                                      "Runs tokens through a checkpoint and writes the tensors.");
  add_folder(*run, *flags);
  run->add_option("--tokens-file", flags->tokens_file, "JSON array of token ids")->required();
  run->add_option("--out", flags->out, "safetensors file to write")->required();
  run->add_option("--level", flags->level,
                  "L0 (exact, default), L1 (cache quantisers) or L2 (all quantisers)")
      ->check(CLI::IsMember({"L0", "L1", "L2"}));
  run->add_flag("--per-layer", flags->per_layer, "the tensors of every layer, too");
  run->add_option("--chunk", flags->chunk, "tokens at once (default: as many as the model allows)");
  run->callback([flags, &exit_code] { exit_code = forward(*flags); });

  add_verify(*command, flags, exit_code);
  add_make_random(*command, flags, exit_code);
}

}  // namespace deepinfer
