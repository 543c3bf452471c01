#include "tests/actor/remote/clerk.hpp"
#include "tests/bench/bench_line.hpp"
#include "tests/bench/raw_pingpong.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/fabric_node.hpp"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>

/// Round trips between actors of two processes on one machine, against libfabric's own. Without
/// arguments: measures. The other process is this program again with "raw" or "actors".
namespace {

using namespace deepinfer;
using namespace deepinfer::bench;
using clock_type = std::chrono::steady_clock;

constexpr node_id peer_id{77, 1};
constexpr int rounds = 2'000;
constexpr int runs = 9;

double microseconds(clock_type::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

int serve_raw() {
  auto end = raw_pingpong::listen();
  std::cout << end.port() << std::endl;
  end.accept();
  while (end.receive()) end.send();
  return 0;
}

int serve_actors() {
  test::fabric_node node{peer_id};
  const auto scheduled = node.system.spawn(test::clerk, &node.hub());
  const auto quick = node.system.spawn(test::clerk, &node.hub());
  node.hub().run_inline(quick);
  if (!node.hub().publish(7, scheduled) || !node.hub().publish(8, quick)) return 1;
  std::cout << node.transport().address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}

double raw_round_trip(raw_pingpong& end) {
  std::vector<double> each;
  for (int i = 0; i < rounds; ++i) {
    const auto before = clock_type::now();
    end.send();
    if (!end.receive()) return 0;
    each.push_back(microseconds(clock_type::now() - before));
  }
  return middle(each);
}

/// Asks one after the other and tells the starter the median.
struct caller_state {
  std::vector<double> each;
  clock_type::time_point before;
};

void ask_next(caf::stateful_actor<caller_state>* self,
              const test::clerk_actor& callee,
              const caf::actor& starter) {
  self->state.before = clock_type::now();
  self->request(callee, std::chrono::seconds(20), test::ping(1))
      .then([=](const test::msg<test::Ping>&) {
        self->state.each.push_back(microseconds(clock_type::now() - self->state.before));
        if (self->state.each.size() < rounds) return ask_next(self, callee, starter);
        self->send(starter, middle(self->state.each));
        self->state.each.clear();
      });
}

caf::behavior caller(caf::stateful_actor<caller_state>* self,
                     const test::clerk_actor& callee,
                     const caf::actor& starter) {
  return {[=](int) { ask_next(self, callee, starter); }};
}

double actor_round_trip(test::fabric_node& node, const caf::actor& caller) {
  node.self->send(caller, 0);
  double median = 0;
  node.self->receive([&](double value) { median = value; });
  return median;
}

int measure() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  test::child_process raw_peer{{program, "raw"}};
  test::child_process actor_peer{{program, "actors"}};
  auto raw = raw_pingpong::connect(raw_peer.line());
  test::fabric_node node{node_id{11, 1}};
  if (!node.meet(actor_peer.line(), peer_id)) return 1;
  const auto scheduled = *node.hub().well_known<test::clerk_actor>(peer_id, 7);
  const auto quick = *node.hub().well_known<test::clerk_actor>(peer_id, 8);
  const auto starter = caf::actor_cast<caf::actor>(node.self);
  const auto plain_caller = node.system.spawn(caller, scheduled, starter);
  const auto inline_caller = node.system.spawn(caller, quick, starter);
  node.hub().run_inline(inline_caller);
  std::vector<double> raw_runs, plain_runs, inline_runs;
  for (int run = 0; run < runs; ++run) {  // in turn, so that all see the same machine
    raw_runs.push_back(raw_round_trip(raw));
    inline_runs.push_back(actor_round_trip(node, inline_caller));
    plain_runs.push_back(actor_round_trip(node, plain_caller));
  }
  const auto base = summarize(raw_runs);
  print_line("fabric.raw.round_trip_64B", base, "us");
  const baseline to{"fabric.raw.round_trip_64B", base.median};
  print_line("remote.inline.round_trip_64B", summarize(inline_runs), "us", to);
  print_line("remote.scheduled.round_trip_64B", summarize(plain_runs), "us", to);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  net::restore_signal_defaults();
  net::choose_provider("tcp");
  if (argc > 1 && std::strcmp(argv[1], "raw") == 0) return serve_raw();
  if (argc > 1 && std::strcmp(argv[1], "actors") == 0) return serve_actors();
  return measure();
}
