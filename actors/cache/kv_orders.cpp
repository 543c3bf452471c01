#include "actors/cache/kv_orders.hpp"

#include "actors/control/membership.hpp"
#include "actors/messages/cache.hpp"
#include "actors/messages/errors.hpp"

#include <caf/typed_response_promise.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

namespace deepinfer {
namespace {

using self_ptr = kv_orders_actor::stateful_pointer<kv_orders_state>;
using kinds = std::vector<std::string_view>;

constexpr uint32_t max_open = 16;
constexpr std::chrono::seconds members_within{2};

/// An order on its way. The promise is the last thing that happens to it.
struct open_order {
  std::vector<order_target> targets;
  std::chrono::nanoseconds deadline{};
  std::chrono::nanoseconds phase_ends{};
  size_t waiting = 0;  ///< answers of this phase
  caf::typed_response_promise<order_report> promise;
};
using order_ptr = std::shared_ptr<open_order>;
using step = std::function<void()>;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

storage::block_key store_of(wire::Service::Reader service) {
  return {service.getStore().getHi(), service.getStore().getLo()};
}

std::string explain(const failure& why) {
  if (why.code == error_code::deadline_exceeded) return "no answer in time";
  return why.detail.empty() ? to_string(why) : why.detail;
}

void note(order_outcome& to, wire::KvPurged::Reader purged) {
  to.blocks += purged.getBlocks();
  to.bytes += purged.getBytes();
  to.rings += purged.getRings();
}

// ---- phases: all of some kinds are asked side by side, then the next step follows

/// One answer less to wait for; the order goes on with the last one.
void arrived(const order_ptr& order, const step& next) {
  if (--order->waiting == 0) next();
}

template <class Handle, class Question, class Answer>
void ask(self_ptr self,
         const order_ptr& order,
         order_target& target,
         const wire::msg<Question>& question,
         const std::function<void(order_outcome&, typename Answer::Reader)>& take,
         const step& next) {
  kv_orders_state& state = self->state;
  const auto to = state.setup.hub->resolve<Handle>(target.ref);
  const auto left = order->phase_ends - now_of(self);
  if (!to || left.count() <= 0) {
    target.outcome.problem = to ? "no time was left to ask it" : explain(to.error());
    return arrived(order, next);
  }
  // The targets do not move while an order is open.
  self->request(*to, left, question)
      .then(
          [order, take, next, &target](const wire::msg<Answer>& answer) {
            take(target.outcome, answer.get());
            arrived(order, next);
          },
          [order, next, &target](const caf::error& e) {
            target.outcome.problem = explain(from_caf(e));
            arrived(order, next);
          });
  state.card.sent(*to);
}

/// Whom a phase asks, and how much of the time that is left it may take.
struct audience {
  kinds whom;
  double share = 1;
};

/// Calls `ask_one` for each of them that nothing is wrong with yet.
void phase(self_ptr self,
           const order_ptr& order,
           const audience& to,
           const std::function<void(order_target&, const step&)>& ask_one,
           const step& next) {
  const auto now = now_of(self);
  order->phase_ends = now + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                (order->deadline - now) * to.share);
  std::vector<order_target*> chosen;
  for (order_target& target : order->targets)
    if (target.outcome.problem.empty() &&
        std::find(to.whom.begin(), to.whom.end(), target.outcome.kind) != to.whom.end())
      chosen.push_back(&target);
  // One more than there are, so that nothing goes on before all were asked.
  order->waiting = chosen.size() + 1;
  for (order_target* target : chosen) ask_one(*target, next);
  arrived(order, next);
}

void finish(self_ptr self, const order_ptr& order, std::string_view what) {
  kv_orders_state& state = self->state;
  order_report report;
  uint64_t blocks = 0, bytes = 0, rings = 0, problems = 0;
  for (order_target& target : order->targets) {
    const order_outcome& o = target.outcome;
    if (o.kind == "kvstore") blocks += o.blocks, bytes += o.bytes;
    rings += o.rings;
    problems += o.problem.empty() ? 0 : 1;
    report.outcomes.push_back(std::move(target.outcome));
  }
  --state.open;
  state.card.count(problems == 0 ? "orders_done" : "orders_incomplete");
  // Whose blocks they were is not written down (SEC-5).
  if (state.setup.log)
    state.setup.log->info(what, {{"blocks", blocks},
                                 {"bytes", bytes},
                                 {"rings", rings},
                                 {"asked", report.outcomes.size()},
                                 {"not_done", problems}});
  order->promise.deliver(std::move(report));
}

// ---- purge

void ask_purge(self_ptr self,
               const order_ptr& order,
               const wire::msg<wire::KvPurge>& question,
               order_target& target,
               const step& next) {
  const auto take = [](order_outcome& to, wire::KvPurged::Reader purged) { note(to, purged); };
  const std::string& kind = target.outcome.kind;
  if (kind == "kvstore")
    return ask<kv_store_actor, wire::KvPurge, wire::KvPurged>(self, order, target, question, take,
                                                              next);
  if (kind == "ring_host")
    return ask<ring_host_actor, wire::KvPurge, wire::KvPurged>(self, order, target, question, take,
                                                               next);
  if (kind == "kv_fetch")
    return ask<kv_fetch_actor, wire::KvPurge, wire::KvPurged>(self, order, target, question, take,
                                                              next);
  ask<purgeable_actor, wire::KvPurge, wire::KvPurged>(self, order, target, question, take, next);
}

/// Writers first, so that nothing that waits there reaches a store behind its purge; then stores
/// and rings; then what was read from stores before, and what writers believe to be stored.
void run_purge(self_ptr self, const order_ptr& order, storage::scope_id scope) {
  wire::draft<wire::KvPurge> draft;
  draft->setScope(static_cast<uint64_t>(scope));
  const wire::msg<wire::KvPurge> question = draft.freeze();
  const auto ask_one = [self, order, question](order_target& target, const step& next) {
    ask_purge(self, order, question, target, next);
  };
  const step last = [self, order] { finish(self, order, "kv.purged"); };
  const step memories = [self, order, ask_one, last] {
    phase(self, order, {{"kv_fetch", "kv_writer"}}, ask_one, last);
  };
  const step stores = [self, order, ask_one, memories] {
    phase(self, order, {{"kvstore", "ring_host"}, 0.7}, ask_one, memories);
  };
  phase(self, order, {{"kv_writer"}, 0.4}, ask_one, stores);
}

// ---- clocks

void run_acknowledge(self_ptr self, const order_ptr& order) {
  const step last = [self, order] { finish(self, order, "kv.clocks_acknowledged"); };
  const auto ask_ack = [self, order](order_target& target, const step& next) {
    if (!target.outcome.was_frozen) return arrived(order, next);
    ask<kv_store_actor, wire::KvClockAcknowledge, wire::Ack>(
        self, order, target, {}, [](order_outcome&, wire::Ack::Reader) {}, next);
  };
  const auto ask_info = [self, order](order_target& target, const step& next) {
    ask<kv_store_actor, wire::KvInfoQuery, wire::KvInfo>(
        self, order, target, {},
        [](order_outcome& to, wire::KvInfo::Reader info) { to.was_frozen = info.getClockFrozen(); },
        next);
  };
  phase(self, order, {{"kvstore"}, 0.5}, ask_info,
        [self, order, ask_ack, last] { phase(self, order, {{"kvstore"}}, ask_ack, last); });
}

// ---- both

caf::typed_response_promise<order_report> begin(self_ptr self,
                                                std::chrono::milliseconds within,
                                                kinds whom,
                                                std::function<void(const order_ptr&)> run) {
  kv_orders_state& state = self->state;
  auto promise = self->make_response_promise<order_report>();
  const auto membership =
      state.setup.hub->well_known<membership_actor>(state.setup.node, membership_actor_number);
  if (state.open >= max_open || !membership) {
    promise.deliver(to_caf(
        membership ? failure{error_code::no_capacity, "too many orders at once; give it again"}
                   : membership.error()));
    return promise;
  }
  ++state.open;
  auto order = std::make_shared<open_order>();
  order->promise = promise;
  order->deadline = now_of(self) + within;
  self->request(*membership, members_within, wire::msg<wire::MembersQuery>{})
      .then(
          [order, whom = std::move(whom),
           run = std::move(run)](const wire::msg<wire::Members>& members) {
            order->targets = targets_of(members.get(), whom);
            run(order);
          },
          [self, order](const caf::error& e) {
            --self->state.open;
            order->promise.deliver(e);
          });
  state.card.sent(*membership);
  return promise;
}

}  // namespace

std::vector<order_target> targets_of(wire::Members::Reader members, const kinds& whom) {
  std::vector<order_target> out;
  std::set<storage::block_key> living;
  const auto gone = [&members](wire::NodeRecord::Reader record) {
    const bool own = record.getId().getHi() == members.getSelf().getHi() &&
                     record.getId().getLo() == members.getSelf().getLo();
    return !own && (record.getState() == wire::NodeState::LEFT ||
                    record.getState() == wire::NodeState::DEAD);
  };
  for (const auto record : members.getRecords())
    for (const auto service : record.getServices())
      if (!gone(record) && service.getKind() == "kvstore") living.insert(store_of(service));
  for (const auto record : members.getRecords()) {
    for (const auto service : record.getServices()) {
      order_outcome outcome{service.getKind(), record.getName(), {}};
      const bool is_store = outcome.kind == "kvstore";
      if (std::find(whom.begin(), whom.end(), outcome.kind) == whom.end()) continue;
      if (gone(record)) {
        if (!is_store || living.contains(store_of(service))) continue;
        outcome.problem =
            "its node is down: start it and give the order again, or remove its store's folder";
      }
      if (is_store) outcome.store = to_string(store_of(service));
      out.push_back({read_ref(service.getActor()), std::move(outcome)});
    }
  }
  return out;
}

kv_orders_actor::behavior_type kv_orders(self_ptr self, const kv_orders_setup& setup) {
  self->state.setup = setup;
  self->state.card = actor_card{"kv_orders", *setup.hub};
  return {
      [self](const purge_scope& what) {
        self->state.card.count("purges");
        return begin(self, what.within, {"kv_writer", "kvstore", "ring_host", "kv_fetch"},
                     [self, scope = storage::id_of(what.scope)](const order_ptr& order) {
                       run_purge(self, order, scope);
                     });
      },
      [self](const acknowledge_clocks& what) {
        return begin(self, what.within, {"kvstore"},
                     [self](const order_ptr& order) { run_acknowledge(self, order); });
      },
      [self](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(*self, std::to_string(self->state.open) + " orders under way");
      },
  };
}

}  // namespace deepinfer
