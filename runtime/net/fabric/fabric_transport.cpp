#include "runtime/net/fabric/fabric_transport.hpp"

#include "runtime/net/fabric/control_lane.hpp"

#include <csignal>
#include <cstdlib>

namespace deepinfer::net {
namespace {

constexpr uint32_t ports_tried = 100;

class fabric_transport final : public transport {
public:
  explicit fabric_transport(const fabric_config& config) : config_(config) {}
  ~fabric_transport() override { stop(); }

  result<void> open() {
    auto where = listen_address();
    if (!where) return where.error();
    if (!where->is_loopback() && config_.secret.empty())
      return failure{error_code::invalid_argument,
                     "listening beyond loopback needs a cluster secret: set one, or listen on "
                     "127.0.0.1"};
    choose_provider(config_.provider.c_str());
    auto info = find_provider(config_.provider, *where);
    if (!info) return info.error();
    info_ = *std::move(info);
    auto fabric = open_fabric(*info_);
    if (!fabric) return fabric.error();
    fabric_ = *std::move(fabric);
    auto listener =
        acceptor::open(*fabric_, *info_, *where,
                       config_.port_may_move && config_.listen_port != 0 ? ports_tried : 0);
    if (!listener) return listener.error();
    listener_ = *std::move(listener);
    const std::string address = join_address(advertised_host(*where), listener_->where().port());
    if (address.size() > max_hello_address)
      return failure{error_code::invalid_argument,
                     "the advertised address " + address + " is longer than " +
                         std::to_string(max_hello_address) + " characters"};
    auto bulk = bulk_lane::open(config_, *fabric_, *info_);
    if (!bulk) return bulk.error();
    bulk_ = *std::move(bulk);
    control_ = std::make_unique<control_lane>(config_, address, *fabric_, *listener_, *bulk_);
    return control_->open(*info_);
  }

  result<void> start(transport_handler& handler) override {
    if (started_)
      return failure{error_code::invalid_argument, "a transport starts once: make another"};
    started_ = true;
    bulk_->start();
    control_->start(handler);
    listener_->start(
        [this](std::shared_ptr<connection_request> request) {
          control_->take_request(std::move(request));
        },
        config_.max_handshakes);
    return {};
  }

  void stop() override {
    if (!started_) return;
    listener_->stop();
    control_->stop();
  }

  node_id self() const override { return config_.node; }
  uint64_t epoch() const override { return config_.epoch; }
  std::string address() const override { return control_->address(); }
  void dial(const std::string& address) override { control_->dial(address); }
  void drop(const node_id& peer, const failure& why) override { control_->drop(peer, why); }
  result<void> send(const node_id& to, outgoing_frame frame) override {
    return control_->send(to, std::move(frame));
  }

  result<memory_region> register_memory(std::span<std::byte> bytes) override {
    if (bytes.empty())
      return failure{error_code::invalid_argument, "nothing to register: the span is empty"};
    const auto key = bulk_->register_region(bytes);
    if (!key) return key.error();
    return memory_region{*key, bytes};
  }
  void unregister(const memory_region& region) override { bulk_->unregister_region(region.key); }

  void read(const node_id& from,
            const remote_span& what,
            std::span<std::byte> into,
            std::chrono::milliseconds deadline,
            read_done done) override {
    control_->read(from, what, into, deadline, std::move(done));
  }
  void post(std::function<void()> task) override { control_->post(std::move(task)); }
  bool on_transport_thread() const override { return control_->on_thread(); }
  transport_stats stats() const override { return control_->stats(); }

private:
  result<socket_address> listen_address() const {
    const host_and_port where{config_.listen_host, config_.listen_port};
    if (const auto numeric = numeric_address(where)) return *numeric;
    const auto found = look_up(where);
    if (!found)
      return failure{error_code::invalid_argument,
                     "cannot listen on " + config_.listen_host + ": " + found.error().detail};
    return found->front();
  }

  std::string advertised_host(const socket_address& where) const {
    if (!config_.advertise_host.empty()) return config_.advertise_host;
    if (!where.is_any()) return config_.listen_host;
    const std::string own = first_own_address(where.storage.ss_family);
    return own.empty() ? "127.0.0.1" : own;
  }

  const fabric_config config_;
  ofi_info info_;
  ofi_fabric fabric_;
  // in this order: the lanes hold requests of the acceptor, the control lane uses the bulk lane
  std::unique_ptr<acceptor> listener_;
  std::unique_ptr<bulk_lane> bulk_;
  std::unique_ptr<control_lane> control_;
  bool started_ = false;
};

result<void> check(const fabric_config& config) {
  if (!config.node) return failure{error_code::invalid_argument, "the node id is zero: draw one"};
  if (config.dead_after < 4 * config.heartbeat_interval)
    return failure{error_code::invalid_argument,
                   "dead_after must be at least four heartbeat intervals"};
  if (config.receive_buffers < 2 || config.reads_in_flight < 1 || config.max_links < 1)
    return failure{error_code::invalid_argument, "a limit is too small: see the fabric section"};
  return {};
}

}  // namespace

result<std::unique_ptr<transport>> make_fabric_transport(const fabric_config& config) {
  if (auto fine = check(config); !fine) return fine.error();
  auto out = std::make_unique<fabric_transport>(config);
  if (auto opened = out->open(); !opened) return opened.error();
  return std::unique_ptr<transport>{std::move(out)};
}

void restore_signal_defaults() {
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGABRT, SIGILL})
    std::signal(number, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  ::setenv("IPATH_NO_BACKTRACE", "1", 1);
  ::setenv("HFI_NO_BACKTRACE", "1", 1);
}

void choose_provider(const char* provider) {
  ::setenv("FI_PROVIDER", provider, 0);
}

}  // namespace deepinfer::net
