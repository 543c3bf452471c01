#include "actors/node/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace deepinfer {
namespace {

// Alternate screen, cursor hidden, no automatic line break; and all of it back.
constexpr std::string_view take_screen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view give_back = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array crash_signals{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// Signal handlers reach only globals, and may do only what is safe inside them.
termios saved_modes;
std::atomic<bool> is_taken{false};
std::atomic<int> asked_to_end{0};
std::atomic<int> wake_writer{-1};

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void restore() {
  if (!is_taken.exchange(false)) return;
  write_all(give_back);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_modes);
}

void on_crash(int signal) {
  restore();
  ::raise(signal);  // the handler was for one time: now the default, with its core file
}

void on_signal(int signal) {
  const int error = errno;
  if (signal != SIGWINCH) asked_to_end = signal;
  const char byte = 0;
  static_cast<void>(!::write(wake_writer, &byte, 1));  // a full pipe wakes as well
  errno = error;
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

size_t number_from(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  size_t value = 0;
  if (text == nullptr) return otherwise;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  constexpr size_t most = 10000;
  return error == std::errc{} && *end == 0 && value > 0 && value <= most ? value : otherwise;
}

class terminal_screen final : public full_screen {
public:
  explicit terminal_screen(std::array<int, 2> pipe) : wake_{pipe} {
    wake_writer = pipe[1];
    asked_to_end = 0;
    is_taken = true;
    for (const int signal : crash_signals) handle(signal, on_crash, SA_RESETHAND);
    for (const int signal : ending_signals) handle(signal, on_signal, SA_RESTART);
    handle(SIGWINCH, on_signal, SA_RESTART);
    handle(SIGTSTP, SIG_IGN, 0);  // stopped, we could not give the terminal back
    termios raw = saved_modes;
    ::cfmakeraw(&raw);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all(take_screen);
  }

  ~terminal_screen() override {
    restore();
    for (const int signal : crash_signals) handle(signal, SIG_DFL, 0);
    for (const int signal : ending_signals) handle(signal, SIG_DFL, 0);
    for (const int signal : {SIGWINCH, SIGTSTP}) handle(signal, SIG_DFL, 0);
    wake_writer = -1;
    for (const int end : wake_) ::close(end);
  }

  waking wait(int other, std::chrono::milliseconds longest) override {
    std::array<pollfd, 3> all{
        {{STDIN_FILENO, POLLIN, 0}, {wake_[0], POLLIN, 0}, {other, POLLIN, 0}}};
    const int ready = ::poll(all.data(), all.size(), static_cast<int>(longest.count()));
    waking out;
    if (ready < 0) {
      out.is_over = errno != EINTR;
      return out;
    }
    std::array<char, 256> bytes;
    if (all[1].revents != 0 && ::read(wake_[0], bytes.data(), bytes.size()) > 0)
      out.is_resized = true;  // or asked to end, which is seen below
    if (all[0].revents != 0) {
      const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (count > 0) out.keys.assign(bytes.data(), static_cast<size_t>(count));
      out.is_over = count <= 0 && errno != EINTR;
    }
    out.is_ready = all[2].revents != 0;
    out.is_over = out.is_over || asked_to_end != 0;
    return out;
  }

  void draw(const std::vector<std::string>& lines) override {
    std::string out = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i)
      out.append(i > 0 ? "\r\n" : "").append(lines[i]).append("\x1b[K");
    write_all(out);
  }

  int ending_signal() const override { return asked_to_end; }

private:
  std::array<int, 2> wake_;
};

}  // namespace

view::palette palette_for(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool is_unwanted = no_colour != nullptr && *no_colour != 0;
  const bool is_dumb = terminal == nullptr || std::string_view{terminal} == "dumb";
  return {::isatty(descriptor) == 1 && !is_unwanted && !is_dumb};
}

view::screen_size screen_size_of(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    return {size.ws_col, size.ws_row};
  return {number_from("COLUMNS", 80), number_from("LINES", 24)};
}

result<std::unique_ptr<full_screen>> full_screen::enter() {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return failure{error_code::invalid_argument,
                   "the live view needs a terminal; use a verb such as topology, or --once"};
  if (is_taken) return failure{error_code::internal, "the terminal is in use already"};
  std::array<int, 2> pipe{};
  if (::tcgetattr(STDIN_FILENO, &saved_modes) != 0 ||
      ::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return failure{error_code::internal,
                   std::string{"cannot use the terminal: "} + std::strerror(errno)};
  return std::unique_ptr<full_screen>{std::make_unique<terminal_screen>(pipe)};
}

}  // namespace deepinfer
