#include "runtime/net/fabric/fabric_bench.hpp"

#include "runtime/net/fabric/fabric_transport.hpp"
#include "runtime/net/fabric/raw_bench.hpp"
#include "runtime/net/proof.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace deepinfer::net {
namespace {

constexpr size_t region_bytes = size_t{64} << 20;
constexpr size_t ping_bytes = 64;
constexpr size_t small_block = size_t{112} << 10;
constexpr size_t large_block = size_t{8} << 20;
constexpr auto patience = std::chrono::seconds{30};
constexpr char secret[] = "bench";

using clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

fabric_config bench_config(const std::string& provider) {
  fabric_config config;
  const auto nonce = draw_nonce();
  DEEPINFER_CHECK(nonce.has_value());
  std::memcpy(&config.node, nonce->data(), sizeof config.node);
  config.cluster = "bench";
  config.secret = secret;
  config.provider = provider;
  config.listen_port = 0;
  return config;
}

/// The far side of the transport measurements.
struct echo_handler final : transport_handler {
  transport* link = nullptr;
  uint64_t region = 0;

  void on_peer_up(const peer_info& peer) override {
    wire::frame_header header;
    header.aux = region;
    (void)link->send(peer.id, {header, {}, {}}).has_value();
  }
  void on_peer_down(const node_id&, const failure&) override {}
  void on_frame(const node_id& from, const incoming_frame& frame) override {
    (void)link->send(from, {frame.header, frame.body, {}}).has_value();
  }
  void on_dial_failed(const std::string&, const failure&) override {}
  void on_event(const std::string&, const std::string&) override {}
};

/// The near side: pings and reads run on the transport's thread, the measuring thread waits.
class bench_driver final : public transport_handler {
public:
  void on_peer_up(const peer_info& peer) override { peer_ = peer.id; }
  void on_peer_down(const node_id&, const failure& why) override { fail(why); }
  void on_dial_failed(const std::string&, const failure& why) override { fail(why); }
  void on_event(const std::string&, const std::string&) override {}
  void on_frame(const node_id&, const incoming_frame& frame) override {
    if (region_ == 0) {
      region_ = frame.header.aux;
      return finish();
    }
    times_.push_back(std::chrono::duration<double, std::nano>(clock::now() - sent_at_).count());
    if (times_.size() < wanted_) return send_ping();
    finish();
  }

  result<void> connect(transport& link, const std::string& address) {
    link_ = &link;
    link.dial(address);
    return wait();
  }
  result<std::vector<double>> ping(size_t count) {
    link_->post([this, count] {
      times_.clear();
      wanted_ = count;
      send_ping();
    });
    if (auto done = wait(); !done) return done.error();
    return times_;
  }
  /// Bytes per second.
  result<double> read(size_t block_bytes, size_t in_flight, size_t blocks) {
    into_.resize(block_bytes * in_flight);
    const auto start = clock::now();
    link_->post([this, block_bytes, in_flight, blocks] {
      posted_ = ended_ = 0;
      for (size_t slot = 0; slot < in_flight; ++slot) read_next(slot, block_bytes, blocks);
    });
    if (auto done = wait(); !done) return done.error();
    return static_cast<double>(block_bytes * blocks) /
           std::chrono::duration<double>(clock::now() - start).count();
  }

private:
  void send_ping() {
    wire::frame_header header;
    header.message_id = times_.size();
    sent_at_ = clock::now();
    if (const auto sent = link_->send(peer_, {header, body_, keep_}); !sent) fail(sent.error());
  }
  void read_next(size_t slot, size_t block_bytes, size_t blocks) {
    if (posted_ == blocks) return;
    const uint64_t offset = posted_ * block_bytes % (region_bytes - block_bytes + 1);
    ++posted_;
    link_->read(peer_, {region_, offset, block_bytes},
                std::span{into_}.subspan(slot * block_bytes, block_bytes), patience,
                [this, slot, block_bytes, blocks](const result<void>& how) {
                  if (!how) return fail(how.error());
                  if (++ended_ == blocks) return finish();
                  read_next(slot, block_bytes, blocks);
                });
  }
  void fail(const failure& why) {
    const std::lock_guard lock{mutex_};
    broken_ = why;
    changed_.notify_all();
  }
  void finish() {
    const std::lock_guard lock{mutex_};
    done_ = true;
    changed_.notify_all();
  }
  result<void> wait() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, patience, [&] { return done_ || broken_; }))
      return failure{error_code::deadline_exceeded, "the other process does not answer"};
    if (broken_) return *broken_;
    done_ = false;
    return {};
  }

  transport* link_ = nullptr;
  node_id peer_;
  uint64_t region_ = 0;
  std::shared_ptr<const std::array<uint64_t, 8>> keep_ =
      std::make_shared<const std::array<uint64_t, 8>>();
  std::span<const std::byte> body_ = std::as_bytes(std::span{*keep_});
  static_assert(sizeof(std::array<uint64_t, 8>) == ping_bytes);
  clock::time_point sent_at_;
  std::vector<double> times_;
  size_t wanted_ = 0;
  std::vector<std::byte> into_;
  size_t posted_ = 0, ended_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<failure> broken_;
};

/// The other process, and what it said.
class bench_peer {
public:
  ~bench_peer() {
    if (input_ != nullptr) std::fclose(input_);
    if (output_ != nullptr) std::fclose(output_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  result<void> start(const std::vector<std::string>& command) {
    std::array<int, 2> in{}, out{};
    if (command.empty() || ::pipe2(in.data(), O_CLOEXEC) != 0 ||
        ::pipe2(out.data(), O_CLOEXEC) != 0)
      return failure{error_code::invalid_argument, "no command for the other process"};
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const int code = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = ::fdopen(in[1], "w");
    output_ = ::fdopen(out[0], "r");
    if (code != 0) {
      pid_ = -1;
      return failure{error_code::not_found, "cannot start " + command[0]};
    }
    std::array<char, 256> transport_text{}, raw_text{};
    if (std::fscanf(output_, "%255s %255s %lu %lu", transport_text.data(), raw_text.data(), &base,
                    &key) != 4)
      return failure{error_code::unreachable, "the other process said nothing: run it by hand"};
    transport_address = transport_text.data();
    raw_address = raw_text.data();
    return {};
  }

  std::string transport_address, raw_address;
  unsigned long base = 0, key = 0;

private:
  pid_t pid_ = -1;
  std::FILE* input_ = nullptr;
  std::FILE* output_ = nullptr;
};

/// Rounds of one kind of measurement, raw and by the transport.
struct pair_of_rounds {
  std::string name;
  std::string unit;
  std::vector<double> raw, ours;

  void add_to(std::vector<fabric_figure>& figures) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < raw.size(); ++i) ratios.push_back(ours[i] / raw[i]);
    const auto spread = [](std::vector<double> values) {
      const double centre = median(values);
      for (double& value : values) value = std::abs(value - centre);
      return median(std::move(values));
    };
    figures.push_back({"fabric.raw." + name, median(raw), unit, "", 0, raw.size(), spread(raw)});
    figures.push_back({"fabric.transport." + name, median(ours), unit, "fabric.raw." + name,
                       median(ratios), ours.size(), spread(ours)});
  }
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

result<void> run_rounds(const fabric_bench_options& options,
                        const bench_peer& peer,
                        raw_endpoint& raw,
                        bench_driver& driver,
                        std::vector<fabric_figure>& figures) {
  pair_of_rounds trip{"round_trip_64B", "us", {}, {}};
  pair_of_rounds small{"read_112KiB_16_queued", "MB/s", {}, {}};
  pair_of_rounds large{"read_8MiB_2_queued", "MB/s", {}, {}};
  for (size_t round = 0; round < options.rounds; ++round) {
    const auto raw_times = raw.ping(ping_bytes, options.pings);
    if (!raw_times) return raw_times.error();
    const auto our_times = driver.ping(options.pings);
    if (!our_times) return our_times.error();
    trip.raw.push_back(median(*raw_times) / 1e3);
    trip.ours.push_back(median(*our_times) / 1e3);
    const auto read = [&](pair_of_rounds& into, size_t block, size_t in_flight,
                          size_t blocks) -> result<void> {
      const auto raw_rate = raw.read({peer.base, peer.key, region_bytes, block, in_flight, blocks});
      if (!raw_rate) return raw_rate.error();
      const auto our_rate = driver.read(block, in_flight, blocks);
      if (!our_rate) return our_rate.error();
      into.raw.push_back(*raw_rate / 1e6);
      into.ours.push_back(*our_rate / 1e6);
      return {};
    };
    if (auto done = read(small, small_block, 16, options.small_blocks); !done) return done;
    if (auto done = read(large, large_block, 2, options.large_blocks); !done) return done;
  }
  trip.add_to(figures);
  small.add_to(figures);
  large.add_to(figures);
  return {};
}

}  // namespace

result<std::vector<fabric_figure>> measure_fabric(const fabric_bench_options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  bench_peer peer;  // started before this process opens libfabric
  if (auto started = peer.start(options.peer_command); !started) return started.error();
  const auto target = split_address(peer.raw_address);
  if (!target) return target.error();
  auto raw = raw_endpoint::connect(options.provider, *numeric_address(*target));
  if (!raw) return raw.error();
  auto link = make_fabric_transport(bench_config(options.provider));
  if (!link) return link.error();
  bench_driver driver;
  if (auto started = (*link)->start(driver); !started) return started.error();
  std::vector<fabric_figure> figures;
  auto done = driver.connect(**link, peer.transport_address);
  if (done) done = run_rounds(options, peer, **raw, driver, figures);
  if (done && options.idle.count() > 0) {
    const double before = cpu_seconds();
    std::mutex mutex;
    std::unique_lock lock{mutex};
    std::condition_variable never;
    (void)never.wait_for(lock, options.idle, [] { return false; });
    const double share =
        (cpu_seconds() - before) / std::chrono::duration<double>(options.idle).count();
    figures.push_back({"fabric.transport.idle_cpu", share * 100, "% of a core", "", 0, 1, 0});
  }
  (*link)->stop();
  if (!done) return done.error();
  return figures;
}

result<void> serve_bench(const std::string& provider) {
  restore_signal_defaults();
  choose_provider(provider.c_str());
  std::vector<std::byte> memory(region_bytes);
  for (size_t i = 0; i < memory.size(); i += 64) memory[i] = static_cast<std::byte>(i);
  auto raw = raw_server::open(provider, memory);
  if (!raw) return raw.error();
  auto link = make_fabric_transport(bench_config(provider));
  if (!link) return link.error();
  echo_handler echo;
  echo.link = link->get();
  const auto region = (*link)->register_memory(memory);
  if (!region) return region.error();
  echo.region = region->key;
  if (auto started = (*link)->start(echo); !started) return started;
  const std::string greeting =
      (*link)->address() + " " + join_address((*raw)->where().host(), (*raw)->where().port()) +
      " " + std::to_string((*raw)->base()) + " " + std::to_string((*raw)->key()) + "\n";
  (void)!::write(STDOUT_FILENO, greeting.data(), greeting.size());
  auto served = (*raw)->serve();  // ends when the measuring process closes or is gone
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*link)->stop();
  return served;
}

}  // namespace deepinfer::net
