#include "actors/bench/peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

extern char** environ;

namespace deepinfer::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return left.count() < 0 ? 0 : static_cast<int>(left.count());
}

std::string proc_file(pid_t pid, const char* name) {
  std::string path{"/proc/"};
  return path.append(std::to_string(pid)).append("/").append(name);
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : std::string{};
}

peer_process::~peer_process() {
  end(milliseconds{500});
}

result<void> peer_process::start(const std::vector<std::string>& command, errors where) {
  std::array<int, 2> in{-1, -1};
  std::array<int, 2> out{-1, -1};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
    return failure{error_code::no_capacity, "no pipe for another process"};
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1],
                                   where == errors::piped ? STDERR_FILENO : STDOUT_FILENO);
  const int code = ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (code == 0) return {};
  pid_ = -1;
  return failure{error_code::not_found, "cannot start " + words[0] + ": " + std::strerror(code)};
}

result<std::string> peer_process::line(milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  size_t searched = 0;  // long lines come in many pieces
  for (;;) {
    if (const size_t end = unread_.find('\n', searched); end != std::string::npos) {
      std::string text = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return text;
    }
    searched = unread_.size();
    pollfd wait{from_, POLLIN, 0};
    if (::poll(&wait, 1, milliseconds_until(deadline)) == 0)
      return failure{error_code::deadline_exceeded, "the other process says nothing"};
    std::array<char, 65536> piece;
    const ssize_t got = ::read(from_, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failure{error_code::unreachable, "the other process has ended"};
    unread_.append(piece.data(), static_cast<size_t>(got));
  }
}

void peer_process::say(const std::string& text) {
  const std::string whole = text + "\n";
  // A peer that is gone shows with the next line that is read from it.
  static_cast<void>(::write(to_, whole.data(), whole.size()) < 0);
}

void peer_process::end(milliseconds patience) {
  close_if_open(to_);
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    const auto deadline = steady_clock::now() + patience;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (steady_clock::now() >= deadline) ::kill(pid_, SIGKILL);
      ::poll(nullptr, 0, 5);
    }
    pid_ = -1;
  }
  close_if_open(from_);
  unread_.clear();
}

double peer_process::resident_bytes() const {
  std::ifstream in{proc_file(pid_, "statm")};
  double total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double peer_process::cpu_seconds() const {
  std::ifstream in{proc_file(pid_, "stat")};
  std::string text;
  std::getline(in, text);
  // proc(5): the name in parentheses may hold anything; utime and stime are fields 14 and 15.
  std::istringstream rest{text.substr(std::min(text.size(), text.rfind(')') + 1))};
  std::string skipped;
  for (int field = 3; field < 14; ++field) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace deepinfer::bench
