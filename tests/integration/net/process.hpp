#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace deepinfer::test {

/// The helper program `net_peer` (see peer_main.cpp) as a child process. It ends when its
/// standard input closes, so a failed test leaves nothing behind.
class peer_process {
public:
  explicit peer_process(std::vector<std::string> arguments) {
    int to_child[2], from_child[2];
    REQUIRE(::pipe(to_child) == 0);
    REQUIRE(::pipe(from_child) == 0);
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "net_peer").string();
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(to_child[0], 0);
      ::dup2(from_child[1], 1);
      for (int fd = 3; fd < 1024; ++fd) ::close(fd);
      ::execv(program.c_str(), argv.data());
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    input_ = to_child[1];
    output_ = ::fdopen(from_child[0], "r");
    char line[256] = {};
    REQUIRE(std::fgets(line, sizeof line, output_) != nullptr);
    address = std::string{line}.substr(0, std::string{line}.find('\n'));
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process() {
    signal(SIGCONT);
    signal(SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    ::close(input_);
    std::fclose(output_);
  }

  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
  }
  /// SIGSTOP, and waits until the process has stopped.
  void freeze() const {
    signal(SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  /// Closes its input and returns how it ended.
  int finish() {
    ::close(input_);
    input_ = ::dup(output_ ? ::fileno(output_) : 0);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  std::string address;

private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::FILE* output_ = nullptr;
};

}  // namespace deepinfer::test
