#include "actors/node/chat_call.hpp"
#include "actors/node/chat_talk.hpp"
#include "actors/node/cluster_address.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/standard_input.hpp"
#include "actors/node/terminal.hpp"
#include "runtime/recipe/detect_protocol.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

namespace deepinfer {
namespace {

constexpr size_t max_prompt_bytes = size_t{32} << 20;

struct chat_flags {
  cluster_target target;
  std::optional<std::string> prompt;
  std::string protocol = "chat";
  std::string system;
  chat::request_options request;
  bool json = false;
  bool no_stream = false;
};

int refuse(const std::string& why) {
  return report("chat", {error_code::invalid_argument, why});
}

/// Standard input without the line feed that ends it.
result<std::string> read_prompt() {
  auto out = read_standard_input(max_prompt_bytes);
  if (out && out->ends_with('\n')) out->pop_back();
  return out;
}

int run_once(const std::vector<http_url>& gateways,
             const chat::call_options& options,
             const std::vector<chat::turn>& talk) {
  if (options.style.colours.is_on) chat::restore_colours_on_signals();
  const chat::call_outcome outcome = chat::run_call(gateways, options, talk);
  if (outcome.finish_reason == "length" && options.style.is_terminal && !options.prints_json)
    std::fprintf(stderr, "deepinfer chat: the answer reached the token limit\n");
  return outcome.exit_code;
}

int run_chat(chat_flags flags) {
  flags.request.protocol = *recipe::find_protocol(flags.protocol);
  const bool is_at_terminal = ::isatty(STDIN_FILENO) == 1;
  const bool is_talk = !flags.prompt && is_at_terminal;
  if (is_talk && flags.json) return refuse("--json needs a prompt");
  if (!is_talk && (!flags.prompt || *flags.prompt == "-")) {
    auto read = read_prompt();
    if (!read) return report("chat", read.error());
    flags.prompt = *std::move(read);
  }
  if (flags.prompt && flags.prompt->empty()) return refuse("the prompt is empty");
  for (const std::string& text : {flags.prompt.value_or(""), flags.system, flags.request.model})
    if (!text::is_utf8(text)) return refuse("prompt, system text and model must be UTF-8");

  const auto gateways = gateway_addresses(flags.target);
  if (!gateways) return report("chat", gateways.error());
  flags.request.is_streamed = !flags.no_stream;
  const chat::call_options options{
      flags.request, flags.json, {::isatty(STDOUT_FILENO) == 1, palette_for(STDOUT_FILENO)}};
  std::vector<chat::turn> talk;
  if (!flags.system.empty()) talk.push_back({"system", flags.system});
  if (is_talk) return chat::run_talk(*gateways, options, std::move(talk));
  talk.push_back({"user", *flags.prompt});
  return run_once(*gateways, options, talk);
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "chat", "Sends one request and prints the answer as it comes; without a prompt: a talk.");
  auto flags = std::make_shared<chat_flags>();
  auto& request = flags->request;
  command->add_option("prompt", flags->prompt, "the question; - or nothing reads it from a pipe")
      ->type_name("");
  auto* cluster = command->add_option("--cluster", flags->target.cluster,
                                      "a cluster of this machine (default: the only one)");
  command
      ->add_option("--url", flags->target.url,
                   "gateway, http://host:port (default: found, else 127.0.0.1:8000)")
      ->excludes(cluster);
  command->add_option("--model", request.model, "served name of the model (default: default)");
  command
      ->add_option("--protocol", flags->protocol,
                   "how to ask: chat (default), responses or messages")
      ->check(CLI::IsMember({"chat", "responses", "messages"}));
  command->add_flag(
      "--json", flags->json,
      "print the events, one a line, or with --no-stream the answer, as the server sends them");
  command->add_option("--system", flags->system, "system message");
  command
      ->add_option("--thinking", request.thinking,
                   "reason before the answer (default: the server's)")
      ->check(CLI::IsMember({"on", "off"}));
  command
      ->add_option("--temperature", request.temperature,
                   "sampling temperature (a server may not heed it while the model thinks)")
      ->check(CLI::Range(0.0, 2.0));
  command->add_option("--top-p", request.top_p, "sampling: probability kept")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--max-tokens", request.max_tokens, "most tokens of the answer")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", request.seed, "seed of the sampling")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--no-stream", flags->no_stream, "wait for the whole answer");
  command->callback([flags, &exit_code] { exit_code = run_chat(*flags); });
}

}  // namespace deepinfer
