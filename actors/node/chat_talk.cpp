#include "actors/node/chat_talk.hpp"

#include "actors/node/commands.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::chat {
namespace {

constexpr size_t max_talk_bytes = size_t{16} << 20;  // kept and sent again with each question
constexpr size_t max_line_bytes = size_t{1} << 20;

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Waits for input. False when Ctrl-C came first: it is let in nowhere but here, so that one
/// between a prompt and its reading is not lost.
bool wait_for_input(const sigset_t& while_waiting) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::ppoll(&input, 1, nullptr, &while_waiting) >= 0 || errno != EINTR;
}

/// A line of the terminal, which edits it; nothing at its end (Ctrl-D). Ctrl-C throws the line
/// away.
std::optional<std::string> read_line(const std::string& prompt) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  std::optional<std::string> line{std::in_place};
  say(prompt);
  while (line->size() < max_line_bytes && !line->ends_with('\n')) {
    if (!wait_for_input(before)) {
      line->clear();
      say("\n" + prompt);
      continue;
    }
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count <= 0) {
      line.reset();
      break;
    }
    line->append(bytes.data(), static_cast<size_t>(count));
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  while (line && (line->ends_with('\n') || line->ends_with('\r'))) line->pop_back();
  return line;
}

void handle_interrupt(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(SIGINT, &action, nullptr);
}

void do_nothing(int) {}

std::string read_all(int descriptor) {
  std::string out;
  std::array<char, 16384> bytes;
  while (true) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return out;
    out.append(bytes.data(), static_cast<size_t>(count));
  }
}

[[noreturn]] void answer_in_child(int to_parent,
                                  const std::vector<http_url>& gateways,
                                  const call_options& options,
                                  const std::vector<turn>& talk) {
  const call_outcome outcome = run_call(gateways, options, talk);
  std::string_view rest = outcome.content;
  while (!rest.empty()) {
    const ssize_t count = ::write(to_parent, rest.data(), rest.size());
    if (count <= 0) break;
    rest.remove_prefix(static_cast<size_t>(count));
  }
  std::_Exit(outcome.exit_code);
}

struct exchange_result {
  std::optional<int> exit_code;  ///< none: cancelled
  std::string content;
};

/// The answer is fetched by a child: Ctrl-C ends the child wherever it waits, which closes the
/// connection, which makes the server stop computing; the talk goes on.
exchange_result ask(const std::vector<http_url>& gateways,
                    const call_options& options,
                    const std::vector<turn>& talk) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {exit_failed, {}};
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  // held back until both sides have their handlers
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    handle_interrupt(SIG_DFL);
    if (options.style.colours.is_on) restore_colours_on_signals();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    answer_in_child(pipe[1], gateways, options, talk);
  }
  handle_interrupt(SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(pipe[1]);
  exchange_result out{exit_failed, child > 0 ? read_all(pipe[0]) : std::string{}};
  ::close(pipe[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (child > 0 && WIFEXITED(status)) out.exit_code = WEXITSTATUS(status);
  if (child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) out.exit_code.reset();
  handle_interrupt(do_nothing);
  return out;
}

size_t bytes_of(const std::vector<turn>& talk) {
  size_t sum = 0;
  for (const turn& one : talk) sum += one.content.size();
  return sum;
}

}  // namespace

int run_talk(const std::vector<http_url>& gateways,
             const call_options& options,
             std::vector<turn> history) {
  const view::palette& colours = options.style.colours;
  const std::string prompt = colours.paint(view::tone::bold, ">") + " ";
  say(colours.paint(view::tone::dim, "Ctrl-C cancels an answer, Ctrl-D ends the talk.") + "\n");
  handle_interrupt(do_nothing);
  int last = exit_done;
  while (auto line = read_line(prompt)) {
    if (line->empty()) continue;
    if (!text::is_utf8(*line)) {
      say("That was not UTF-8; please type it again.\n");
      continue;
    }
    if (bytes_of(history) + line->size() > max_talk_bytes) {
      say("The talk has become too long; please start a new one.\n");
      last = exit_failed;
      break;
    }
    history.push_back({"user", *std::move(line)});
    exchange_result answer = ask(gateways, options, history);
    last = answer.exit_code.value_or(exit_done);
    if (answer.exit_code == exit_done) {
      history.push_back({"assistant", std::move(answer.content)});
      say("\n");
      continue;
    }
    // Half an exchange would make the next answer worse.
    history.pop_back();
    if (!answer.exit_code)
      say(colours.paint(view::tone::dim, "cancelled; that question is forgotten") + "\n");
  }
  say("\n");
  return last;
}

}  // namespace deepinfer::chat
