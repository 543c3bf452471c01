#include "storage/catalog/ticket_table.hpp"

#include "proto/types/check.hpp"
#include "storage/catalog/catalogue.hpp"

namespace deepinfer::storage {

namespace {

uint64_t space_of(const ticket& t) {
  return t.at == ticket::stage::confirming ? 0 : stride_of(t.record.length);
}

}  // namespace

ticket_id ticket_table::add(ticket made) {
  reserved_bytes_ += space_of(made);
  ++keys_[made.record.key];
  tickets_.emplace(next_, std::move(made));
  return static_cast<ticket_id>(next_++);
}

ticket* ticket_table::find(ticket_id id, const clock_reading& now) {
  const auto found = tickets_.find(static_cast<uint64_t>(id));
  if (found == tickets_.end() || found->second.expires <= now.steady) return nullptr;
  return &found->second;
}

void ticket_table::forget(const ticket& gone) {
  reserved_bytes_ -= space_of(gone);
  const auto count = keys_.find(gone.record.key);
  if (--count->second == 0) keys_.erase(count);
}

ticket ticket_table::take(ticket_id id) {
  const auto found = tickets_.find(static_cast<uint64_t>(id));
  DEEPINFER_CHECK(found != tickets_.end());
  ticket gone = std::move(found->second);
  tickets_.erase(found);
  forget(gone);
  return gone;
}

bool ticket_table::reserved(const block_key& key) const {
  return keys_.contains(key);
}

template <class Over>
void ticket_table::end_if(const Over& over, std::vector<ticket>& ended) {
  for (auto at = tickets_.begin(); at != tickets_.end();) {
    if (!over(at->second)) {
      ++at;
      continue;
    }
    forget(at->second);
    ended.push_back(std::move(at->second));
    at = tickets_.erase(at);
  }
}

bool ticket_table::admit(const writer_ref& writer, std::vector<ticket>& ended) {
  const auto [life, fresh] = lives_.try_emplace(writer.id, writer.epoch);
  if (fresh || life->second == writer.epoch) return true;
  if (writer.epoch < life->second) return false;
  life->second = writer.epoch;
  end_if(
      [&writer](const ticket& t) {
        return t.record.writer.id == writer.id && t.record.writer.epoch < writer.epoch;
      },
      ended);
  return true;
}

void ticket_table::end_scope(scope_id scope, std::vector<ticket>& ended) {
  end_if([scope](const ticket& t) { return t.record.scope == scope; }, ended);
}

void ticket_table::expire(const clock_reading& now, std::vector<ticket>& ended) {
  while (!tickets_.empty() && tickets_.begin()->second.expires <= now.steady) {
    forget(tickets_.begin()->second);
    ended.push_back(std::move(tickets_.begin()->second));
    tickets_.erase(tickets_.begin());
  }
}

}  // namespace deepinfer::storage
