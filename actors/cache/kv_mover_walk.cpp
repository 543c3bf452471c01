// One way through a store's groups, and what becomes of each of them.
#include "actors/cache/kv_mover_core.hpp"

#include <algorithm>
#include <numeric>

namespace deepinfer {

using storage::block_key;
using storage::group_block;
using wire::KvPutOutcome;
using phase = moving_group::phase;
using stage = moving_group::stage;

namespace {

/// Entries of the index in one look under the store's lock: about a millisecond.
constexpr size_t entries_at_once = 8192;
/// Heads that one step looks at, so that the actor hears other messages between two.
constexpr size_t heads_at_once = 256;
constexpr size_t most_leaving = 4096;
/// A room that is being filled is not given out again by time.
constexpr std::chrono::hours while_filling{24 * 365};

bool is_there(KvPutOutcome outcome) {
  return outcome == KvPutOutcome::STORED || outcome == KvPutOutcome::REFRESHED;
}

/// What of an outcome is the store's own trouble, so that others of its groups would have it, too.
const char* failure_of(KvPutOutcome outcome) {
  switch (outcome) {
    case KvPutOutcome::FULL:
      return "owners_full";
    case KvPutOutcome::BUSY:
      return "owners_busy";
    case KvPutOutcome::STALE:
    case KvPutOutcome::CORRUPT:
    case KvPutOutcome::FAILED:
      return "puts_failed";
    default:
      return nullptr;
  }
}

}  // namespace

void kv_mover_core::step(uint64_t turn) {
  kv_mover_state& state = self_->state;
  if (turn != state.turn || !state.walk) return;
  if (state.moves->placement() != state.walk->placement) return give_up_walk();
  ask_to_purge();  // a busy walk leaves no other moment
  if (state.group) return step_group(*state.group);
  next_group();
}

// ---- which group

void kv_mover_core::next_group() {
  mover_walk& walk = *self_->state.walk;
  if (!walk.leaving.empty() && walk.leaving.front().at <= now()) {
    moving_group& group = self_->state.group.emplace();
    group.head = walk.leaving.front().head;
    group.owners = self_->state.moves->owners(group.head);
    group.doing = phase::leaving;
    walk.leaving.pop_front();
    return step_group(group);
  }
  for (size_t looked = 0; !walk.heads.empty(); ++looked) {
    if (self_->state.group) return step_group(*self_->state.group);
    if (looked == heads_at_once) return go_on();
    const block_key head = walk.heads.front();
    walk.heads.pop_front();
    take_head(head);
  }
  if (self_->state.group) return step_group(*self_->state.group);
  if (!walk.last_page) return load_heads();
  if (!walk.leaving.empty()) return go_on(walk.leaving.front().at - now());
  end_walk();
}

void kv_mover_core::load_heads() {
  kv_mover_state& state = self_->state;
  const auto page = std::make_shared<storage::head_page>();
  work([store = state.setup.backing.store, page,
        cursor = state.walk->cursor] { *page = store->heads(cursor, entries_at_once); },
       [this_ = *this, page](bool goes_on) mutable {
         if (!goes_on) return;
         mover_walk& walk = *this_.self_->state.walk;
         walk.heads.assign(page->heads.begin(), page->heads.end());
         walk.cursor = page->next_cursor;
         walk.last_page = page->next_cursor == 0;
         this_.go_on();
       });
}

/// Makes it the group in work, unless there is nothing to do with it or nobody to talk to.
void kv_mover_core::take_head(const block_key& head) {
  kv_mover_state& state = self_->state;
  mover_walk& walk = *state.walk;
  ++walk.seen;
  policy::group_owners owners = state.moves->owners(head);
  if (owners.others.empty()) return;
  if (owners.mine && walk.kind == policy::walk_kind::strays) return;
  const auto answers = [&](const block_key& id) { return state.moves->answers(id, now()); };
  if (std::none_of(owners.others.begin(), owners.others.end(), answers)) {
    ++walk.waiting;
    return;
  }
  state.group.emplace();
  state.group->head = head;
  state.group->owners = std::move(owners);
}

/// The group in work is done with, for this walk.
void kv_mover_core::over(bool waits) {
  kv_mover_state& state = self_->state;
  if (waits) ++state.walk->waiting;
  if (state.group->copied) state.card.count("groups_copied");
  state.group.reset();
  go_on();
}

// ---- one group

void kv_mover_core::step_group(moving_group& group) {
  switch (group.next) {
    case stage::load:
      return load_page(group);
    case stage::choose_owner:
      return choose_owner(group);
    case stage::send:
      return send(group);
    case stage::give_away:
      return give_away(group);
  }
}

void kv_mover_core::load_page(moving_group& group) {
  kv_mover_state& state = self_->state;
  storage::group_query query{.head = group.head, .limit = state.setup.config.batch_blocks};
  if (group.doing == phase::copying)
    query.after = group.after;
  else
    query.order = storage::tree_order::children_first;
  const auto page = std::make_shared<result<std::vector<group_block>>>(std::vector<group_block>{});
  work([store = state.setup.backing.store, page, query] { *page = store->group(query); },
       [this_ = *this, page](bool goes_on) mutable {
         if (goes_on) this_.page_loaded(*this_.self_->state.group, std::move(*page));
       });
}

void kv_mover_core::page_loaded(moving_group& group, result<std::vector<group_block>> page) {
  if (!page) {
    self_->state.card.count("failures");
    return over(true);
  }
  group.page = *std::move(page);
  group.owner = 0;
  group.next = stage::choose_owner;
  if (!group.page.empty()) return choose_owner(group);
  group.doing == phase::copying ? copied(group) : moved();
}

void kv_mover_core::choose_owner(moving_group& group) {
  kv_mover_state& state = self_->state;
  for (; group.owner < group.owners.others.size(); ++group.owner) {
    const block_key& id = group.owners.others[group.owner];
    const auto there = state.directory.find(*state.setup.hub, id);
    if (!there || !state.moves->answers(id, now())) {
      group.whole = false;
      if (group.doing == phase::leaving) return over(true);
      continue;
    }
    if (group.doing == phase::copying) return ask_owner(group, *there);
    // parents first again
    std::vector<size_t> all(group.page.size());
    std::iota(all.rbegin(), all.rend(), size_t{0});
    group.left = sending_order(group.page, all);
    if (group.left.size() < all.size()) return over(true);
    group.next = stage::send;
    return send(group);
  }
  owners_served(group);
}

/// With this page.
void kv_mover_core::owners_served(moving_group& group) {
  kv_mover_state& state = self_->state;
  if (group.doing == phase::leaving) {
    group.next = stage::give_away;
    return give_away(group);
  }
  const auto& others = group.owners.others;
  const bool last = group.page.size() < state.setup.config.batch_blocks;
  const auto answers = [&](const block_key& id) { return state.moves->answers(id, now()); };
  if (last || std::none_of(others.begin(), others.end(), answers)) return copied(group);
  group.after = group.page.back().record.key;
  group.next = stage::load;
  go_on();
}

void kv_mover_core::ask_owner(moving_group& group, const kv_store_actor& there) {
  std::vector<block_key> keys;
  for (const group_block& block : group.page) keys.push_back(block.record.key);
  const auto data = keys_as_data(keys);
  wire::draft<wire::KvHave> out;
  out->setKeys({reinterpret_cast<const kj::byte*>(data.data()), data.size()});
  ask<wire::msg<wire::KvHas>>(
      there, out.freeze(),
      [this_ = *this](moving_group& served, const wire::msg<wire::KvHas>& has) mutable {
        this_.owner_has(served, has.get());
      },
      [this_ = *this](moving_group& served, const failure&) mutable {
        this_.owner_failed(served, "owners_silent");
      });
}

void kv_mover_core::owner_has(moving_group& group, wire::KvHas::Reader has) {
  const auto present = has.getPresent();
  if (present.size() != group.page.size()) return owner_failed(group, "answers_malformed");
  std::vector<size_t> missing;
  for (size_t i = 0; i < group.page.size(); ++i)
    if (present[i] == 0) missing.push_back(i);
  group.left = sending_order(group.page, missing);
  if (group.left.size() < missing.size()) group.whole = false;
  group.next = stage::send;
  send(group);
}

void kv_mover_core::send(moving_group& group) {
  if (group.left.empty()) return owner_done(group);
  // Half of the memory, so that an unanswered write does not keep the next one waiting.
  const kv_mover_config& config = self_->state.setup.config;
  const uint64_t most = std::min(config.put_bytes, config.staging_bytes / 2);
  const size_t count = fitting(group.page, group.left, most);
  group.doing == phase::copying ? send_copies(group, count) : confirm(group, count);
}

void kv_mover_core::owner_done(moving_group& group) {
  group.left.clear();
  ++group.owner;
  group.next = stage::choose_owner;
  go_on();
}

void kv_mover_core::owner_failed(moving_group& group, const char* why) {
  kv_mover_state& state = self_->state;
  state.card.count("failures");
  state.card.count(why);
  state.moves->failed(group.owners.others[group.owner], now());
  group.whole = false;
  group.doing == phase::leaving ? over(true) : owner_done(group);
}

// ---- copying

/// Reads the first `count` of what is left into registered memory, verified by the store.
void kv_mover_core::send_copies(moving_group& group, size_t count) {
  kv_mover_state& state = self_->state;
  auto read = std::make_shared<read_work>();
  for (size_t i = 0; i < count; ++i) read->keys.push_back(group.page[group.left[i]].record.key);
  read->places = store().places(read->keys);
  auto room =
      state.staging->reserve(std::max<uint64_t>(1, read->room_for(count)), now(), while_filling);
  if (!room) {
    // An unanswered write may still be read from; it ends by itself.
    if (state.staging->leases().used_bytes() > 0) return go_on(std::chrono::seconds{1});
    state.card.count("blocks_too_large");
    state.card.count("failures");
    group.whole = false;
    return owner_done(group);
  }
  read->room = *room;
  read->admitted = count;
  work([store = state.setup.backing.store, read,
        clocks = clocks()] { read_blocks(*store, *read, clocks); },
       [this_ = *this, count, read, read_at = now()](bool goes_on) mutable {
         if (goes_on) return this_.copies_read(*this_.self_->state.group, count, read, read_at);
         static_cast<void>(this_.self_->state.staging->leases().release(read->room.lease));
       });
}

void kv_mover_core::copies_read(moving_group& group,
                                size_t count,
                                const std::shared_ptr<read_work>& read,
                                std::chrono::nanoseconds read_at) {
  kv_mover_state& state = self_->state;
  auto& leases = state.staging->leases();
  std::vector<size_t> sent;
  for (size_t i = 0; i < count; ++i)
    if (read->statuses[i] == wire::KvReadStatus::OK) sent.push_back(group.left[i]);
  if (sent.size() < count) {  // a bad one is in quarantine now, others went meanwhile
    group.whole = false;
    state.card.count("blocks_not_read", static_cast<int64_t>(count - sent.size()));
  }
  const block_key owner = group.owners.others[group.owner];
  const auto there = state.directory.find(*state.setup.hub, owner);
  if (sent.empty() || !there) {
    static_cast<void>(leases.release(read->room.lease));
    group.left.erase(group.left.begin(), group.left.begin() + static_cast<ptrdiff_t>(count));
    return !there ? owner_failed(group, "owners_silent") : go_on();
  }
  // As long as the owner may read it; what was answered is free at once.
  static_cast<void>(
      leases.renew(read->room.lease, now(), state.setup.config.put_deadline + 2 * answer_slack));
  const auto put = copy_of(group.page, std::span{group.left}.first(count), *read, sender());
  remember_sent(owner, group.page[sent.front()].record.scope, read_at);
  state.card.count("puts");
  ask<wire::msg<wire::KvPutDone>>(
      *there, put,
      [this_ = *this, sent, count, lease = read->room.lease](
          moving_group& served, const wire::msg<wire::KvPutDone>& done) mutable {
        static_cast<void>(this_.self_->state.staging->leases().release(lease));
        this_.copies_answered(served, sent, count, done.get());
      },
      [this_ = *this](moving_group& served, const failure&) mutable {
        this_.owner_failed(served, "puts_unanswered");
      });
}

void kv_mover_core::copies_answered(moving_group& group,
                                    const std::vector<size_t>& sent,
                                    size_t count,
                                    wire::KvPutDone::Reader done) {
  kv_mover_state& state = self_->state;
  const auto outcomes = done.getOutcomes();
  if (outcomes.size() != sent.size()) return owner_failed(group, "answers_malformed");
  uint64_t bytes = 0, stored = 0;
  const char* failed = nullptr;
  bool refused = false;
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    bytes += group.page[sent[i]].record.length;
    if (outcomes[i] == KvPutOutcome::STORED) ++stored;
    if (is_there(outcomes[i])) continue;
    group.whole = false;
    refused = refused || outcomes[i] != KvPutOutcome::DIVERGED;
    if (outcomes[i] == KvPutOutcome::DIVERGED) state.card.count("diverged");
    if (const char* why = failure_of(outcomes[i]); failed == nullptr) failed = why;
  }
  state.card.count("blocks_copied", static_cast<int64_t>(stored));
  state.card.count("bytes_copied", static_cast<int64_t>(bytes));
  group.copied = group.copied || stored > 0;
  if (failed != nullptr) return owner_failed(group, failed);
  state.moves->worked(group.owners.others[group.owner]);
  group.left.erase(group.left.begin(), group.left.begin() + static_cast<ptrdiff_t>(count));
  // Over its share, or its parents are gone: the rest would end the same way.
  if (refused) return owner_done(group);
  const double seconds =
      static_cast<double>(bytes) / static_cast<double>(state.setup.config.bytes_per_second);
  go_on(std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds)));
}

/// All pages were shown to all owners.
void kv_mover_core::copied(moving_group& group) {
  mover_walk& walk = *self_->state.walk;
  const bool leaves = group.whole && !group.owners.mine && walk.leaving.size() < most_leaving;
  if (leaves) walk.leaving.push_back({group.head, now() + self_->state.setup.config.linger});
  over(!group.whole || (!group.owners.mine && !leaves));
}

// ---- leaving

/// The owner is asked whether it has these very blocks, and keeps them as long as this store would,
/// and takes itself for an owner: else it might give them away, too, each to the other.
void kv_mover_core::confirm(moving_group& group, size_t count) {
  kv_mover_state& state = self_->state;
  const auto there = state.directory.find(*state.setup.hub, group.owners.others[group.owner]);
  if (!there) return owner_failed(group, "owners_silent");
  const auto question = question_of(group.page, std::span{group.left}.first(count), sender());
  ask<wire::msg<wire::KvPutDone>>(
      *there, question,
      [this_ = *this, count](moving_group& served, const wire::msg<wire::KvPutDone>& done) mutable {
        this_.confirmed(served, count, done.get());
      },
      [this_ = *this](moving_group& served, const failure&) mutable {
        this_.owner_failed(served, "owners_silent");
      });
}

void kv_mover_core::confirmed(moving_group& group, size_t count, wire::KvPutDone::Reader done) {
  bool all = done.getOutcomes().size() == count;
  bool sees_others = false;
  for (const KvPutOutcome outcome : done.getOutcomes()) {
    if (outcome == KvPutOutcome::DIVERGED) self_->state.card.count("diverged");
    sees_others = sees_others || outcome == KvPutOutcome::OTHER_PLACEMENT;
    all = all && is_there(outcome);
  }
  if (!all) {
    self_->state.card.count(sees_others ? "placements_differ" : "groups_unconfirmed");
    return over(true);
  }
  group.left.erase(group.left.begin(), group.left.begin() + static_cast<ptrdiff_t>(count));
  go_on();
}

/// All owners have this page: it goes from the leaves, and stays where a lease or a block that came
/// meanwhile is in the way.
void kv_mover_core::give_away(moving_group& group) {
  kv_mover_state& state = self_->state;
  std::vector<block_key> keys;
  for (const group_block& block : group.page) keys.push_back(block.record.key);
  const auto removed = std::make_shared<result<uint64_t>>(uint64_t{0});
  work(
      [store = state.setup.backing.store, keys, removed, clocks = clocks(),
       placement = state.setup.backing.placement, agreed = state.moves->view()] {
        // another one by now: this store may be an owner, and have confirmed it to somebody
        if (*placement == agreed) *removed = store->give_away(keys, clocks);
      },
      [this_ = *this, removed](bool goes_on) mutable {
        this_.self_->send(this_.self_->state.setup.store, store_changed{});
        if (goes_on) this_.given_away(*this_.self_->state.group, *removed);
      });
}

void kv_mover_core::given_away(moving_group& group, const result<uint64_t>& removed) {
  kv_mover_state& state = self_->state;
  if (!removed) {
    state.card.count("failures");
    return over(true);
  }
  state.card.count("blocks_given_away", static_cast<int64_t>(*removed));
  if (*removed < group.page.size()) {
    state.card.count("groups_in_use");
    return over(true);
  }
  if (group.page.size() < state.setup.config.batch_blocks) return moved();
  group.next = stage::load;
  go_on();
}

void kv_mover_core::moved() {
  self_->state.card.count("groups_moved");
  over(false);
}

}  // namespace deepinfer
