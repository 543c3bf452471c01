#include "actors/node/fetch_process.hpp"

#include "runtime/base/digest.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace deepinfer {
namespace {

constexpr int stop_within_ms = 2000;

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

/// Settings fit into a pipe at once (64 KiB), or the child reads while they are written; one that
/// reads nothing is not waited for.
bool write_all(int pipe, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(pipe, text.data() + done, text.size() - done);
    if (wrote > 0) {
      done += static_cast<size_t>(wrote);
      continue;
    }
    if (errno == EINTR) continue;
    return false;
  }
  return true;
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

bool fetch_right::take(const std::string& cluster_folder) {
  if (lock_ >= 0) return true;
  const std::string path = cluster_folder + "/kvfetch.lock";
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
  stop();
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return trouble("cannot make a pipe", errno);
  static_cast<void>(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C at a terminal is for the node, which ends its child in order.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string name{"deepinfer"}, command{"kvfetch"};
  std::array<char*, 3> arguments{name.data(), command.data(), nullptr};
  const int failed =
      ::posix_spawn(&pid_, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  pipe_ = ends[1];
  if (failed != 0) {
    pid_ = -1;
    stop();
    return trouble("cannot start deepinfer kvfetch", failed);
  }
  static_cast<void>(::fcntl(pipe_, F_SETFL, O_NONBLOCK));
  if (write_all(pipe_, settings + '\0')) return {};
  stop();
  return failure{error_code::unreachable, "deepinfer kvfetch did not take its settings"};
}

bool fetch_child::running() {
  if (pid_ <= 0) return false;
  const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
  if (ended == 0) return true;
  pid_ = -1;
  stop();
  return false;
}

void fetch_child::stop() {
  if (pipe_ >= 0) ::close(std::exchange(pipe_, -1));
  if (pid_ <= 0) return;
  const int watched = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd end{watched, POLLIN, 0};
  const bool ended = watched >= 0 && ::poll(&end, 1, stop_within_ms) == 1;
  if (watched >= 0) ::close(watched);
  if (!ended) ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace deepinfer
