#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"
#include "storage/block_store.hpp"
#include "storage/store_config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// What `bench kv` runs. Counts of 0 leave a part out.
struct kv_plan {
  std::string folder;  ///< of the disk to measure; only folders made for the run are written
  size_t rounds = 5;
  uint64_t index_blocks = 10'000'000;  ///< what a prompt is matched against
  uint32_t index_prompts = 2'000;      ///< of them matched, each once
  uint32_t disk_blocks = 2'048;        ///< written and read per round
  uint32_t batch = 256;                ///< of one call; the disk is synced after each
  uint32_t queue_depth = 16;
  storage::durability durable = storage::durability::index;
  uint64_t restart_blocks = 1'000'000;  ///< records that a store is opened with
  std::string model;             ///< checkpoint whose decode steps are measured; empty: none are
  uint32_t fetch_blocks = 602;   ///< of a hit
  uint32_t persist_steps = 512;  ///< of a batch, each round
};

/// Blocks by themselves, without a cluster: hashing and matching, bytes on a disk beside `fio` on
/// the same disk at the same depth, block size and mode, and opening a store with many records.
[[nodiscard]] result<std::vector<figure>> measure_kv_figures(const kv_plan& plan);

// The parts.
[[nodiscard]] result<std::vector<figure>> measure_kv_match(const kv_plan& plan);
[[nodiscard]] result<std::vector<figure>> measure_kv_disk(const kv_plan& plan);
[[nodiscard]] result<std::vector<figure>> measure_kv_restart(const kv_plan& plan);
[[nodiscard]] result<std::vector<figure>> measure_kv_fetch(const kv_plan& plan);
/// Seconds in which an index on another node, over libfabric's tcp on loopback, knows all blocks.
[[nodiscard]] result<double> time_remote_fill(storage::block_store& store, uint64_t blocks);
[[nodiscard]] result<std::vector<figure>> measure_kv_persist(const kv_plan& plan);

}  // namespace deepinfer::bench
