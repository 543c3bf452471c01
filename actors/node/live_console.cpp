#include "actors/node/live_console.hpp"

#include "actors/node/commands.hpp"
#include "actors/node/terminal.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto refresh = 1000ms;

/// What one round of questions gave.
struct answer {
  std::string source;
  view::topology topology;
  view::event_lines events;
  steady::time_point at;
};

result<answer> ask(const http_url& base) {
  const auto topology = fetch(base, "/api/topology");
  if (!topology) return topology.error();
  auto parsed = view::parse_topology(*topology);
  if (!parsed) return parsed.error();
  answer out{to_string(base), *std::move(parsed), {}, steady::now()};
  // the page lives without them
  if (const auto events = fetch(base, "/api/events"))
    if (auto lines = view::parse_events(*events)) out.events = *std::move(lines);
  return out;
}

/// Any console of the cluster will do: they all know all nodes.
result<answer> ask_any(const cluster_target& target) {
  const auto bases = console_addresses(target);
  if (!bases) return bases.error();
  result<answer> last{failure{error_code::unreachable, "no address to ask"}};
  for (const http_url& base : *bases) {
    last = ask(base);
    if (last) break;
  }
  return last;
}

/// Asks in a thread of its own, so that keys work while a server is slow.
class poller {
public:
  explicit poller(const cluster_target& target)
      : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this, target](const std::stop_token& stop) { run(stop, target); }) {}
  ~poller() {
    thread_.request_stop();
    thread_.join();
    ::close(ready_);
  }
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;

  /// Readable when there is something to take.
  [[nodiscard]] int descriptor() const { return ready_; }

  std::optional<result<answer>> take() {
    eventfd_t ignored = 0;
    static_cast<void>(::eventfd_read(ready_, &ignored));
    const std::lock_guard lock{mutex_};
    return std::exchange(latest_, std::nullopt);
  }

private:
  void run(const std::stop_token& stop, const cluster_target& target) {
    while (!stop.stop_requested()) {
      const auto next = steady::now() + refresh;
      auto got = ask_any(target);
      std::unique_lock lock{mutex_};
      latest_ = std::move(got);
      static_cast<void>(::eventfd_write(ready_, 1));
      due_.wait_until(lock, stop, next, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any due_;
  std::optional<result<answer>> latest_;
  int ready_;
  std::jthread thread_;  // last: it uses all others
};

class live_console {
public:
  explicit live_console(answer first) { accept(std::move(first)); }

  void take(std::optional<result<answer>> news) {
    if (!news) return;
    if (*news) {
      accept(**std::move(news));
    } else {
      state_.trouble = news->error().detail;
    }
  }

  void draw(full_screen& screen, const view::palette& colours) {
    state_.age_s = std::chrono::duration<double>(steady::now() - reading_at_).count();
    screen.draw(view::draw_frame(state_, screen_size_of(STDOUT_FILENO), colours));
  }

  view::live_step keys(std::string_view keys) {
    return view::apply_keys(state_, keys, screen_size_of(STDOUT_FILENO));
  }

private:
  void accept(answer news) {
    view::rates speed;
    if (state_.latest)
      speed = view::rates_between(state_.latest->now, news.topology, news.at - reading_at_);
    state_.latest = view::reading{std::move(news.topology), std::move(speed)};
    state_.events = {std::move(news.events)};
    state_.source = std::move(news.source);
    state_.trouble.clear();
    reading_at_ = news.at;
  }

  view::live_state state_;
  steady::time_point reading_at_;
};

/// Until the user, the terminal or a signal ends it.
void show(live_console& console, full_screen& screen, const cluster_target& target) {
  const view::palette colours = palette_for(STDOUT_FILENO);
  poller questions{target};
  while (true) {
    console.draw(screen, colours);
    const auto woken = screen.wait(questions.descriptor(), refresh);
    if (woken.is_over || console.keys(woken.keys) == view::live_step::leave) return;
    if (woken.is_ready) console.take(questions.take());
  }
}

}  // namespace

int run_live_console(const cluster_target& target) {
  // before the screen is taken, so that a wrong address is a plain message
  auto first = ask_any(target);
  if (!first) return report("console", first.error());
  auto screen = full_screen::enter();
  if (!screen) return report("console", screen.error());
  live_console console{*std::move(first)};
  show(console, **screen, target);
  const int signal = (*screen)->ending_signal();
  screen->reset();
  // Who sent the signal learns that it ended us; Ctrl-C from outside is a way to leave.
  if (signal != 0 && signal != SIGINT) ::raise(signal);
  return exit_done;
}

}  // namespace deepinfer
