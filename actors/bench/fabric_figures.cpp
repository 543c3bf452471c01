#include "actors/bench/fabric_figures.hpp"

#include "actors/bench/bench_node.hpp"
#include "actors/bench/echo_actors.hpp"
#include "actors/bench/peer_process.hpp"
#include "actors/messages/errors.hpp"
#include "runtime/net/fabric/fabric_bench.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"
#include "runtime/net/fabric/raw_bench.hpp"

#include <caf/scoped_actor.hpp>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

namespace deepinfer::bench {
namespace {

constexpr std::chrono::seconds patience{30};
constexpr size_t ping_bytes = 64;
constexpr size_t long_bytes = size_t{16} << 10;
constexpr size_t longest_bytes = size_t{1} << 20;
constexpr char provider[] = "tcp";

/// Numbers of the well-known echo actors of the other process.
constexpr uint64_t inline_echo = 10;
constexpr uint64_t scheduled_echo = 11;

/// Rounds of round trips, each the median of its trips in microseconds.
struct trip_rounds {
  std::vector<double> raw, inlined, scheduled, local, long_inlined, longest;
};

result<double> median_trip(caf::scoped_actor& self,
                           const pinger_actor& pinger,
                           const trip_order& order) {
  result<trip_times> answer{failure{error_code::internal, "no answer"}};
  self->request(pinger, patience, order)
      .receive([&answer](const trip_times& times) { answer = times; },
               [&answer](const caf::error& why) { answer = from_caf(why); });
  if (!answer) return answer.error();
  if (answer->us.size() < order.trips) return answer->why;
  return median(answer->us);
}

/// This process: one pinger for each kind of round trip.
class actor_side {
public:
  result<void> open(const std::vector<std::string>& command) {
    if (auto started = peer_.start(command); !started) return started;
    const auto line = peer_.line(patience);
    if (!line) return line.error();
    std::istringstream words{*line};
    std::string address, raw_address;
    node_id id;
    words >> address >> id.hi >> id.lo >> raw_address;
    const auto where = net::split_address(raw_address);
    if (!where) return where.error();
    auto raw = net::raw_endpoint::connect(provider, *net::numeric_address(*where));
    if (!raw) return raw.error();
    raw_ = *std::move(raw);
    auto node = bench_node::make();
    if (!node) return node.error();
    node_ = *std::move(node);
    if (auto linked = node_->meet(address, id); !linked) return linked;
    return spawn(id);
  }

  result<void> run(const fabric_plan& plan, trip_rounds& into) {
    caf::scoped_actor self{node_->system(), true};
    const std::tuple<const pinger_actor&, trip_order, std::vector<double>&> series[] = {
        {inlined_, {plan.trips, 0}, into.inlined},
        {scheduled_, {plan.trips, 0}, into.scheduled},
        {local_, {plan.trips, 0}, into.local},
        {inlined_, {plan.long_trips, long_bytes}, into.long_inlined},
        {inlined_, {plan.longest_trips, longest_bytes}, into.longest},
    };
    for (size_t round = 0; round < plan.rounds; ++round) {
      const auto raw = raw_->ping(ping_bytes, plan.trips);
      if (!raw) return raw.error();
      into.raw.push_back(median(*raw) / 1e3);
      for (const auto& [pinger, order, values] : series) {
        const auto trip = median_trip(self, pinger, order);
        if (!trip) return trip.error();
        values.push_back(*trip);
      }
    }
    return {};
  }

private:
  result<void> spawn(const node_id& peer) {
    const auto near = node_->hub().well_known<echo_actor>(peer, inline_echo);
    const auto far = node_->hub().well_known<echo_actor>(peer, scheduled_echo);
    if (!near) return near.error();
    if (!far) return far.error();
    inlined_ = node_->system().spawn(pinger, *near);
    node_->hub().run_inline(inlined_);
    scheduled_ = node_->system().spawn(pinger, *far);
    local_ = node_->system().spawn(pinger, echo_actor{node_->system().spawn(echo)});
    return {};
  }

  peer_process peer_;
  std::unique_ptr<net::raw_endpoint> raw_;
  std::unique_ptr<bench_node> node_;
  pinger_actor inlined_, scheduled_, local_;
};

void add_trips(const trip_rounds& rounds, std::vector<figure>& out) {
  const yardstick raw{"fabric.raw.ping_64B", rounds.raw};
  out.push_back(make_figure(raw.name, "us", raw.rounds));
  out.push_back(make_figure("fabric.actor.request_64B_inline", "us", rounds.inlined, raw));
  out.push_back(make_figure("fabric.actor.request_64B_scheduled", "us", rounds.scheduled, raw));
  out.push_back(make_figure("fabric.actor.request_16KiB_inline", "us", rounds.long_inlined));
  out.push_back(make_figure("fabric.actor.request_1MiB_inline", "us", rounds.longest));
  std::vector<double> hops;
  for (const double trip : rounds.local) hops.push_back(trip / 2);
  out.push_back(make_figure("fabric.actor.local_hop", "us", hops));
}

result<std::vector<net::fabric_figure>> measure_transport(const fabric_plan& plan) {
  net::fabric_bench_options options;
  options.peer_command = plan.peer_command;
  options.peer_command.emplace_back(fabric_transport_peer);
  options.provider = provider;
  options.rounds = plan.transport_rounds;
  options.pings = plan.transport_pings;
  options.small_blocks = plan.small_blocks;
  options.large_blocks = plan.large_blocks;
  options.idle = plan.idle;
  return net::measure_fabric(options);
}

}  // namespace

result<std::vector<figure>> measure_fabric_figures(const fabric_plan& plan) {
  net::choose_provider(provider);
  std::vector<figure> out;
  trip_rounds rounds;
  {
    std::vector<std::string> command = plan.peer_command;
    command.emplace_back(fabric_actor_peer);
    actor_side side;
    if (auto opened = side.open(command); !opened) return opened.error();
    if (auto done = side.run(plan, rounds); !done) return done.error();
  }
  add_trips(rounds, out);
  auto transport = measure_transport(plan);
  if (!transport) return transport.error();
  for (auto& f : *transport)
    out.push_back({f.name, f.value, f.unit, f.ratio_to, f.ratio, f.runs, f.spread});
  return out;
}

int serve_fabric_actors() {
  net::choose_provider(provider);
  std::vector<std::byte> memory(4096);
  auto raw = net::raw_server::open(provider, memory);
  auto node = bench_node::make();
  if (!raw || !node) {
    std::fprintf(stderr, "%s\n", to_string(raw ? node.error() : raw.error()).c_str());
    return 1;
  }
  const echo_actor near = (*node)->system().spawn(echo);
  const echo_actor far = (*node)->system().spawn(echo);
  (*node)->hub().run_inline(near);
  if (!(*node)->hub().publish(inline_echo, near) || !(*node)->hub().publish(scheduled_echo, far))
    return 1;
  const node_id self = (*node)->transport().self();
  const auto& where = (*raw)->where();
  std::printf("%s %llu %llu %s\n", (*node)->transport().address().c_str(),
              static_cast<unsigned long long>(self.hi), static_cast<unsigned long long>(self.lo),
              net::join_address(where.host(), where.port()).c_str());
  std::fflush(stdout);
  // Serves one peer until that has closed; its own thread, as the actors have theirs.
  std::thread pings{[&raw] { static_cast<void>((*raw)->serve().has_value()); }};
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  pings.join();
  return 0;
}

}  // namespace deepinfer::bench
