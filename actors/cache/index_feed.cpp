#include "actors/cache/index_feed.hpp"

#include "actors/cache/kv_wire.hpp"
#include "actors/messages/errors.hpp"

#include <utility>

namespace deepinfer {
namespace {

using self_ptr = index_feed_actor::stateful_pointer<index_feed_state>;

void ask(self_ptr self);

void ask_later(self_ptr self, std::chrono::milliseconds pause) {
  self->delayed_send(self, pause, feed_again{self->state.turn});
}

void failed(self_ptr self, uint64_t turn) {
  if (turn != self->state.turn) return;
  self->state.card.count("unanswered");
  ask_later(self, self->state.config.retry);
}

void begin_snapshot(self_ptr self) {
  index_feed_state& state = self->state;
  state.in_snapshot = true;
  state.cursor = 0;
  state.index->begin_snapshot();
  state.card.count("snapshots");
}

// What cannot be read counts as no answer.
void on_page(self_ptr self, uint64_t turn, wire::KvSnapshotPage::Reader page) {
  index_feed_state& state = self->state;
  if (turn != state.turn) return;
  const auto blocks = read_page(page);
  if (!blocks) return failed(self, turn);
  // The index goes on from the first page's position: if the store began a new life since, that is
  // a gap.
  const uint64_t next = blocks->next_cursor;
  state.cursor = next;
  // The store makes the next page while this one is taken.
  if (next != 0) blocks->blocks.empty() ? ask_later(self, state.config.pause) : ask(self);
  state.index->add_page(*blocks);
  if (next != 0) return;
  state.index->end_snapshot();
  state.in_snapshot = false;
  ask(self);
}

void on_changes(self_ptr self, uint64_t turn, wire::KvChanges::Reader news) {
  index_feed_state& state = self->state;
  if (turn != state.turn) return;
  const auto batch = read_changes(news);
  if (!batch) return failed(self, turn);
  if (!state.index->apply(*batch)) {
    state.card.count("gaps");  // the next question is for a snapshot
    return ask_later(self, state.config.pause);
  }
  // A store that does not wait is not asked in a circle.
  if (batch->changes.empty()) return ask_later(self, state.config.pause);
  ask(self);
}

template <class Query, class Answer, class Handler>
void question(self_ptr self,
              const kv_store_actor& store,
              std::chrono::milliseconds within,
              const wire::msg<Query>& query,
              Handler handler) {
  const uint64_t turn = self->state.turn;
  self->request(store, within, query)
      .then([self, turn,
             handler](const wire::msg<Answer>& answer) { handler(self, turn, answer.get()); },
            [self, turn](const caf::error&) { failed(self, turn); });
  self->state.card.sent(store);
}

void ask(self_ptr self) {
  index_feed_state& state = self->state;
  ++state.turn;
  if (!state.store) return;
  const auto store = state.hub->resolve<kv_store_actor>(state.store);
  if (!store) return failed(self, state.turn);
  const storage::feed_position position = state.index->position();
  if (!state.in_snapshot && position.epoch == 0) begin_snapshot(self);
  const feed_config& config = state.config;
  if (state.in_snapshot) {
    wire::draft<wire::KvSnapshotQuery> query;
    query->setCursor(state.cursor);
    query->setLimit(config.page_blocks);
    query->setDeadlineMs(static_cast<uint32_t>(config.answer_within.count()));
    return question<wire::KvSnapshotQuery, wire::KvSnapshotPage>(self, *store, config.answer_within,
                                                                 query.freeze(), on_page);
  }
  wire::draft<wire::KvChangesQuery> query;
  query->setEpoch(position.epoch);
  query->setSequence(position.sequence);
  query->setLimit(config.page_blocks);
  query->setWaitMs(static_cast<uint32_t>(config.wait.count()));
  question<wire::KvChangesQuery, wire::KvChanges>(self, *store, config.wait + config.answer_within,
                                                  query.freeze(), on_changes);
}

void follow(self_ptr self, const actor_ref& store) {
  index_feed_state& state = self->state;
  if (store == state.store) return;
  state.store = store;
  // A cursor means nothing to another life; changes are known by their epoch.
  if (state.in_snapshot) begin_snapshot(self);
  ask(self);
}

std::string describe(const index_feed_state& state) {
  if (!state.store) return "no store";
  return state.in_snapshot ? "takes a snapshot" : "follows";
}

}  // namespace

index_feed_actor::behavior_type index_feed(
    index_feed_actor::stateful_pointer<index_feed_state> self,
    const feed_config& config,
    remote_hub* hub,
    const std::shared_ptr<storage::prefix_index>& index) {
  index_feed_state& state = self->state;
  state.config = config;
  state.hub = hub;
  state.index = index;
  state.card = actor_card{"index_feed", *hub};
  return {
      [self](const follow_store& what) { follow(self, what.store); },
      [self](const feed_again& again) {
        if (again.turn == self->state.turn) ask(self);
      },
      [self](const wire::msg<wire::Inspect>&) {
        const auto stats = self->state.index->stats();
        self->state.card.set("blocks", static_cast<int64_t>(stats.blocks));
        self->state.card.set("refused", static_cast<int64_t>(stats.refused));
        return self->state.card.info(*self, describe(self->state));
      },
  };
}

}  // namespace deepinfer
