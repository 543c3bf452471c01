#include "actors/bench/kv_replay.hpp"

#include "actors/bench/kv_sample.hpp"
#include "proto/types/check.hpp"
#include "runtime/policy/placement.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/memory/memory_store.hpp"
#include "storage/rocks/rocks_store.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

namespace deepinfer::bench {
namespace {

using namespace storage;
using namespace std::chrono_literals;

constexpr uint32_t group_blocks = 64;
constexpr uint32_t replayed_bytes = 64;  // of a block
constexpr auto upkeep_every = 10min;
constexpr uint64_t upkeep_blocks = 1 << 20;

store_config replay_config() {
  store_config config;
  config.capacity_bytes = uint64_t{1} << 40;
  config.segment_bytes = uint64_t{16} << 20;
  config.group_blocks = group_blocks;
  config.max_query_blocks = 1 << 20;
  return config;
}

/// Stores side by side, gone with their object.
class store_set {
public:
  ~store_set() {
    stores_.clear();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  result<void> open(const replay_plan& plan, uint32_t count) {
    if (plan.store == replay_plan::kind::rocks) folder_ = plan.folder + "/deepinfer-bench-trace";
    for (uint32_t i = 0; i < count; ++i) {
      auto made = open_one(i);
      if (!made) return made.error();
      stores_.push_back(std::move(*made));
      sites_.push_back({0x6b76, i + uint64_t{1}, 1});
    }
    return {};
  }
  block_store& of(const block_key& group) {
    return *stores_[sites_.size() == 1 ? 0 : policy::owners(group, sites_, 1).front()];
  }
  result<void> keep_up(const clock_reading& now) {
    for (const auto& store : stores_)
      if (auto done = store->expire(now, upkeep_blocks); !done) return done.error();
    return {};
  }
  [[nodiscard]] uint64_t blocks() const {
    uint64_t all = 0;
    for (const auto& store : stores_) all += store->stats().blocks;
    return all;
  }

private:
  result<std::unique_ptr<block_store>> open_one(uint32_t number) {
    if (!folder_.empty())
      return open_rocks_store({folder_ + "/" + std::to_string(number), {}, {}, replay_config()});
    media_.push_back(std::make_unique<memory_medium>(number));
    return media_.back()->open(replay_config());
  }

  std::string folder_;
  std::vector<std::unique_ptr<memory_medium>> media_;
  std::vector<std::unique_ptr<block_store>> stores_;
  std::vector<policy::store_site> sites_;
};

/// A prompt with its full blocks. Tokens are made from the trace's numbers: equal numbers, equal
/// tokens.
struct prompt {
  scope_id scope{};
  block_key root;
  std::vector<int32_t> tokens;
  std::vector<block_key> keys;

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(keys.size()); }
  [[nodiscard]] const block_key& parent_of(uint32_t block) const {
    return block == 0 ? root : keys[block - 1];
  }
  [[nodiscard]] prefix_query group(uint32_t first) const {
    const uint32_t count = std::min(group_blocks, size() - first);
    return {
        std::span{keys}.subspan(first, count),
        std::span{tokens}.subspan(size_t{first} * kv_block_tokens, size_t{count} * kv_block_tokens),
        {},
        first};
  }
};

prompt make_prompt(const request_trace& trace, const trace_request& request) {
  const cache_scope scope{scope_kind::tenant, std::to_string(request.space)};
  prompt made;
  made.scope = id_of(scope);
  made.root = root_key({trace.name, "", 1, kv_block_tokens, scope});
  const uint64_t tokens = request.tokens / kv_block_tokens * kv_block_tokens;
  made.tokens.resize(tokens);
  uint64_t at = 0;
  for (const uint32_t unit : request.units) {
    kv_random random{uint64_t{request.space} << 32 | unit};
    for (uint32_t i = 0; i < trace.unit_tokens && at < tokens; ++i)
      made.tokens[at++] = static_cast<int32_t>(random.next() >> 33);
  }
  chain_hasher hasher{made.root, kv_block_tokens};
  DEEPINFER_CHECK(hasher.append(made.tokens, {}, made.keys).has_value());
  return made;
}

using small_block = std::array<std::byte, replayed_bytes>;

small_block bytes_of(const block_key& key) {
  small_block bytes{};
  for (size_t i = 0; i < replayed_bytes; i += key_bytes) {
    const auto part = to_bytes(key);
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<ptrdiff_t>(i));
  }
  return bytes;
}

class replay {
public:
  replay(const request_trace& trace, store_set& stores) : trace_(trace), stores_(stores) {}

  /// Full blocks of each prompt that came out of the stores right.
  result<std::vector<uint32_t>> run() {
    std::vector<uint32_t> hits;
    std::chrono::milliseconds kept_up{};
    for (const trace_request& request : trace_.requests) {
      now_ = kv_moment(request.at);
      for (; kept_up + upkeep_every < request.at; kept_up += upkeep_every)
        if (auto done = stores_.keep_up(kv_moment(kept_up)); !done) return done.error();
      const prompt made = make_prompt(trace_, request);
      const auto found = fetch(made);
      if (!found) return found.error();
      hits.push_back(*found);
      if (auto done = persist(made, *found); !done) return done.error();
    }
    return hits;
  }

private:
  /// Group by group until one is not whole.
  result<uint32_t> fetch(const prompt& made) {
    uint32_t hit = 0;
    while (hit < made.size()) {
      const prefix_query query = made.group(hit);
      block_store& store = stores_.of(query.keys.front());
      const auto match = store.match(query, lease_wish::grant, now_);
      if (!match) return match.error();
      const auto good = read(store, query, *match);
      if (!good) return good.error();
      hit += *good;
      if (*good < query.keys.size()) break;
    }
    return hit;
  }

  result<uint32_t> read(block_store& store, const prefix_query& query, const prefix_match& match) {
    if (match.blocks == 0) return 0u;
    std::vector<small_block> bytes(match.blocks);
    std::vector<read_item> items;
    for (uint32_t i = 0; i < match.blocks; ++i) items.push_back({query.keys[i], bytes[i]});
    const auto answers = store.read(items, match.lease, now_);
    if (!answers) return answers.error();
    uint32_t good = 0;
    while (good < match.blocks && (*answers)[good].status == read_status::ok &&
           bytes[good] == bytes_of(query.keys[good]))
      ++good;
    auto ended = store.release(match.lease, {use_kind::used, trace_.use}, now_);
    if (!ended) return ended.error();
    return good;
  }

  result<void> persist(const prompt& made, uint32_t from) {
    while (from < made.size()) {
      const uint32_t first = from / group_blocks * group_blocks;
      const uint32_t end = std::min(made.size(), first + group_blocks);
      if (auto done = put(stores_.of(made.keys[first]), made, from, end); !done) return done;
      from = end;
    }
    return {};
  }

  result<void> put(block_store& store, const prompt& made, uint32_t from, uint32_t end) {
    std::vector<block_content> contents;
    std::vector<small_block> bytes;
    for (uint32_t i = from; i < end; ++i) {
      contents.push_back(content_of(
          std::span{made.tokens}.subspan(size_t{i} * kv_block_tokens, kv_block_tokens), i, {}));
      bytes.push_back(bytes_of(made.keys[i]));
    }
    std::vector<reserve_item> items;
    for (uint32_t i = from; i < end; ++i)
      items.push_back({made.keys[i], made.parent_of(i), i, replayed_bytes, contents[i - from]});
    const auto reserved = store.reserve({made.scope, {1, 1}, trace_.use, now_}, items);
    if (!reserved) return reserved.error();
    std::vector<write_item> writes;
    std::vector<commit_item> commits;
    for (uint32_t i = 0; i < items.size(); ++i) {
      const reservation& r = (*reserved)[i];
      if (r.outcome == reserve_outcome::granted) writes.push_back({r.ticket, bytes[i]});
      if (r.ticket != ticket_id{})
        commits.push_back({r.ticket, block_checksum(items[i].key, bytes[i])});
    }
    if (const auto done = store.write(writes, now_); !done) return done.error();
    if (const auto done = store.commit(commits, now_); !done) return done.error();
    return {};
  }

  const request_trace& trace_;
  store_set& stores_;
  clock_reading now_;
};

/// What a replay found, in shares of all prompts.
struct shares {
  double tokens = 0, blocks = 0;
};

shares shares_of(const request_trace& trace, const std::vector<uint64_t>& hit_tokens) {
  double tokens = 0, blocks = 0, all_tokens = 0, all_blocks = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const uint64_t of = trace.requests[i].tokens;
    tokens += static_cast<double>(hit_tokens[i]);
    blocks += static_cast<double>(hit_tokens[i] / kv_block_tokens);
    all_tokens += static_cast<double>(of);
    all_blocks += static_cast<double>(of / kv_block_tokens);
  }
  return {100 * tokens / std::max(1.0, all_tokens), 100 * blocks / std::max(1.0, all_blocks)};
}

struct replayed {
  std::vector<uint64_t> hit_tokens;
  uint64_t blocks = 0;  ///< stored in the end
};

result<replayed> replay_through(const replay_plan& plan,
                                const request_trace& trace,
                                uint32_t count) {
  store_set stores;
  if (auto opened = stores.open(plan, count); !opened) return opened.error();
  const auto hits = replay{trace, stores}.run();
  if (!hits) return hits.error();
  replayed done;
  for (const uint32_t blocks : *hits) done.hit_tokens.push_back(uint64_t{blocks} * kv_block_tokens);
  done.blocks = stores.blocks();
  return done;
}

result<void> replay_one(const replay_plan& plan,
                        const request_trace& trace,
                        std::vector<figure>& out) {
  const std::string prefix = "kv.trace." + trace.name + ".";
  const auto share = [&](const std::string& name, double value, const yardstick* to) {
    out.push_back(to == nullptr ? make_figure(prefix + name, "%", {value})
                                : make_figure(prefix + name, "%", {value}, *to));
  };
  const shares bound = shares_of(trace, seen_before(trace));
  const yardstick bound_tokens{prefix + "bound_tokens", {bound.tokens}};
  const yardstick bound_blocks{prefix + "bound_blocks", {bound.blocks}};
  out.push_back(
      make_figure(prefix + "requests", "requests", {static_cast<double>(trace.requests.size())}));
  share("bound_tokens", bound.tokens, nullptr);
  share("bound_blocks", bound.blocks, nullptr);
  std::optional<replayed> one;
  for (const uint32_t count : {1u, plan.stores}) {
    auto done = replay_through(plan, trace, count);
    if (!done) return done.error();
    const shares found = shares_of(trace, done->hit_tokens);
    const std::string stores = std::to_string(count) + (count == 1 ? "_store" : "_stores");
    share("hit_tokens_" + stores, found.tokens, &bound_tokens);
    share("hit_blocks_" + stores, found.blocks, &bound_blocks);
    out.push_back(
        make_figure(prefix + "stored_" + stores, "blocks", {static_cast<double>(done->blocks)}));
    if (!one) {
      one = *std::move(done);
      if (plan.stores == 1) break;
      continue;
    }
    double other = 0;
    for (size_t i = 0; i < one->hit_tokens.size(); ++i)
      other += one->hit_tokens[i] == done->hit_tokens[i] ? 0 : 1;
    out.push_back(make_figure(prefix + "other_hits_" + stores, "requests", {other}));
  }
  return {};
}

}  // namespace

result<std::vector<figure>> replay_traces(const replay_plan& plan) {
  const auto traces = read_traces(plan.traces, plan.most_requests);
  if (!traces) return traces.error();
  std::vector<figure> out;
  for (const request_trace& trace : *traces)
    if (auto done = replay_one(plan, trace, out); !done) return done.error();
  return out;
}

}  // namespace deepinfer::bench
