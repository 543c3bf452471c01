#include "actors/node/deadline_clock.hpp"

#include <caf/actor_cast.hpp>
#include <caf/error.hpp>
#include <caf/group.hpp>
#include <caf/make_message.hpp>
#include <caf/sec.hpp>
#include <caf/system_messages.hpp>

#include <utility>
#include <vector>

namespace deepinfer {
namespace {

uint64_t number(caf::atom_value type) {
  return static_cast<uint64_t>(type);
}

}  // namespace

deadline_clock::~deadline_clock() {
  stop();
}

void deadline_clock::start() {
  thread_ = std::thread{[this] { run(); }};
}

void deadline_clock::stop() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  cancel_all();
}

caf::mailbox_element_ptr deadline_clock::timeout(caf::atom_value type, uint64_t id) {
  return caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, caf::timeout_msg{type, id});
}

void deadline_clock::set_ordinary_timeout(time_point t,
                                          caf::abstract_actor* self,
                                          caf::atom_value type,
                                          uint64_t id) {
  cancel_ordinary_timeout(self, type);  // the new one replaces it
  set(t, {purpose::ordinary, number(type), caf::actor_cast<caf::strong_actor_ptr>(self),
          timeout(type, id)});
}

void deadline_clock::set_multi_timeout(time_point t,
                                       caf::abstract_actor* self,
                                       caf::atom_value type,
                                       uint64_t id) {
  set(t, {purpose::multi, number(type), caf::actor_cast<caf::strong_actor_ptr>(self),
          timeout(type, id)});
}

void deadline_clock::set_request_timeout(time_point t,
                                         caf::abstract_actor* self,
                                         caf::message_id id) {
  auto late =
      caf::make_mailbox_element(nullptr, id, {}, caf::make_error(caf::sec::request_timeout));
  set(t, {purpose::request, id.integer_value(), caf::actor_cast<caf::strong_actor_ptr>(self),
          std::move(late)});
}

void deadline_clock::schedule_message(time_point t,
                                      caf::strong_actor_ptr receiver,
                                      caf::mailbox_element_ptr content) {
  set(t, {purpose::message, 0, std::move(receiver), std::move(content)});
}

void deadline_clock::schedule_message(time_point t,
                                      caf::group target,
                                      caf::strong_actor_ptr sender,
                                      caf::message content) {
  // Nothing of ours sends to groups; at once is better than never.
  static_cast<void>(t);
  if (target)
    target->eq_impl(caf::make_message_id(), std::move(sender), nullptr, std::move(content));
}

void deadline_clock::set(time_point due, entry what) {
  const caf::strong_actor_ptr actor = what.receiver;
  bool fresh = false;
  {
    const std::lock_guard lock{mutex_};
    if (over_) return;
    of_actor_.emplace(actor->id(), entries_.emplace(due, std::move(what)));
    fresh = followed_.insert(actor->id()).second;
    if (due < wakes_at_) {
      wakes_at_ = due;
      changed_.notify_one();
    }
  }
  // Without the lock: on an actor that has ended already the functor runs at once.
  if (fresh) actor->get()->attach_functor([this, id = actor->id()] { release(id); });
}

// Actors are released outside the lock: the last reference may run code of theirs.
template <class Matches>
void deadline_clock::cancel(caf::actor_id actor, Matches matches) {
  std::vector<entry> gone;
  const std::lock_guard lock{mutex_};
  auto [at, end] = of_actor_.equal_range(actor);
  while (at != end) {
    const auto which = at->second;
    if (!matches(which->second)) {
      ++at;
      continue;
    }
    gone.push_back(std::move(which->second));
    entries_.erase(which);
    at = of_actor_.erase(at);
  }
}

// A request that was sent with a delay stays: its sender is owed the answer that nobody is there.
void deadline_clock::release(caf::actor_id actor) {
  cancel(actor,
         [](const entry& e) { return e.what != purpose::message || !e.content->mid.is_request(); });
  const std::lock_guard lock{mutex_};
  followed_.erase(actor);
}

void deadline_clock::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  cancel(self->id(),
         [type](const entry& e) { return e.what == purpose::ordinary && e.id == number(type); });
}

void deadline_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  cancel(self->id(),
         [id](const entry& e) { return e.what == purpose::request && e.id == id.integer_value(); });
}

void deadline_clock::cancel_timeouts(caf::abstract_actor* self) {
  cancel(self->id(), [](const entry& e) { return e.what != purpose::message; });
}

void deadline_clock::cancel_all() {
  schedule gone;
  const std::lock_guard lock{mutex_};
  of_actor_.clear();
  gone.swap(entries_);
}

size_t deadline_clock::size() const {
  const std::lock_guard lock{mutex_};
  return entries_.size();
}

void deadline_clock::forget(schedule::iterator which) {
  auto [at, end] = of_actor_.equal_range(which->second.receiver->id());
  for (; at != end; ++at)
    if (at->second == which) {
      of_actor_.erase(at);
      return;
    }
}

std::vector<deadline_clock::entry> deadline_clock::take_due(time_point now) {
  std::vector<entry> due;
  while (!entries_.empty() && entries_.begin()->first <= now) {
    const auto first = entries_.begin();
    forget(first);
    due.push_back(std::move(first->second));
    entries_.erase(first);
  }
  return due;
}

void deadline_clock::run() {
  std::unique_lock lock{mutex_};
  while (!over_) {
    wakes_at_ = entries_.empty() ? time_point::max() : entries_.begin()->first;
    // An earlier entry notifies; a cancelled one lets this wake up for nothing, once.
    if (wakes_at_ == time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, wakes_at_);
    }
    std::vector<entry> due = take_due(now());
    lock.unlock();
    for (entry& e : due) e.receiver->enqueue(std::move(e.content), nullptr);
    due.clear();
    lock.lock();
  }
}

}  // namespace deepinfer
