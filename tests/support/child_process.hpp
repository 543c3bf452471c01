#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace deepinfer::test {

/// Another process with its standard input and output on pipes. Killed at the end of its scope.
class child_process {
public:
  explicit child_process(std::vector<std::string> arguments) {
    std::array<int, 2> in{-1, -1};
    std::array<int, 2> out{-1, -1};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<char*> raw;
    for (auto& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    if (posix_spawn(&pid_, raw[0], &actions, nullptr, raw.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~child_process() {
    end(SIGKILL);
    if (to_ >= 0) close(to_);
    if (from_ >= 0) close(from_);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  /// The next line of its output; empty at its end.
  std::string line() {
    std::string text;
    for (char c = 0; read(from_, &c, 1) == 1 && c != '\n';) text.push_back(c);
    return text;
  }
  void say(const std::string& text) {
    const std::string whole = text + "\n";
    if (write(to_, whole.data(), whole.size()) < 0) return;  // it is gone: the test will see
  }
  /// Ends its input, and waits for it to end by itself.
  int finish() {
    if (to_ >= 0) close(std::exchange(to_, -1));
    return wait();
  }
  void end(int signal) {
    if (pid_ > 0) kill(pid_, signal);
    wait();
  }

private:
  int wait() {
    int status = -1;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace deepinfer::test
