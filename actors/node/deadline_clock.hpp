#pragma once

#include <caf/detail/thread_safe_actor_clock.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace deepinfer {

/// CAF's clock for actors whose every wait has a deadline that is hardly ever reached. CAF's own
/// hands each new deadline and each cancellation to its timer thread, which wakes up for both: ten
/// wake-ups a chat request. Here they only change a table, and the thread sleeps until something
/// is due. CAF also keeps the deadline of an answered request, and with it the actor, until it is
/// due; here an actor that ends takes its deadlines and messages to itself with it.
///
/// Derived from CAF's class because a coordinator must return that; nothing of it is used.
class deadline_clock final : public caf::detail::thread_safe_actor_clock {
public:
  ~deadline_clock() override;

  void start();
  /// Joins the thread and drops what is not due.
  void stop();

  void set_ordinary_timeout(time_point t,
                            caf::abstract_actor* self,
                            caf::atom_value type,
                            uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void set_multi_timeout(time_point t,
                         caf::abstract_actor* self,
                         caf::atom_value type,
                         uint64_t id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t,
                        caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t,
                        caf::group target,
                        caf::strong_actor_ptr sender,
                        caf::message content) override;
  void cancel_all() override;

  /// Deadlines and messages that wait.
  [[nodiscard]] size_t size() const;

private:
  enum class purpose : uint8_t { ordinary, request, multi, message };

  struct entry {
    purpose what = purpose::message;
    uint64_t id = 0;  ///< of the request, or the atom of a timeout
    caf::strong_actor_ptr receiver;
    caf::mailbox_element_ptr content;
  };
  using schedule = std::multimap<time_point, entry>;
  using by_actor = std::unordered_multimap<caf::actor_id, schedule::iterator>;

  void set(time_point due, entry what);
  /// Takes all of an actor's entries out that `matches`.
  template <class Matches>
  void cancel(caf::actor_id actor, Matches matches);
  /// The actor has ended.
  void release(caf::actor_id actor);
  [[nodiscard]] static caf::mailbox_element_ptr timeout(caf::atom_value type, uint64_t id);
  void run();
  /// What is due, out of the table; delivered by the caller without the lock.
  [[nodiscard]] std::vector<entry> take_due(time_point now);
  void forget(schedule::iterator which);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  schedule entries_;
  by_actor of_actor_;
  std::unordered_set<caf::actor_id> followed_;  ///< their end will be told, once
  time_point wakes_at_ = time_point::max();
  bool over_ = false;
  std::thread thread_;
};

}  // namespace deepinfer
