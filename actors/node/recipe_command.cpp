#include "actors/node/bundled_model.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/recipe_text.hpp"
#include "actors/node/standard_input.hpp"
#include "actors/node/token_file.hpp"
#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/detect_protocol.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace deepinfer {
namespace {

constexpr size_t most_input_bytes = size_t{32} << 20;  // what the gateway takes in one body

struct recipe_flags {
  std::string model, tokenizer, protocol, request_file, finish = "stop";
  bool specials = false, json = false, plain_text = false, ids = false, stream = false;
};

/// What went wrong and whose fault it was: of the flags and files (2), or of the input (1).
struct trouble {
  std::string text;
  int exit_code = exit_failed;
};

template <class T>
using attempt = std::variant<T, trouble>;

int fail(const trouble& why) {
  std::fprintf(stderr, "deepinfer recipe: %s\n", why.text.c_str());
  return why.exit_code;
}

int write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return exit_done;  // lost output is told by main
}

/// Exact bytes; only on a terminal the prompt of the shell gets a line of its own.
int write_exact(std::string_view text) {
  write_out(text);
  if (::isatty(STDOUT_FILENO) == 1) write_out("\n");
  return exit_done;
}

result<std::string> read_input(std::string_view what) {
  if (::isatty(STDIN_FILENO) == 1)
    std::fprintf(stderr, "deepinfer recipe: reading %.*s from standard input; Ctrl-D ends it\n",
                 static_cast<int>(what.size()), what.data());
  return read_standard_input(most_input_bytes);
}

result<std::shared_ptr<const text::tokenizer>> load(const recipe_flags& flags) {
  if (!flags.tokenizer.empty()) return text::load_tokenizer(flags.tokenizer);
  const std::filesystem::path folder =
      flags.model.empty() ? bundled_model() : std::filesystem::path{flags.model};
  if (folder.empty())
    return failure{error_code::not_found,
                   "no model: name one with --model DIR or --tokenizer FILE"};
  return text::load_tokenizer(folder / "tokenizer.json");
}

recipe::api_result<recipe::api_protocol> protocol_of(const recipe_flags& flags,
                                                     std::string_view body) {
  if (const auto named = recipe::find_protocol(flags.protocol)) return *named;
  auto detected = recipe::detect_protocol(body);
  if (detected) return detected;
  recipe::api_error error = detected.error();
  if (error.code == recipe::unclear_protocol) error.message += "; say it with --protocol";
  return error;
}

attempt<recipe::rendered_prompt> rendered(const recipe_flags& flags) {
  const auto body = read_input("a request");
  if (!body) return trouble{body.error().detail};
  const auto protocol = protocol_of(flags, *body);
  if (!protocol) return trouble{protocol.error().message};
  auto request = recipe::parse_request(*protocol, *body);
  if (!request) return trouble{request.error().message};
  return recipe::render_request(*request);
}

int render(const recipe_flags& flags) {
  const auto prompt = rendered(flags);
  if (const auto* why = std::get_if<trouble>(&prompt)) return fail(*why);
  const auto& made = std::get<recipe::rendered_prompt>(prompt);
  return write_exact(flags.specials ? marked_prompt(made) : made.text);
}

attempt<recipe::rendered_prompt> text_to_encode(const recipe_flags& flags) {
  if (!flags.plain_text) return rendered(flags);
  auto text = read_input("a text");
  if (!text) return trouble{text.error().detail};
  return recipe::rendered_prompt{*std::move(text), {}, {}};
}

int encode(const recipe_flags& flags) {
  const auto tokenizer = load(flags);
  if (!tokenizer) return fail({tokenizer.error().detail, exit_usage});
  const auto prompt = text_to_encode(flags);
  if (const auto* why = std::get_if<trouble>(&prompt)) return fail(*why);
  const auto ids = recipe::encode_prompt(std::get<recipe::rendered_prompt>(prompt), **tokenizer);
  if (!ids) return fail({ids.error().message});
  return write_out(flags.json ? token_json(*ids) + "\n" : token_lines(**tokenizer, *ids));
}

int decode(const recipe_flags& flags) {
  const auto tokenizer = load(flags);
  if (!tokenizer) return fail({tokenizer.error().detail, exit_usage});
  const auto text = read_input("token ids");
  if (!text) return fail({text.error().detail});
  const auto ids = parse_ids(*text, (*tokenizer)->vocabulary_size());
  if (!ids) return fail({ids.error().detail});
  return write_exact((*tokenizer)->decode(*ids, text::decode_mode::keep_special));
}

/// The ids of the model's output on standard input. Control tokens that the text spells count: it
/// is a model's, which chose them.
result<std::vector<int32_t>> output_ids(const recipe_flags& flags,
                                        const text::tokenizer& tokenizer) {
  const auto text = read_input(flags.ids ? "token ids" : "a model's output");
  if (!text) return text.error();
  if (flags.ids) return parse_ids(*text, tokenizer.vocabulary_size());
  return tokenizer.encode(*text, tokenizer.find_specials(*text));
}

/// For a model of any name and length, and one answer.
attempt<recipe::prepared_request> prepared(const recipe_flags& flags,
                                           const text::tokenizer& tokenizer) {
  const auto body = read_input_file(flags.request_file, most_input_bytes);
  if (!body) return trouble{body.error().detail, exit_usage};
  const auto protocol = protocol_of(flags, *body);
  if (!protocol) return trouble{flags.request_file + ": " + protocol.error().message};
  const auto request = recipe::parse_request(*protocol, *body);
  if (!request) return trouble{flags.request_file + ": " + request.error().message};
  recipe::recipe_options options;
  auto made = recipe::prepare(*protocol, *body, tokenizer,
                              {request->model, {}, 4 * options.max_prompt_tokens}, options);
  if (!made) return trouble{flags.request_file + ": " + made.error().message};
  made->stream = flags.stream;
  made->choices = 1;
  made->logprobs.reset();  // nobody computed any
  return *std::move(made);
}

int parse(const recipe_flags& flags) {
  const auto tokenizer = load(flags);
  if (!tokenizer) return fail({tokenizer.error().detail, exit_usage});
  const auto request = prepared(flags, **tokenizer);
  if (const auto* why = std::get_if<trouble>(&request)) return fail(*why);
  const auto& asked = std::get<recipe::prepared_request>(request);
  const auto ids = output_ids(flags, **tokenizer);
  if (!ids) return fail({ids.error().detail});
  // The same input gives the same output: no clock, no random id.
  recipe::answer_stream answer(*tokenizer, asked, {"offline", 0, asked.model, std::nullopt});
  write_out(answer.start({static_cast<uint32_t>(asked.tokens.size()), 0}));
  for (const int32_t id : *ids)
    if (!answer.stopped()) write_out(answer.push({0, {&id, 1}, {}}));
  const auto finish =
      flags.finish == "length" ? recipe::engine_finish::length : recipe::engine_finish::stop;
  write_out(answer.finish({0, finish, 0}));
  return flags.stream ? exit_done : write_out("\n");
}

void add_tokenizer_options(CLI::App& command, recipe_flags& flags) {
  auto* model = command.add_option("--model", flags.model,
                                   "folder of the checkpoint (default: the bundled one)");
  model->envname(model_folder_variable);
  command.add_option("--tokenizer", flags.tokenizer, "tokenizer.json by itself");
}

void add_protocol_option(CLI::App& command, recipe_flags& flags) {
  command
      .add_option("--protocol", flags.protocol,
                  "chat, completions, responses or messages (default: told by the fields)")
      ->check(CLI::IsMember({"chat", "completions", "responses", "messages"}));
}

void add_encode(CLI::App& command, const std::shared_ptr<recipe_flags>& flags, int& exit_code) {
  auto* app = command.add_subcommand("encode", "Prints the ids of a request's prompt.");
  add_tokenizer_options(*app, *flags);
  add_protocol_option(*app, *flags);
  app->add_flag("--json", flags->json, "print a JSON array instead of ids with their texts");
  app->add_flag("--text", flags->plain_text, "the input is plain text, no request");
  app->callback([flags, &exit_code] { exit_code = encode(*flags); });
}

void add_parse(CLI::App& command, const std::shared_ptr<recipe_flags>& flags, int& exit_code) {
  auto* app = command.add_subcommand(
      "parse", "Prints the response that a model's output is to a client's request.");
  add_tokenizer_options(*app, *flags);
  add_protocol_option(*app, *flags);
  app->add_option("--request", flags->request_file,
                  "the request that is answered: its tools, stops and thinking count")
      ->required();
  app->add_flag("--ids", flags->ids, "the input is token ids, no text");
  app->add_flag("--stream", flags->stream, "print the events of a stream");
  app->add_option("--finish", flags->finish, "how the output ended: stop (default) or length")
      ->check(CLI::IsMember({"stop", "length"}));
  app->callback([flags, &exit_code] { exit_code = parse(*flags); });
}

}  // namespace

void add_recipe_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "recipe", "The codec by itself, on standard input: requests, prompts, ids, responses.");
  command->require_subcommand(1);
  auto flags = std::make_shared<recipe_flags>();
  auto* show = command->add_subcommand("render", "Prints the prompt of a request, byte by byte.");
  add_protocol_option(*show, *flags);
  show->add_flag("--specials", flags->specials, "put control tokens between \u27E6 and \u27E7");
  show->callback([flags, &exit_code] { exit_code = render(*flags); });
  add_encode(*command, flags, exit_code);
  auto* read = command->add_subcommand(
      "decode", "Prints the text of token ids: a JSON array, or between white space.");
  add_tokenizer_options(*read, *flags);
  read->callback([flags, &exit_code] { exit_code = decode(*flags); });
  add_parse(*command, flags, exit_code);
}

}  // namespace deepinfer
