#include "actors/console/console.hpp"

#include "actors/control/membership.hpp"
#include "actors/messages/errors.hpp"

namespace deepinfer {
namespace {

using self_ptr = console_impl_actor::stateful_pointer<console_state>;

uint64_t number_of(self_ptr self, const caf::strong_actor_ptr& actor) {
  return self->state.setup.hub->locate(actor).actor;
}

void finish(self_ptr self, const std::shared_ptr<local_survey>& survey) {
  console_state& state = self->state;
  const auto lines = state.setup.recent_log ? state.setup.recent_log() : std::vector<std::string>{};
  wire::draft<wire::LocalTopology> out;
  out->initNode().setHi(state.setup.node.hi);
  out->getNode().setLo(state.setup.node.lo);
  auto actors =
      out->initActors(static_cast<uint32_t>(survey->answers.size() + survey->open.size()));
  uint32_t i = 0;
  for (const auto& [number, answer] : survey->answers) actors.setWithCaveats(i++, answer.get());
  // An actor that computes for longer than the answer may take is alive, and says so by its
  // silence.
  for (const auto& [number, kind] : survey->open) {
    auto silent = actors[i++];
    silent.setKind(kind);
    silent.setId(number);
    silent.initNode().setHi(state.setup.node.hi);
    silent.getNode().setLo(state.setup.node.lo);
    silent.setState("busy: no answer in time");
  }
  auto log = out->initLog(static_cast<uint32_t>(lines.size()));
  for (uint32_t line = 0; line < lines.size(); ++line) log.set(line, lines[line]);
  --state.queries;
  survey->promise.deliver(out.freeze());
}

void ask_one(self_ptr self,
             const std::shared_ptr<local_survey>& survey,
             const inspectable_actor& actor) {
  const uint64_t number = number_of(self, caf::actor_cast<caf::strong_actor_ptr>(actor));
  const auto ended = [self, survey, number](bool answered) {
    if (answered) survey->open.erase(number);
    survey->waiting -= 1;
    if (survey->waiting == 0) finish(self, survey);
  };
  self->request(actor, self->state.setup.config.answer_within, wire::msg<wire::Inspect>{})
      .then(
          [survey, number, ended](const wire::msg<wire::ActorInfo>& info) {
            survey->answers.emplace(number, info);
            ended(true);
          },
          [survey, ended](const caf::error& e) {
            // Gone meanwhile: not shown. Out of time: shown as busy.
            ended(from_caf(e).code != error_code::deadline_exceeded);
          });
}

caf::typed_response_promise<wire::msg<wire::LocalTopology>> survey_node(self_ptr self) {
  console_state& state = self->state;
  auto promise = self->make_response_promise<wire::msg<wire::LocalTopology>>();
  if (state.queries >= state.setup.config.max_queries) {
    promise.deliver(
        to_caf({error_code::no_capacity, "too many console questions at once; ask again"}));
    return promise;
  }
  ++state.queries;
  state.card.count("surveys");
  auto survey = std::make_shared<local_survey>();
  survey->promise = promise;
  survey->answers.emplace(
      number_of(self, self->ctrl()),
      state.card.info(*self, std::to_string(state.tracked.size()) + " actors tracked"));
  survey->waiting = state.tracked.size();
  for (const auto& [address, entry] : state.tracked)
    survey->open.emplace(number_of(self, caf::actor_cast<caf::strong_actor_ptr>(entry.second)),
                         entry.first);
  if (state.tracked.empty()) finish(self, survey);
  for (const auto& [address, entry] : state.tracked) ask_one(self, survey, entry.second);
  return promise;
}

void finish(self_ptr self, const std::shared_ptr<cluster_survey>& survey) {
  console_state& state = self->state;
  wire::draft<wire::Topology> out;
  const auto members = survey->members.get();
  out->setCluster(members.getCluster());
  out->initSelf().setHi(state.setup.node.hi);
  out->getSelf().setLo(state.setup.node.lo);
  out->setNodes(members.getRecords());
  size_t count = 0;
  for (const auto& [node, answer] : survey->answers) count += answer.get().getActors().size();
  auto actors = out->initActors(static_cast<uint32_t>(count));
  uint32_t i = 0;
  for (const auto& [node, answer] : survey->answers)
    for (const auto actor : answer.get().getActors()) actors.setWithCaveats(i++, actor);
  auto silent = out->initUnreachable(static_cast<uint32_t>(survey->silent.size()));
  for (uint32_t n = 0; n < survey->silent.size(); ++n) {
    silent[n].setHi(survey->silent[n].hi);
    silent[n].setLo(survey->silent[n].lo);
  }
  survey->promise.deliver(out.freeze());
}

void ask_node(self_ptr self, const std::shared_ptr<cluster_survey>& survey, const node_id& node) {
  const auto ended = [self, survey] {
    if (--survey->open == 0) finish(self, survey);
  };
  const auto unreachable = [survey, node, ended] {
    survey->silent.push_back(node);
    ended();
  };
  console_actor peer{self};
  if (node != self->state.setup.node) {
    auto handle = self->state.setup.hub->well_known<console_actor>(node, console_actor_number);
    if (!handle) return unreachable();
    peer = *handle;
  }
  self->request(peer, self->state.setup.config.peers_within, wire::msg<wire::LocalTopologyQuery>{})
      .then(
          [survey, node, ended](const wire::msg<wire::LocalTopology>& answer) {
            survey->answers.emplace(node, answer);
            ended();
          },
          [unreachable](const caf::error&) { unreachable(); });
  self->state.card.sent(peer);
}

void ask_all(self_ptr self, const std::shared_ptr<cluster_survey>& survey) {
  std::vector<node_id> nodes;
  for (const auto record : survey->members.get().getRecords())
    if (record.getState() == wire::NodeState::ALIVE)
      nodes.push_back({record.getId().getHi(), record.getId().getLo()});
  // One extra, so that an answer that fails at once does not end the survey before all were asked.
  survey->open = nodes.size() + 1;
  for (const node_id& node : nodes) ask_node(self, survey, node);
  if (--survey->open == 0) finish(self, survey);
}

caf::typed_response_promise<wire::msg<wire::Topology>> survey_cluster(self_ptr self) {
  console_state& state = self->state;
  auto survey = std::make_shared<cluster_survey>();
  survey->promise = self->make_response_promise<wire::msg<wire::Topology>>();
  const auto membership =
      state.setup.hub->well_known<membership_actor>(state.setup.node, membership_actor_number);
  if (!membership) {
    survey->promise.deliver(to_caf(membership.error()));
    return survey->promise;
  }
  self->request(*membership, state.setup.config.answer_within, wire::msg<wire::MembersQuery>{})
      .then(
          [self, survey](const wire::msg<wire::Members>& members) {
            survey->members = members;
            ask_all(self, survey);
          },
          [survey](const caf::error& e) { survey->promise.deliver(e); });
  state.card.sent(*membership);
  return survey->promise;
}

void track(self_ptr self, const track_actor& what) {
  console_state& state = self->state;
  if (state.tracked.size() >= state.setup.config.max_tracked) {
    state.card.count("not_tracked");
    return;
  }
  self->monitor(what.handle);
  state.tracked.emplace(what.handle.address(), std::pair{what.kind, what.handle});
}

}  // namespace

console_impl_actor::behavior_type console(console_impl_actor::stateful_pointer<console_state> self,
                                          const console_setup& setup) {
  self->state.setup = setup;
  self->state.card = actor_card{"console", *setup.hub};
  self->set_down_handler(
      [self](const caf::down_msg& down) { self->state.tracked.erase(down.source); });
  return {
      [self](const wire::msg<wire::LocalTopologyQuery>&) { return survey_node(self); },
      [self](const wire::msg<wire::TopologyQuery>&) { return survey_cluster(self); },
      [self](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(
            *self, std::to_string(self->state.tracked.size()) + " actors tracked");
      },
      [self](const track_actor& what) { track(self, what); },
  };
}

}  // namespace deepinfer
