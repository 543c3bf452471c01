#include "actors/node/commands.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace {

// What a command printed may still be on its way, or be lost: then it is not done, whatever it
// says.
int written(int exit_code) {
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost || exit_code != deepinfer::exit_done) return exit_code;
  std::fputs("deepinfer: not all of the output could be written; is its disk full?\n", stderr);
  return deepinfer::exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever starts us without standard streams must not find log lines in our sockets.
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= 2) fd = ::open("/dev/null", O_RDWR);
  if (fd > 2) ::close(fd);
  // First of all, before any thread: libraries that were linked in have changed the handlers.
  deepinfer::net::restore_signal_defaults();
  int exit_code = deepinfer::exit_done;
  CLI::App app{"Serves models of the DeepSeek-V4.1 family on a cluster of actor nodes.",
               "deepinfer"};
  app.require_subcommand(1);
  app.set_version_flag("--version", DEEPINFER_VERSION);
  deepinfer::add_node_command(app, exit_code);
  deepinfer::add_kvfetch_command(app, exit_code);
  deepinfer::add_chat_command(app, exit_code);
  deepinfer::add_generate_command(app, exit_code);
  deepinfer::add_console_command(app, exit_code);
  deepinfer::add_kv_command(app, exit_code);
  deepinfer::add_model_command(app, exit_code);
  deepinfer::add_recipe_command(app, exit_code);
  deepinfer::add_bench_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // the library's way of saying "help" and "wrong usage"
    return app.exit(error) == 0 ? deepinfer::exit_done : deepinfer::exit_usage;
  }
  return written(exit_code);
}
