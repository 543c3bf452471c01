#include "tests/actor/remote/clerk.hpp"
#include "tests/bench/bench_line.hpp"
#include "tests/bench/raw_pingpong.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/fabric_node.hpp"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <iostream>

/// Round trips between actors of two processes on one machine, against libfabric's own. Without
/// arguments: measures. The other process is this program again with "raw", "frames" or
/// "actors".
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

/// Answers every frame with its like: the transport alone, without actors.
class frame_echo : public net::transport_handler {
public:
  static std::unique_ptr<net::transport> open(const node_id& id) {
    net::fabric_config config;
    config.node = id;
    config.listen_port = 0;
    auto made = net::make_fabric_transport(config);
    return made ? *std::move(made) : nullptr;
  }
  explicit frame_echo(net::transport& transport) : transport_(transport) {}

  void on_peer_up(const net::peer_info& peer) override { up_.set_value(peer.id); }
  void on_peer_down(const node_id&, const failure&) override {}
  void on_dial_failed(const std::string&, const failure&) override {}
  void on_event(const std::string&, const std::string&) override {}
  void on_frame(const node_id& from, const net::incoming_frame&) override {
    if (!measuring_) return send(from);
    each_.push_back(microseconds(clock_type::now() - before_));
    if (each_.size() < rounds) return send(from);
    measuring_ = false;
    done_.set_value(middle(each_));
  }

  node_id peer() { return up_.get_future().get(); }
  double measure(const node_id& peer) {
    done_ = {};
    auto result = done_.get_future();
    transport_.post([this, peer] {
      each_.clear();
      measuring_ = true;
      send(peer);
    });
    return result.get();
  }

private:
  void send(const node_id& to) {
    before_ = clock_type::now();
    net::outgoing_frame frame;
    frame.body = body_.bytes();
    static_cast<void>(transport_.send(to, frame));
  }

  net::transport& transport_;
  const test::msg<test::Ping> body_ = test::ping(1);
  std::promise<node_id> up_;
  std::promise<double> done_;
  std::vector<double> each_;
  clock_type::time_point before_;
  bool measuring_ = false;
};

int serve_frames() {
  const auto transport = frame_echo::open(node_id{78, 1});
  if (!transport) return 1;
  frame_echo echo{*transport};
  if (!transport->start(echo)) return 1;
  std::cout << transport->address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  transport->stop();
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
              const caf::duration& timeout,
              const caf::actor& starter) {
  self->state.before = clock_type::now();
  self->request(callee, timeout, test::ping(1)).then([=](const test::msg<test::Ping>&) {
    self->state.each.push_back(microseconds(clock_type::now() - self->state.before));
    if (self->state.each.size() < rounds) return ask_next(self, callee, timeout, starter);
    self->send(starter, middle(self->state.each));
    self->state.each.clear();
  });
}

caf::behavior caller(caf::stateful_actor<caller_state>* self,
                     const test::clerk_actor& callee,
                     const caf::duration& timeout,
                     const caf::actor& starter) {
  return {[=](int) { ask_next(self, callee, timeout, starter); }};
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
  test::child_process frame_peer{{program, "frames"}};
  const auto transport = frame_echo::open(node_id{12, 1});
  if (!transport) return 1;
  frame_echo echo{*transport};
  if (!transport->start(echo)) return 1;
  transport->dial(frame_peer.line());
  const node_id echoing = echo.peer();
  auto raw = raw_pingpong::connect(raw_peer.line());
  test::fabric_node node{node_id{11, 1}};
  if (!node.meet(actor_peer.line(), peer_id)) return 1;
  const auto scheduled = *node.hub().well_known<test::clerk_actor>(peer_id, 7);
  const auto quick = *node.hub().well_known<test::clerk_actor>(peer_id, 8);
  const auto starter = caf::actor_cast<caf::actor>(node.self);
  const caf::duration timeout{std::chrono::seconds(20)};  // each arms one of CAF's timers
  const auto plain_caller = node.system.spawn(caller, scheduled, timeout, starter);
  const auto inline_caller = node.system.spawn(caller, quick, timeout, starter);
  const auto patient_caller =
      node.system.spawn(caller, quick, caf::duration{caf::infinite}, starter);
  node.hub().run_inline(inline_caller);
  node.hub().run_inline(patient_caller);
  std::vector<double> raw_runs, frame_runs, plain_runs, inline_runs, patient_runs;
  for (int run = 0; run < runs; ++run) {  // in turn, so that all see the same machine
    raw_runs.push_back(raw_round_trip(raw));
    frame_runs.push_back(echo.measure(echoing));
    inline_runs.push_back(actor_round_trip(node, inline_caller));
    patient_runs.push_back(actor_round_trip(node, patient_caller));
    plain_runs.push_back(actor_round_trip(node, plain_caller));
  }
  const auto base = summarize(raw_runs);
  print_line("fabric.raw.round_trip_64B", base, "us");
  const baseline to{"fabric.raw.round_trip_64B", base.median};
  print_line("transport.round_trip_64B", summarize(frame_runs), "us", to);
  print_line("remote.inline.round_trip_64B", summarize(inline_runs), "us", to);
  print_line("remote.inline.no_timeout.round_trip_64B", summarize(patient_runs), "us", to);
  print_line("remote.scheduled.round_trip_64B", summarize(plain_runs), "us", to);
  transport->stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  net::restore_signal_defaults();
  net::choose_provider("tcp");
  if (argc > 1 && std::strcmp(argv[1], "raw") == 0) return serve_raw();
  if (argc > 1 && std::strcmp(argv[1], "frames") == 0) return serve_frames();
  if (argc > 1 && std::strcmp(argv[1], "actors") == 0) return serve_actors();
  return measure();
}
