#include "runtime/net/fabric/acceptor.hpp"

#include "runtime/net/fabric/hello.hpp"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace deepinfer::net {
namespace {

// A whole request comes in one segment; whoever sends less holds up other dialers this long.
constexpr timeval first_bytes_wait{0, 20'000};

bool listens_at(int fd, const socket_address& where) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0)
    return false;
  socket_address own;
  own.length = sizeof own.storage;
  return ::getsockname(fd, own.get(), &own.length) == 0 && own.length == where.length &&
         std::memcmp(own.get(), where.get(), where.length) == 0;
}

/// libfabric hides its listening socket, but accepted sockets inherit its options: find it among
/// our descriptors and bound the blocking read of the first bytes. Not finding it is no error:
/// other providers have no such socket.
void bound_first_read(const socket_address& where) {
  DIR* list = ::opendir("/proc/self/fd");
  if (list == nullptr) return;
  while (const dirent* entry = ::readdir(list)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 0 || !listens_at(fd, where)) continue;
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &first_bytes_wait, sizeof first_bytes_wait);
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &first_bytes_wait, sizeof first_bytes_wait);
  }
  ::closedir(list);
}

/// A listener at exactly `where`; the code tells "taken" from other trouble.
int listen_at(fid_fabric& fabric,
              const fi_info& info,
              const socket_address& where,
              fid_eq& events,
              ofi_passive& out) {
  const ofi_info own{fi_dupinfo(&info)};
  if (!own) return -FI_ENOMEM;
  std::memcpy(own->src_addr, where.get(), std::min<size_t>(own->src_addrlen, where.length));
  fid_pep* listener = nullptr;
  int code = fi_passive_ep(&fabric, own.get(), &listener, nullptr);
  if (code != 0) return code;
  out.reset(listener);
  code = fi_pep_bind(listener, &events.fid, 0);
  if (code == 0) code = fi_listen(listener);
  if (code != 0) out.reset();
  return code;
}

}  // namespace

std::thread start_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the threads of `main`
  std::thread thread{std::move(body)};
  pthread_setname_np(thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

result<std::unique_ptr<acceptor>> acceptor::open(fid_fabric& fabric,
                                                 const fi_info& info,
                                                 socket_address where,
                                                 uint32_t tries) {
  std::unique_ptr<acceptor> out{new acceptor};
  out->fabric_ = &fabric;
  auto events = open_event_queue(fabric);
  if (!events) return events.error();
  out->events_ = *std::move(events);
  const uint16_t first = where.port();
  int code = -FI_EADDRINUSE;
  for (uint32_t i = 0; i <= tries && code == -FI_EADDRINUSE && first + i <= 65535; ++i) {
    where.set_port(static_cast<uint16_t>(first + i));
    code = listen_at(fabric, info, where, *out->events_, out->listener_);
  }
  if (code == -FI_EADDRINUSE)
    return failure{error_code::no_capacity,
                   "port " + std::to_string(first) + " is taken: choose another, or 0 for any"};
  if (code != 0)
    return failure{
        error_code::invalid_argument,
        "cannot listen on " + join_address(where.host(), first) + ": " + fi_strerror(-code)};
  size_t length = sizeof where.storage;
  if (const int named = fi_getname(&out->listener_->fid, where.get(), &length); named != 0)
    return ofi_failure("cannot read the listening address", named);
  where.length = static_cast<socklen_t>(length);
  out->where_ = where;
  bound_first_read(where);
  return out;
}

void acceptor::start(request_handler handler, uint32_t max_open) {
  handler_ = std::move(handler);
  max_open_ = max_open;
  thread_ = start_thread("net-accept", [this] { run(); });
}

void acceptor::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  waker_.wake();
  thread_.join();
}

void acceptor::run() {
  alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 2 * max_hello_bytes> entry;
  std::array<fid*, 1> waits{&events_->fid};
  std::array<pollfd, 2> fds{pollfd{wait_descriptor(events_->fid), POLLIN, 0},
                            pollfd{waker_.fd(), POLLIN, 0}};
  while (!stopping_.load()) {
    if (open_.load() >= max_open_) {  // the others wait in the kernel's queue
      (void)::poll(nullptr, 0, 1);
      continue;
    }
    uint32_t event = 0;
    // The provider takes a stale errno for the result of a short read: with EAGAIN left over, a
    // stranger that connects and closes would keep this thread spinning.
    errno = 0;
    const ssize_t got = fi_eq_read(events_.get(), &event, entry.data(), entry.size(), 0);
    if (got > 0) {
      handle_event(event, std::span{entry}.first(static_cast<size_t>(got)));
      continue;
    }
    if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      (void)fi_eq_readerr(events_.get(), &error, 0);
      continue;
    }
    waker_.prepare();
    if (!stopping_.load() && fi_trywait(fabric_, waits.data(), 1) == 0)
      (void)::poll(fds.data(), fds.size(), -1);
    waker_.awake();
  }
}

void acceptor::handle_event(uint32_t event, std::span<const std::byte> entry) {
  if (event != FI_CONNREQ || entry.size() < sizeof(fi_eq_cm_entry)) return;
  fi_eq_cm_entry request;
  std::memcpy(&request, entry.data(), sizeof request);
  const auto data = entry.subspan(sizeof request);
  auto owned = std::make_shared<connection_request>(
      *listener_, request.info, std::vector<std::byte>{data.begin(), data.end()}, open_);
  handler_(std::move(owned));
}

}  // namespace deepinfer::net
