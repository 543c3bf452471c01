#pragma once

#include "runtime/base/config.hpp"
#include "runtime/model/step_model.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[kvcache]`: what gateways and engines do with the shared cache. Equal on all nodes.
struct cache_config {
  bool enabled = true;
  std::string restore = "exact";
  std::string persist_by = "decode";
  uint32_t min_hit_blocks = 2;
  std::string share = "tenant";
  std::vector<std::string> public_prompts;
  std::chrono::milliseconds match_within{100};
  std::string fetch_policy = "timeout";
  std::chrono::milliseconds fetch_within{10000};
  std::chrono::milliseconds ring_within{1000};
  uint64_t copy_bytes = uint64_t{1} << 30;

  template <class V>
  void describe(V& v) {
    v.field("enabled", enabled, "Look prompts up in the KV stores of the cluster, and fill them.");
    v.field("restore", restore, one_of({"exact", "bounded"}),
            "Window rings that no machine has any more: exact gives the bits of a run without "
            "cache, bounded a fixed cost. Blocks of one are never read by the other.");
    v.field("persist_by", persist_by, one_of({"decode", "prefill", "both", "nobody"}),
            "Which engines write blocks to the stores.");
    v.field("min_hit_blocks", min_hit_blocks, between(1, 65536),
            "Shorter hits are computed instead (KV-35).");
    v.field("share", share, one_of({"tenant", "organization"}),
            "Who may use the same blocks: a tenant alone, or all tenants of an organization whose "
            "requests name one (gateway.trust_tenant_header).");
    v.field("public_prompts", public_prompts,
            "Files of one system prompt each, which is no secret: blocks that are the beginning of "
            "such a prompt and of nothing else are shared by all tenants. Read by gateways, at "
            "their start.");
    v.field(
        "match_within", match_within, between(1, 10000),
        "How long a request waits to hear what is stored of its prompt; then it goes on without, "
        "and its blocks are not stored. On idle machines the answer takes a millisecond.");
    v.field("fetch_policy", fetch_policy, one_of({"timeout", "wait", "best_effort"}),
            "How long a prompt waits for the blocks of its hit: as long as computing them would "
            "take, as long as fetch_within, or only for its turn: what is there when the engine "
            "could compute it is used, the rest is computed, and comes into the machine's memory "
            "for the next prompt. An idle engine waits for nothing then.");
    v.field("fetch_within", fetch_within, between(50, 600000),
            "Longest time to bring the blocks of a hit; then the good ones are used.");
    v.field("ring_within", ring_within, between(10, 60000),
            "Longest time to pull window rings from another node; then a replay makes them.");
    v.bytes("copy_bytes", copy_bytes, between(1 << 20, int64_t{1} << 40),
            "Memory of a prefill engine for verified blocks on their way into sequences; hits wait "
            "for it in turns, and a longer one is cut.");
  }
};

/// The mode for hits whose rings are nowhere.
[[nodiscard]] inline model::restore_mode replay_mode(const cache_config& config) {
  return config.restore == "bounded" ? model::restore_mode::bounded : model::restore_mode::exact;
}

/// What chains of this setting are made for: blocks computed behind an approximate restore are
/// approximate themselves, and must not meet a setting that promises the bits of a cold run.
[[nodiscard]] inline uint64_t chain_layout(const cache_config& config, uint64_t layout) {
  return config.restore == "bounded" ? layout ^ 0x626f756e64656421u : layout;
}

}  // namespace deepinfer
