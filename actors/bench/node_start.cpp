#include "actors/bench/node_start.hpp"

#include "actors/bench/peer_process.hpp"
#include "runtime/http/client.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

namespace deepinfer::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds patience{20};
constexpr std::array<std::string_view, 5> parts{"store", "model", "fabric", "actors", "listeners"};

double milliseconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

/// The value of key=value in a line of the log.
std::string field(std::string_view line, const std::string& key) {
  const size_t at = line.find(" " + key + "=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + key.size() + 2);
  return std::string{rest.substr(0, rest.find(' '))};
}

double number(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

result<std::string> started_line(peer_process& node) {
  const auto deadline = steady_clock::now() + patience;
  std::string said;
  while (steady_clock::now() < deadline) {
    auto line = node.line(patience);
    if (!line) return failure{line.error().code, line.error().detail + ": " + said};
    if (line->find(" node.started ") != std::string::npos) return line;
    said = *line;
  }
  return failure{error_code::deadline_exceeded, "the node does not start"};
}

result<void> wait_ready(const std::string& address) {
  const auto url = parse_url(address);
  if (!url) return url.error();
  http_client client{url->host, url->port};
  const auto deadline = steady_clock::now() + patience;
  while (steady_clock::now() < deadline) {
    const auto answer = client.call({.path = "/ready"});
    if (!answer) return answer.error();
    if (answer->status == 200) return {};
    ::poll(nullptr, 0, 2);  // there is no event to wait for: readiness is asked for
  }
  return failure{error_code::deadline_exceeded, "the node does not become ready"};
}

/// A store of its own, so that nothing of a measurement stays.
struct store_folder {
  std::filesystem::path path;
  store_folder() = default;
  store_folder(const store_folder&) = delete;
  store_folder& operator=(const store_folder&) = delete;
  ~store_folder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
};

using rounds_by_part = std::map<std::string, std::vector<double>, std::less<>>;

result<void> start_once(const std::string& program,
                        const std::string& model,
                        rounds_by_part& rounds) {
  const std::string cluster = "bench-" + std::to_string(::getpid());
  store_folder store;
  std::error_code no_folder;
  store.path = std::filesystem::temp_directory_path(no_folder) / ("deepinfer-" + cluster);
  peer_process node;
  const auto begin = steady_clock::now();
  if (auto started = node.start({program, "node", "--model", model, "--cluster", cluster, "--http",
                                 "127.0.0.1:0", "--console", "127.0.0.1:0", "--listen",
                                 "127.0.0.1:0", "--set", "kvstore.path=" + store.path.string()},
                                peer_process::errors::piped);
      !started)
    return started;
  const auto line = started_line(node);
  if (!line) return line.error();
  const double started = milliseconds_since(begin);
  if (auto ready = wait_ready(field(*line, "http")); !ready) return ready;
  const double ready = milliseconds_since(begin);
  double known = 0;
  for (const std::string_view part : parts) {
    const double took = number(field(*line, "took_" + std::string{part}));
    rounds[std::string{part}].push_back(took);
    known += took;
  }
  rounds["total"].push_back(ready);
  rounds["load"].push_back(started - known);
  rounds["reports"].push_back(ready - started);
  node.end(patience);
  return {};
}

}  // namespace

result<std::vector<figure>> measure_node_start(const std::string& program,
                                               const std::string& model,
                                               size_t starts) {
  rounds_by_part rounds;
  for (size_t i = 0; i < starts; ++i)
    if (auto done = start_once(program, model, rounds); !done) return done.error();
  const yardstick total{"serve.start.exec_to_ready", rounds["total"]};
  std::vector<figure> out{make_figure(total.name, "ms", total.rounds)};
  out.push_back(make_figure("serve.start.program", "ms", rounds["load"], total));
  for (const std::string_view part : parts)
    out.push_back(
        make_figure("serve.start." + std::string{part}, "ms", rounds[std::string{part}], total));
  out.push_back(make_figure("serve.start.first_reports", "ms", rounds["reports"], total));
  return out;
}

}  // namespace deepinfer::bench
