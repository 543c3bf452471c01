#include "actors/bench/echo_actors.hpp"

#include "actors/messages/errors.hpp"

#include <caf/response_promise.hpp>

#include <utility>

namespace deepinfer::bench {
namespace {

using self_ptr = pinger_actor::stateful_pointer<pinger_state>;

constexpr std::chrono::seconds patience{10};

void next_trip(self_ptr self);

void trip_over(self_ptr self) {
  pinger_state& state = self->state;
  state.times.us.push_back(
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - state.sent_at)
          .count());
  if (state.times.us.size() < state.order.trips) return next_trip(self);
  state.promise.deliver(std::exchange(state.times, {}));
}

void trip_failed(self_ptr self, const caf::error& why) {
  self->state.times.why = from_caf(why);
  self->state.promise.deliver(std::exchange(self->state.times, {}));
}

// Requests, as the actors of a node talk: each waits for one answer and has a deadline.
void next_trip(self_ptr self) {
  pinger_state& state = self->state;
  state.sent_at = std::chrono::steady_clock::now();
  if (state.order.payload_bytes == 0)
    self->request(state.target, patience, state.ping)
        .then([self](const wire::msg<wire::Ping>&) { trip_over(self); },
              [self](const caf::error& why) { trip_failed(self, why); });
  else
    self->request(state.target, patience, state.blob)
        .then([self](const wire::msg<wire::Blob>&) { trip_over(self); },
              [self](const caf::error& why) { trip_failed(self, why); });
}

wire::msg<wire::Ping> ping_of_64_bytes() {
  wire::draft<wire::Ping> out;
  out->setNumber(1);
  return out.freeze();
}

wire::msg<wire::Blob> blob_of(size_t bytes) {
  wire::draft<wire::Blob> out;
  out->initPayload(static_cast<uint32_t>(bytes));
  return out.freeze();
}

}  // namespace

echo_actor::behavior_type echo(echo_actor::pointer) {
  return {
      [](const wire::msg<wire::Ping>& ping) { return ping; },
      [](const wire::msg<wire::Blob>& blob) { return blob; },
  };
}

pinger_actor::behavior_type pinger(pinger_actor::stateful_pointer<pinger_state> self,
                                   const echo_actor& target) {
  self->state.target = target;
  self->state.ping = ping_of_64_bytes();
  return {
      [self](const trip_order& order) {
        pinger_state& state = self->state;
        state.order = order;
        state.times.us.reserve(order.trips);
        if (order.payload_bytes > 0) state.blob = blob_of(order.payload_bytes);
        state.promise = self->make_response_promise<trip_times>();
        next_trip(self);
        return state.promise;
      },
  };
}

}  // namespace deepinfer::bench
