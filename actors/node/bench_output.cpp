#include "actors/node/bench_output.hpp"

#include "actors/node/commands.hpp"

#include <cstdio>

namespace deepinfer {

int show_figures(const result<std::vector<bench::figure>>& figures, figure_form form) {
  if (!figures) {
    std::fprintf(stderr, "deepinfer bench: %s\n", figures.error().detail.c_str());
    return exit_failed;
  }
  if (form == figure_form::json_lines)
    for (const auto& f : *figures) std::printf("%s\n", bench::json_line(f).c_str());
  else
    std::fputs(bench::table(*figures).c_str(), stdout);
  return exit_done;
}

}  // namespace deepinfer
