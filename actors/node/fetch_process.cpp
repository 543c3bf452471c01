#include "actors/node/fetch_process.hpp"

#include "runtime/base/config.hpp"
#include "runtime/base/digest.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace deepinfer {
namespace {

constexpr std::chrono::minutes up_within{1};
constexpr int stop_within_ms = 2000;
constexpr int killed_within_ms = 500;
constexpr int settings_descriptor = 3;  // in the child, behind the three that every process has
constexpr size_t most_words = 1024;     // of what the child says
constexpr std::string_view up_words = "up\n";

std::string first_bytes(const char* path) {
  std::array<char, 128> text{};
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t got = ::read(file, text.data(), text.size());
  ::close(file);
  return {text.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

failure trouble(const char* what, int number) {
  return {error_code::unreachable, std::string{what} + ": " + std::strerror(number)};
}

/// A descriptor, closed at the end of its scope.
struct open_end {
  int at = -1;
  explicit open_end(int descriptor) : at(descriptor) {}
  ~open_end() {
    if (at >= 0) ::close(at);
  }
  open_end(const open_end&) = delete;
  open_end& operator=(const open_end&) = delete;
};

/// Memory with these bytes: settings hold a secret, which belongs into no argument, environment or
/// file, and nobody must wait until they were read, as with a pipe.
int memory_with(const std::string& text) {
  const int file = ::memfd_create("deepinfer-settings", MFD_CLOEXEC);
  if (file < 0) return -1;
  const bool whole =
      ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (whole) return file;
  ::close(file);
  return -1;
}

void wait_for(pid_t child, int most_ms) {
  const open_end watched{static_cast<int>(::syscall(SYS_pidfd_open, child, 0))};
  pollfd end{watched.at, POLLIN, 0};
  if (watched.at >= 0) ::poll(&end, 1, most_ms);
}

/// 0, or why not.
int spawn_child(pid_t& pid, int line, int settings) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, settings, settings_descriptor);
  posix_spawn_file_actions_adddup2(&actions, line, STDIN_FILENO);
  // A socket of the node that lived on in its child would hide the node's death from its peers.
  posix_spawn_file_actions_addclosefrom_np(&actions, settings_descriptor + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C at a terminal is for the node, which ends its child in order.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string name{"deepinfer"}, command{"kvfetch"};
  std::array<char*, 3> arguments{name.data(), command.data(), nullptr};
  const int failed =
      ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

}  // namespace

std::string machine_mark() {
  const std::string boot = first_bytes("/proc/sys/kernel/random/boot_id");
  std::array<char, 64> table{};
  const ssize_t got = ::readlink("/proc/self/ns/pid", table.data(), table.size());
  if (boot.empty() || got <= 0) return {};
  return to_hex(digest_of(boot + std::string{table.data(), static_cast<size_t>(got)} + "/" +
                          std::to_string(::geteuid())));
}

fetch_right::~fetch_right() {
  if (lock_ >= 0) ::close(lock_);
}

bool fetch_right::take(const std::string& cluster_folder, const std::string& machine) {
  if (lock_ >= 0) return true;
  const std::string path = cluster_folder + "/kvfetch-" + machine.substr(0, 16) + ".lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    ::close(file);
    return false;
  }
  lock_ = file;
  return true;
}

result<void> fetch_child::start(const std::string& settings) {
  kill_now();
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return trouble("cannot make a socket", errno);
  line_ = ends[0];
  const open_end other{ends[1]};
  // At a number that the child's own descriptors do not take while they are put into place.
  const open_end theirs{::fcntl(other.at, F_DUPFD_CLOEXEC, 10)};
  if (theirs.at < 0) return trouble("cannot make a socket", errno);
  const open_end made{memory_with(settings)};
  const open_end told{made.at < 0 ? -1 : ::fcntl(made.at, F_DUPFD_CLOEXEC, 10)};
  if (told.at < 0) return trouble("cannot hand over settings", errno);
  started_ = std::chrono::steady_clock::now();
  if (const int failed = spawn_child(pid_, theirs.at, told.at); failed != 0) {
    pid_ = -1;
    kill_now();
    return trouble("cannot start deepinfer kvfetch", failed);
  }
  return {};
}

/// Everything that the child has said; it says little, and only while it starts.
void fetch_child::hear() {
  std::array<char, 256> piece{};
  while (line_ >= 0 && heard_.size() < most_words) {
    const ssize_t got = ::recv(line_, piece.data(), piece.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    heard_.append(piece.data(), static_cast<size_t>(got));
  }
}

std::optional<fetch_end> fetch_child::ended() {
  int status = 0;
  if (pid_ > 0) {
    const pid_t gone = ::waitpid(pid_, &status, WNOHANG);
    if (gone == 0) {
      hear();
      if (!heard_.empty() || std::chrono::steady_clock::now() - started_ < up_within)
        return std::nullopt;
      kill_now();
      return fetch_end{.came_up = false,
                       .killed = false,
                       .failed = true,
                       .why = "it did not come up within a minute"};
    }
    pid_ = -1;
    if (gone < 0) status = 0;
  }
  hear();
  fetch_end end;
  end.came_up = heard_.starts_with(up_words);
  end.killed = WIFSIGNALED(status);
  end.failed = WIFEXITED(status) && WEXITSTATUS(status) != 0;
  end.why = end.killed ? "signal " + std::to_string(WTERMSIG(status))
                       : "exit status " + std::to_string(WEXITSTATUS(status));
  if (!end.came_up && !heard_.empty()) end.why = heard_;
  kill_now();
  return end;
}

void fetch_child::kill_now() {
  if (line_ >= 0) ::close(std::exchange(line_, -1));
  heard_.clear();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);  // its number is its own until it is waited for
  wait_for(pid_, killed_within_ms);
  // One that hangs in the kernel, in a file system that is gone, ends when that lets it go.
  ::waitpid(std::exchange(pid_, -1), nullptr, WNOHANG);
}

void fetch_child::stop() {
  if (line_ >= 0) ::close(std::exchange(line_, -1));
  if (pid_ > 0) wait_for(pid_, stop_within_ms);
  kill_now();
}

std::string fetch_parent::settings() {
  std::string text(config_schema::max_text_bytes, '\0');
  const ssize_t got = ::pread(settings_descriptor, text.data(), text.size(), 0);
  if (got <= 0) return {};
  ::close(settings_descriptor);
  text.resize(static_cast<size_t>(got));
  return text;
}

void fetch_parent::say_up() {
  static_cast<void>(::send(STDIN_FILENO, up_words.data(), up_words.size(), MSG_NOSIGNAL));
}

void fetch_parent::say_failed(const failure& why) {
  static_cast<void>(::send(STDIN_FILENO, why.detail.data(), std::min(why.detail.size(), most_words),
                           MSG_NOSIGNAL));
}

void fetch_parent::wait_gone() {
  for (char c = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace deepinfer
