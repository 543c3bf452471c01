#pragma once

#include "actors/cache/read_work.hpp"
#include "storage/group_types.hpp"

#include <chrono>
#include <span>
#include <vector>

/// Blocks of a group on their way to an owner, without actors.
namespace deepinfer {

/// The class that a copy counts for. Every parent has its child's classes (KV-10), so blocks of
/// chats never stand behind one that agents alone use.
[[nodiscard]] storage::traffic_class copied_as(const storage::group_block& block);

/// Places in a page, in the order in which an owner can take them: one class after the other,
/// parents first. Without those whose content is lost, which no store would take.
[[nodiscard]] std::vector<size_t> sending_order(std::span<const storage::group_block> page,
                                                std::span<const size_t> places);

/// How many of the first ones fit one write: one chain of one class, with at most so many bytes;
/// one at least.
[[nodiscard]] size_t fitting(std::span<const storage::group_block> page,
                             std::span<const size_t> places,
                             uint64_t bytes);

struct move_sender {
  storage::writer_ref writer;
  actor_ref owner;  ///< of the staged bytes
  std::chrono::milliseconds deadline{};
  uint64_t placement = 0;  ///< `group_moves::view` of who asks whether it may give blocks away
};

/// A write of those that were read well. No blocks: nothing was.
[[nodiscard]] wire::msg<wire::KvPut> copy_of(std::span<const storage::group_block> page,
                                             std::span<const size_t> places,
                                             const read_work& read,
                                             const move_sender& from);

/// A write without bytes: what the store has is compared and prolonged, what it lacks fails. All of
/// it does where the stores are seen otherwise.
[[nodiscard]] wire::msg<wire::KvPut> question_of(std::span<const storage::group_block> page,
                                                 std::span<const size_t> places,
                                                 const move_sender& from);

}  // namespace deepinfer
