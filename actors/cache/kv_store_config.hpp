#pragma once

#include "proto/types/result.hpp"
#include "runtime/base/config.hpp"
#include "storage/store_config.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[kvstore]`: a node's part of the shared cache.
struct kv_store_config {
  std::string engine = "rocks";
  std::string path, index_path;
  std::string durability = "process";
  uint64_t capacity_bytes = 0;
  uint64_t quota_bytes = 0;
  std::vector<std::string> quotas;
  uint32_t replicas = 1;
  storage::store_config store = grouped();

  uint32_t io_workers = 4;
  uint32_t max_waiting_works = 1024;
  uint32_t max_puts = 256;
  uint64_t pull_bytes = uint64_t{256} << 20;
  std::chrono::milliseconds longest_put{60'000};
  uint64_t staging_bytes = uint64_t{256} << 20;
  uint32_t max_reads = 256;
  std::chrono::milliseconds read_lease{10'000};
  std::chrono::milliseconds longest_read{60'000};
  std::chrono::milliseconds stuck_after{10'000};
  uint32_t max_waiters = 1024;
  uint32_t changes_per_answer = 4096;

  template <class V>
  void describe(V& v) {
    v.field("engine", engine, one_of({"rocks", "shared", "memory"}),
            "Where blocks lie: rocks, a folder of this machine; shared, a file system that all "
            "machines mount; memory, nowhere else.");
    v.field("path", path,
            "Folder of the blocks; empty: deepinfer/<cluster>/kv in the user's cache folder. "
            "Needed for shared.");
    v.field("index_path", index_path,
            "Folder of the index of a shared store, on this machine; empty: as for path.");
    v.field("durability", durability, one_of({"process", "index", "full"}),
            "What a write waits for: process, it survives this process; index, blocks are on the "
            "device before the index names them; full, both are on the device.");
    v.bytes(
        "capacity", capacity_bytes, between(0, int64_t{1} << 50),
        "Most bytes of blocks, 8 MiB or more; 0: half of what is free at the first start, and no "
        "more than 64 GiB; kept in the file capacity of the store's folder, chosen anew without "
        "it.");
    v.bytes("quota", quota_bytes, between(0, int64_t{1} << 50),
            "Most bytes of blocks of one tenant, 1 MiB or more; 0: no limit.");
    v.field("quotas", quotas,
            "Tenants with another limit than quota, as NAME=10GiB or key:DIGEST=0, and "
            "organizations, as organization:NAME=1TiB; public:=10GiB is for what all share "
            "(kvcache.public_prompts). Of this node's store: of several each has about its share "
            "of a tenant's blocks.");
    v.bytes("segment_bytes", store.segment_bytes, between(1 << 20, int64_t{1} << 32),
            "Size of a file of blocks; an eighth of the capacity at most.");
    v.field("replicas", replicas, between(1, 3), "Stores that keep each block.");
    v.field("group_blocks", store.group_blocks, between(1, 65536),
            "Blocks of a prompt that lie together. Equal on all nodes.");
    v.field("ttl_agent", store.ttl_agent, between(1000, int64_t{1} << 40),
            "Life of blocks that agents use, from their last use.");
    v.field("ttl_chat", store.ttl_chat, between(1000, int64_t{1} << 40),
            "Life of blocks that chats use, from their last use.");
    v.field("floor", store.floor, between(0, int64_t{1} << 40),
            "Blocks removed for space before this age are counted as an alarm.");
    v.field("lease_ttl", store.lease_ttl, between(100, 3600000),
            "How long a found prefix is kept for its reader.");
    v.field("reservation_ttl", store.reservation_ttl, between(100, 3600000),
            "How long a write may take.");
    v.field("high_mark", store.high_mark, real_between(0.01, 1.0),
            "Share of the capacity at which blocks are removed.");
    v.field("low_mark", store.low_mark, real_between(0.01, 1.0), "Share at which that ends.");
    v.field("compact_below", store.compact_below, real_between(0, 1.0),
            "A file of blocks is rewritten when less of it is in use.");
    v.field("io_workers", io_workers, between(1, 64),
            "Threads that wait for the device; one more looks things up.");
    v.field("max_waiting_works", max_waiting_works, between(1, 1000000),
            "Reads and writes that may wait for such a thread.");
    v.field("max_puts", max_puts, between(1, 1000000), "Writes at once; more are refused.");
    v.bytes("pull_bytes", pull_bytes, between(1 << 20, int64_t{1} << 40),
            "Most bytes on their way here, and in one write.");
    v.field("longest_put", longest_put, between(100, 3600000), "Longest time for one write.");
    v.bytes("staging_bytes", staging_bytes, between(1 << 20, int64_t{1} << 40),
            "Memory for blocks on their way to readers.");
    v.field("max_reads", max_reads, between(1, 1000000), "Reads at once; more are refused.");
    v.field("read_lease", read_lease, between(100, 600000),
            "How long read blocks wait in memory for their reader.");
    v.field("longest_read", longest_read, between(100, 3600000),
            "Longest time for one question: blocks looked for, read, or listed.");
    v.field(
        "stuck_after", stuck_after, between(100, 3600000),
        "A read or write of the device that takes longer counts as hung; when all threads hang, "
        "reads and writes are refused at once.");
    v.field("max_waiters", max_waiters, between(1, 1000000),
            "Indexes that may wait for changes at once.");
    v.field("changes_per_answer", changes_per_answer, between(1, 65536),
            "Most changes, or blocks of a snapshot, in one answer.");
  }

private:
  static storage::store_config grouped() {
    storage::store_config made;
    made.group_blocks = 64;
    return made;
  }
};

/// A store or share that is smaller would switch the cache off without a word.
inline constexpr uint64_t least_capacity = uint64_t{8} << 20;
inline constexpr uint64_t least_quota = uint64_t{1} << 20;

/// Settings that do not go together; the text names the keys and what to set.
[[nodiscard]] result<void> check_settings(const kv_store_config& config);

}  // namespace deepinfer
