#include "runtime/http/server.hpp"

#include "runtime/http/listener_state.hpp"
#include "runtime/http/session.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

namespace deepinfer {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost_error = boost::system::error_code;
using http::counters;
using http::listener_state;
using http::session;
using std::chrono::milliseconds;

constexpr http_problem too_many_connections{503, "overloaded_error", "too_many_connections",
                                            "The server has no connection left; try again later."};

const failure server_stops{error_code::cancelled, "the server stops"};

std::string print_endpoint(const tcp::endpoint& at) {
  const std::string address = at.address().to_string();
  const std::string port = std::to_string(at.port());
  return at.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

class beast_server final : public http_server {
public:
  beast_server(std::shared_ptr<listener_state> state, tcp::acceptor acceptor, std::string address)
      : state_(std::move(state)),
        acceptor_(std::move(acceptor)),
        retry_(state_->io),
        ticker_(state_->io),
        address_(std::move(address)) {}
  ~beast_server() override { stop(); }

  result<void> start() override;
  void stop() override;
  std::string address() const override { return address_; }
  http_stats stats() const override { return state_->counts->snapshot(); }

private:
  void accept();
  void on_accept(const boost_error& error, tcp::socket socket);
  void admit(tcp::socket socket);
  void begin_drain();
  void start_ticking();
  void tick();
  [[nodiscard]] milliseconds tick_interval() const;

  std::shared_ptr<listener_state> state_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  asio::steady_timer ticker_;
  const std::string address_;
  std::thread thread_;
  bool has_started_ = false;
  bool is_ticking_ = false;
  uint64_t last_id_ = 0;
  listener_state::clock::time_point drain_deadline_ = listener_state::clock::time_point::max();
};

result<void> beast_server::start() {
  if (has_started_) return failure{error_code::invalid_argument, "an HTTP server starts only once"};
  has_started_ = true;
  accept();
  thread_ = std::thread([state = state_] { state->io.run(); });
  return {};
}

void beast_server::stop() {
  if (!thread_.joinable()) return;
  DEEPINFER_CHECK(thread_.get_id() != std::this_thread::get_id());
  asio::post(state_->io, [this] { begin_drain(); });
  thread_.join();
  // answers still held by somebody keep the state alive; the handler must not live on with it
  state_->handler = nullptr;
}

void beast_server::begin_drain() {
  boost_error ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  state_->is_draining = true;
  state_->now = listener_state::clock::now();
  drain_deadline_ = state_->now + state_->config.drain_timeout;
  std::vector<std::shared_ptr<session>> all;
  for (const auto& [id, one] : state_->sessions) all.push_back(one);
  for (const auto& one : all) one->drain();
  ticker_.cancel();  // and on with the short interval: `stop` ends when the last connection does
}

void beast_server::accept() {
  acceptor_.async_accept([this](const boost_error& error, tcp::socket socket) {
    on_accept(error, std::move(socket));
  });
}

void beast_server::on_accept(const boost_error& error, tcp::socket socket) {
  if (state_->is_draining) return;
  if (!error) {
    admit(std::move(socket));
    return accept();
  }
  if (error == asio::error::connection_aborted) return accept();  // it left while it queued
  // Out of descriptors or memory: the connection stays in the backlog, and accepting again at once
  // would fail again at once. Others may close meanwhile.
  constexpr milliseconds pause{100};
  counters::add(state_->counts->accept_errors);
  retry_.expires_after(pause);
  retry_.async_wait([this](const boost_error& cancelled) {
    if (!cancelled && !state_->is_draining) accept();
  });
}

void beast_server::admit(tcp::socket socket) {
  constexpr size_t polite_refusals = 64;  // beyond them a connection is closed without a word
  counters::add(state_->counts->accepted);
  const size_t open = state_->sessions.size();
  const size_t most = state_->config.max_connections;
  if (open >= most) counters::add(state_->counts->refused_connections);
  if (open >= most + polite_refusals) return;
  state_->now = listener_state::clock::now();
  const auto one = std::make_shared<session>(*state_, std::move(socket), ++last_id_);
  state_->sessions.emplace(last_id_, one);
  if (open >= most) {
    one->refuse(too_many_connections);
  } else {
    one->open();
  }
  start_ticking();
}

milliseconds beast_server::tick_interval() const {
  // deadlines are kept within a quarter of the shortest timeout
  constexpr milliseconds while_draining{5};
  if (state_->is_draining) return while_draining;
  const http_config& c = state_->config;
  const milliseconds shortest =
      std::min({c.idle_timeout, c.header_timeout, c.body_timeout, c.write_stall_timeout,
                c.linger_timeout, c.drain_timeout});
  return std::clamp(shortest / 4, milliseconds{5}, milliseconds{250});
}

void beast_server::start_ticking() {
  // one timer for all: arming one per connection and request would cost more than looking at all
  // of them now and then. It rests while there is no connection.
  if (is_ticking_ || state_->sessions.empty()) return;
  is_ticking_ = true;
  ticker_.expires_after(tick_interval());
  ticker_.async_wait([this](const boost_error&) {
    is_ticking_ = false;
    tick();
    start_ticking();
  });
}

void beast_server::tick() {
  const auto now = state_->now = listener_state::clock::now();
  const bool is_over = now >= drain_deadline_;
  std::vector<std::shared_ptr<session>> due;
  for (const auto& [id, one] : state_->sessions)
    if (is_over || one->is_expired(now)) due.push_back(one);
  for (const auto& one : due) {
    if (is_over) {
      one->close(server_stops);
    } else {
      one->on_tick(now);
    }
  }
}

struct host_port {
  std::string host;
  uint16_t port = 0;
};

result<host_port> split_address(const std::string& address) {
  const failure bad{error_code::invalid_argument,
                    "\"" + address +
                        "\" is no address to listen on; write host:port, for example "
                        "127.0.0.1:8000 or [::]:8000"};
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  host_port out{address.substr(0, colon), 0};
  if (out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  const char* first = address.data() + colon + 1;
  const char* last = address.data() + address.size();
  const auto [end, error] = std::from_chars(first, last, out.port);
  if (error != std::errc{} || end != last || first == last || out.host.empty()) return bad;
  return out;
}

boost_error listen_at(tcp::acceptor& acceptor, const tcp::endpoint& at, int backlog) {
  boost_error error;
  const auto failed = [&error, &acceptor] {
    boost_error ignored;
    if (error) acceptor.close(ignored);
    return static_cast<bool>(error);
  };
  acceptor.open(at.protocol(), error);
  if (failed()) return error;
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (failed()) return error;
  acceptor.bind(at, error);
  if (failed()) return error;
  acceptor.listen(backlog, error);
  failed();
  return error;
}

/// The wanted port, or one of the next ones where config allows that.
result<tcp::endpoint> listen_near(tcp::acceptor& acceptor,
                                  const host_port& wanted,
                                  const http_config& config) {
  boost_error error;
  auto address = asio::ip::make_address(wanted.host, error);
  if (error) {
    tcp::resolver resolver{acceptor.get_executor()};
    const auto found = resolver.resolve(wanted.host, "", error);
    if (error || found.empty())
      return failure{error_code::invalid_argument,
                     "no address is known for host " + wanted.host + "; use a numeric one"};
    address = found.begin()->endpoint().address();
  }
  for (uint32_t i = 0; i < config.port_tries && wanted.port + i <= 65535; ++i) {
    const tcp::endpoint at{address, static_cast<uint16_t>(wanted.port + i)};
    error = listen_at(acceptor, at, static_cast<int>(config.backlog));
    if (!error) return acceptor.local_endpoint();
    if (error != asio::error::address_in_use) break;
  }
  std::string detail = "cannot listen on " + config.listen + ": " + error.message();
  if (error == asio::error::address_in_use) detail += "; choose another port or stop its user";
  return failure{error_code::unreachable, std::move(detail)};
}

}  // namespace

result<std::unique_ptr<http_server>> make_http_server(const http_config& config,
                                                      http_handler handler,
                                                      http_refusal_writer refusals) {
  const auto wanted = split_address(config.listen);
  if (!wanted) return wanted.error();
  try {
    auto state = std::make_shared<listener_state>(config, std::move(handler), std::move(refusals));
    tcp::acceptor acceptor{state->io};
    const auto at = listen_near(acceptor, *wanted, config);
    if (!at) return at.error();
    return std::unique_ptr<http_server>{
        std::make_unique<beast_server>(std::move(state), std::move(acceptor), print_endpoint(*at))};
  } catch (const std::exception& error) {  // Asio: no descriptor left for its own use
    return failure{error_code::no_capacity,
                   std::string("cannot start an HTTP server: ") + error.what()};
  }
}

}  // namespace deepinfer
