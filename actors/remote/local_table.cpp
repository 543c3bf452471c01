#include "actors/remote/local_table.hpp"

#include "actors/remote/actor_ref.hpp"

#include <caf/abstract_actor.hpp>

#include <utility>
#include <vector>

namespace deepinfer::remote {

std::pair<local_table::entry*, bool> local_table::enter(const caf::strong_actor_ptr& actor) {
  const auto [at, fresh] = entries_.try_emplace(actor->id());
  if (fresh) {
    at->second.known = caf::weak_actor_ptr{actor.get()};
    at->second.number = actor->id() + first_dynamic_actor;
  }
  return {&at->second, fresh};
}

// Without the lock: on an actor that has ended already the functor runs at once.
void local_table::follow(const caf::strong_actor_ptr& actor) {
  actor->get()->attach_functor([table = weak_from_this(), id = actor->id()] {
    if (const auto alive = table.lock()) alive->forget(id);
  });
}

uint64_t local_table::note(const caf::strong_actor_ptr& actor) {
  uint64_t number = 0;
  bool fresh = false;
  {
    const std::lock_guard lock{mutex_};
    const auto [at, is_new] = enter(actor);
    number = at->number;
    fresh = is_new;
  }
  if (fresh) follow(actor);
  return number;
}

result<uint64_t> local_table::keep(const caf::strong_actor_ptr& actor, uint32_t max_exports) {
  uint64_t number = 0;
  bool fresh = false;
  {
    const std::lock_guard lock{mutex_};
    const auto known = entries_.find(actor->id());
    const bool kept = known != entries_.end() && known->second.kept;
    if (!kept && kept_ >= max_exports)
      return failure{error_code::no_capacity,
                     "too many actors are known to other nodes (remote.max_exports)"};
    const auto [at, is_new] = enter(actor);
    if (!kept) {
      at->kept = actor;
      ++kept_;
    }
    number = at->number;
    fresh = is_new;
  }
  if (fresh) follow(actor);
  return number;
}

result<void> local_table::publish(uint64_t number, const caf::strong_actor_ptr& actor) {
  if (number == 0 || number >= first_dynamic_actor)
    return failure{error_code::invalid_argument,
                   "well-known numbers are 1 to " + std::to_string(first_dynamic_actor - 1)};
  bool fresh = false;
  {
    const std::lock_guard lock{mutex_};
    if (well_known_.contains(number))
      return failure{error_code::invalid_argument,
                     "number " + std::to_string(number) + " belongs to another actor"};
    const auto [at, is_new] = enter(actor);
    if (at->number < first_dynamic_actor)
      return failure{error_code::invalid_argument,
                     "the actor has the number " + std::to_string(at->number) + " already"};
    if (!at->kept) {
      at->kept = actor;
      ++kept_;
    }
    // From now on this is its one number: peers and the console see the same actor once.
    at->number = number;
    well_known_[number] = actor->id();
    fresh = is_new;
  }
  if (fresh) follow(actor);
  return {};
}

caf::strong_actor_ptr local_table::find(uint64_t number) const {
  const std::lock_guard lock{mutex_};
  caf::actor_id id = number - first_dynamic_actor;
  if (number < first_dynamic_actor) {
    const auto named = well_known_.find(number);
    if (named == well_known_.end()) return nullptr;
    id = named->second;
  }
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.known.lock();
}

uint64_t local_table::number_of(caf::actor_id id) const {
  const std::lock_guard lock{mutex_};
  const auto found = entries_.find(id);
  return found == entries_.end() ? id + first_dynamic_actor : found->second.number;
}

void local_table::forget(caf::actor_id id) {
  entry gone;  // released after the lock: it may hold the last reference
  const std::lock_guard lock{mutex_};
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  gone = std::move(found->second);
  entries_.erase(found);
  if (gone.kept) --kept_;
  if (gone.number < first_dynamic_actor) well_known_.erase(gone.number);
}

void local_table::release() {
  std::vector<caf::strong_actor_ptr> kept;  // released after the lock: it may be the last one
  const std::lock_guard lock{mutex_};
  for (auto& [id, row] : entries_)
    if (row.kept) kept.push_back(std::move(row.kept));
  kept_ = 0;
}

size_t local_table::exports() const {
  const std::lock_guard lock{mutex_};
  return kept_;
}

size_t local_table::size() const {
  const std::lock_guard lock{mutex_};
  return entries_.size();
}

}  // namespace deepinfer::remote
