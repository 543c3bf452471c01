#pragma once

#include "storage/store_types.hpp"

#include <map>
#include <unordered_map>
#include <vector>

namespace deepinfer::storage {

/// What a reservation is about, from `reserve` to `commit`.
struct ticket {
  enum class stage : uint8_t {
    granted,  ///< waits for bytes
    writing,  ///< bytes are on their way to the file
    written,
    confirming,  ///< the block is stored already; only the checksum is to be compared
  };
  block_record record;
  block_content content;
  traffic_class use = traffic_class::chat;
  stage at = stage::granted;
  std::chrono::milliseconds expires{};  ///< steady
};

/// Reservations by ticket, and the lives of their writers. A reservation ends with its commit, its
/// time, or its writer's life (KV-19). Pure.
class ticket_table {
public:
  ticket_id add(ticket made);
  /// Null if there is none, or its time is over.
  [[nodiscard]] ticket* find(ticket_id id, const clock_reading& now);
  [[nodiscard]] bool holds(ticket_id id) const {
    return tickets_.contains(static_cast<uint64_t>(id));
  }
  [[nodiscard]] ticket& at(ticket_id id) { return tickets_.at(static_cast<uint64_t>(id)); }
  /// The ticket leaves the table.
  [[nodiscard]] ticket take(ticket_id id);
  [[nodiscard]] bool reserved(const block_key& key) const;

  /// False for a life that is over; a newer life than the known one ends the older one's tickets,
  /// which are appended to `ended`.
  [[nodiscard]] bool admit(const writer_ref& writer, std::vector<ticket>& ended);
  [[nodiscard]] bool knows(const writer_ref& writer) const {
    const auto life = lives_.find(writer.id);
    return life != lives_.end() && life->second >= writer.epoch;
  }
  void restore(const writer_ref& writer) { lives_[writer.id] = writer.epoch; }
  void end_scope(scope_id scope, std::vector<ticket>& ended);
  /// Ends tickets whose time is over.
  void expire(const clock_reading& now, std::vector<ticket>& ended);

  [[nodiscard]] size_t size() const { return tickets_.size(); }
  [[nodiscard]] uint64_t reserved_bytes() const { return reserved_bytes_; }

private:
  void forget(const ticket& gone);
  template <class Over>
  void end_if(const Over& over, std::vector<ticket>& ended);

  std::map<uint64_t, ticket> tickets_;  // in the order of their ends
  std::unordered_map<block_key, uint32_t> keys_;
  std::map<uint64_t, uint64_t> lives_;  // writer -> epoch
  uint64_t next_ = 1;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace deepinfer::storage
