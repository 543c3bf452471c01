// The bulk lane's connections and the reads on them.
#include "proto/types/limits.hpp"
#include "runtime/net/fabric/bulk_lane.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

namespace deepinfer::net {
namespace {

constexpr size_t queue_entries = 256;
constexpr auto first_pause = std::chrono::milliseconds{10};
constexpr auto longest_pause = std::chrono::milliseconds{1000};

std::chrono::milliseconds pause_after(uint32_t failures) {
  return std::min(longest_pause, first_pause * (1u << std::min(failures, 10u)));
}

}  // namespace

result<void> bulk_lane::open_into(bulk_connection& connection, fi_info& info) {
  auto queue = open_completion_queue(*domain_, queue_entries);
  if (!queue) return queue.error();
  auto endpoint = open_endpoint(*domain_, info, *events_, **queue, nullptr);
  if (!endpoint) return endpoint.error();
  connection.queue = *std::move(queue);
  connection.endpoint = *std::move(endpoint);
  connection.queue_fd = wait_descriptor(connection.queue->fid);
  connection.ready = true;
  connection.connected = false;
  links_[&connection.endpoint->fid] = connection.peer.link;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connection.peer.link;
  if (::epoll_ctl(poll_set_.get(), EPOLL_CTL_ADD, connection.queue_fd, &event) == 0) return {};
  reset(connection, cause::own);
  return failure{error_code::no_capacity, "out of file descriptors: raise ulimit -n"};
}

void bulk_lane::connect(bulk_connection& connection, steady_time now) {
  const ofi_info info = info_towards(*info_, connection.peer.target);
  connection.connect_at = now + pause_after(connection.failures++);
  if (!open_into(connection, *info)) return;
  connection.deadline = now + config_.dial_timeout;
  connection.own_hello =
      write_hello({lane::bulk, config_.node, ++connection.attempt, connection.peer.about, {}, 0},
                  config_.cluster, config_.secret);
  const int code = fi_connect(connection.endpoint.get(), info->dest_addr,
                              connection.own_hello.data(), connection.own_hello.size());
  if (code != 0) reset(connection, cause::own);
}

void bulk_lane::take_request(const bulk_peer& peer, uint64_t attempt, connection_request& request) {
  bulk_connection& connection = connections_[peer.link];
  if (connection.peer.link == 0) connection.peer = peer;
  if (attempt <= connection.attempt) {
    request.reject(write_refusal(refusal::no_link));  // a recording
    return;
  }
  connection.attempt = attempt;
  if (connection.endpoint) reset(connection, cause::own);
  if (!open_into(connection, request.info())) return;
  const std::string answer =
      write_hello({lane::bulk_answer, config_.node, attempt, peer.about, {}, 0}, config_.cluster,
                  config_.secret);
  if (fi_accept(connection.endpoint.get(), answer.data(), answer.size()) != 0)
    reset(connection, cause::own);
  else
    request.accepted();
}

void bulk_lane::on_connected(bulk_connection& connection, std::span<const std::byte> data) {
  if (connection.peer.role == link_role::dialer) {
    const auto answer = read_hello(data, config_.cluster, config_.secret);
    if (!answer || answer->kind != lane::bulk_answer || answer->epoch != connection.attempt ||
        !same_digest(answer->nonce, connection.peer.about))
      return reset(connection, cause::own);
  }
  connection.connected = true;
  connection.failures = 0;
  connection.ready = true;
  pump(connection);
}

void bulk_lane::reset(bulk_connection& connection, cause why) {
  if (!connection.endpoint) return;
  links_.erase(&connection.endpoint->fid);
  ::epoll_ctl(poll_set_.get(), EPOLL_CTL_DEL, connection.queue_fd, nullptr);
  connection.endpoint.reset();
  connection.queue.reset();  // the parts are ours again
  connection.connected = false;
  connection.blocked = false;
  look_again_at(connection.connect_at);

  std::vector<std::shared_ptr<bulk_read>> touched;
  for (auto& part : connection.under_way) {
    part->read->again.emplace_back(part->offset, part->length);
    --part->read->parts_under_way;
    if (std::find(touched.begin(), touched.end(), part->read) == touched.end())
      touched.push_back(part->read);
  }
  connection.under_way.clear();
  for (auto read = touched.rbegin(); read != touched.rend(); ++read) {
    if (std::find(connection.waiting.begin(), connection.waiting.end(), *read) ==
        connection.waiting.end())
      connection.waiting.push_front(*read);
    if ((*read)->expired)
      finish(connection, **read, bulk_outcome::failed,
             {error_code::deadline_exceeded, "read not done in time"});
    else if (why == cause::peer)
      finish(connection, **read, bulk_outcome::interrupted, {});
  }
}

void bulk_lane::remove(uint64_t link, const failure& why) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  bulk_connection& connection = found->second;
  reset(connection, cause::own);
  while (!connection.waiting.empty()) {
    const std::shared_ptr<bulk_read> read = connection.waiting.front();
    finish(connection, *read, bulk_outcome::failed, why);
  }
  connections_.erase(found);  // with its exports: nothing sends from them any more
}

void bulk_lane::drain(bulk_connection& connection) {
  std::array<fi_cq_data_entry, 16> entries;
  while (connection.endpoint) {
    const ssize_t got = fi_cq_read(connection.queue.get(), entries.data(), entries.size());
    if (got == -FI_EAGAIN) return;
    if (got <= 0) return reset(connection, cause::peer);  // a part failed: start over
    for (ssize_t i = 0; i < got; ++i)
      part_done(connection, *static_cast<bulk_part*>(entries[static_cast<size_t>(i)].op_context));
    pump(connection);
  }
}

void bulk_lane::part_done(bulk_connection& connection, bulk_part& part) {
  const std::shared_ptr<bulk_read> read = part.read;
  read->left -= part.length;
  --read->parts_under_way;
  connection.under_way.erase(part.self);
  if (read->left == 0)
    finish(connection, *read, bulk_outcome::done, {});
  else if (read->expired && read->parts_under_way == 0)
    finish(connection, *read, bulk_outcome::failed,
           {error_code::deadline_exceeded, "read not done in time"});
}

void bulk_lane::pump(bulk_connection& connection) {
  connection.blocked = false;
  if (!connection.connected) return;
  size_t position = 0;
  while (connection.under_way.size() < config_.reads_in_flight &&
         position < connection.waiting.size()) {
    const std::shared_ptr<bulk_read> read = connection.waiting[position];
    if (read->again.empty() && read->next == read->into.size()) {
      ++position;  // all asked for; stays in the list until it ends
      continue;
    }
    std::pair<size_t, size_t> part{
        read->next, std::min(read->into.size() - read->next, limits::max_bulk_read_bytes)};
    const bool once_more = !read->again.empty();
    if (once_more) part = read->again.back();
    const ssize_t code = post_part(connection, read, part.first, part.second);
    if (code == -FI_EAGAIN) {
      connection.blocked = true;
      return;
    }
    if (code != 0) return reset(connection, cause::peer);
    if (once_more)
      read->again.pop_back();
    else
      read->next += part.second;
    connection.ready = true;
  }
}

ssize_t bulk_lane::post_part(bulk_connection& connection,
                             const std::shared_ptr<bulk_read>& read,
                             size_t offset,
                             size_t length) {
  auto part = std::make_unique<bulk_part>();
  part->read = read;
  part->offset = offset;
  part->length = length;
  void* descriptor = read->local ? fi_mr_desc(read->local.get()) : nullptr;
  const ssize_t code =
      fi_read(connection.endpoint.get(), read->into.data() + offset, length, descriptor,
              FI_ADDR_UNSPEC, read->address + offset, read->key, &part->context);
  if (code != 0) return code;
  ++read->parts_under_way;
  connection.under_way.push_back(std::move(part));
  connection.under_way.back()->self = std::prev(connection.under_way.end());
  return 0;
}

void bulk_lane::finish(bulk_connection& connection,
                       bulk_read& read,
                       bulk_outcome outcome,
                       const failure& why) {
  const auto is_it = [&](const auto& entry) { return entry.get() == &read; };
  const auto found = std::find_if(connection.waiting.begin(), connection.waiting.end(), is_it);
  if (found == connection.waiting.end()) return;
  const std::shared_ptr<bulk_read> keep = *found;
  connection.waiting.erase(found);
  std::erase_if(connection.expired, is_it);
  --connection.reads;
  keep->local.reset();
  keep->done(outcome, why);
}

void bulk_lane::expire_reads(bulk_connection& connection, steady_time now) {
  const failure late{error_code::deadline_exceeded, "read not done in time"};
  std::vector<std::shared_ptr<bulk_read>> due;
  for (const auto& read : connection.waiting)
    if (!read->expired && now >= read->deadline) due.push_back(read);
  for (const auto& read : due) {
    read->expired = true;
    read->again.clear();
    read->next = read->into.size();  // asks for nothing more
    if (read->parts_under_way == 0)
      finish(connection, *read, bulk_outcome::failed, late);
    else
      connection.expired.push_back(read);
  }
  // The provider cannot take back a part; only closing the connection makes it stop writing.
  const bool stuck =
      std::any_of(connection.expired.begin(), connection.expired.end(),
                  [&](const auto& read) { return now >= read->deadline + config_.read_grace; });
  if (stuck) reset(connection, cause::own);
}

}  // namespace deepinfer::net
