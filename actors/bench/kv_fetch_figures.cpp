// Blocks from a store in another process into memory that a third one maps, beside one-sided reads
// of the same size between the same two processes, and beside reading the store's files.
#include "actors/bench/bench_node.hpp"
#include "actors/bench/kv_fetch_sides.hpp"
#include "actors/bench/kv_figures.hpp"
#include "actors/bench/kv_sample.hpp"
#include "actors/bench/peer_process.hpp"
#include "actors/cache/fetch_locator.hpp"
#include "actors/messages/cache.hpp"
#include "actors/messages/errors.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"
#include "storage/block/block_checksum.hpp"

#include <caf/scoped_actor.hpp>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>

namespace deepinfer::bench {
namespace {

using steady = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{120};
constexpr uint32_t group_blocks = 64;
constexpr uint32_t warm_prompts = 3;  // until all of the arena was touched

/// Megabytes a second, one value a round.
struct fetch_rates {
  std::vector<double> plain, fetched;
};

/// This process: an engine.
class engine_side {
public:
  explicit engine_side(fetch_sample sample) : sample_(std::move(sample)) {}

  result<void> open() {
    const std::vector<std::string> command{own_program(), "bench", "kv", "--peer"};
    auto words = command;
    words.push_back(store_words(sample_));
    if (auto ok = store_.start(words); !ok) return ok;
    const auto store_line = store_.line(patience);
    if (!store_line) return store_line.error();
    const store_place at = read_store_place(*store_line);
    store_ref_ = {{at.hi, at.lo}, bench_store_number, interface_hash<kv_store_actor>()};
    words = command;
    words.push_back(fetch_words(sample_, *store_line));
    if (auto ok = fetch_.start(words); !ok) return ok;
    const auto fetch_line = fetch_.line(patience);
    if (!fetch_line) return fetch_line.error();
    const store_place beside = read_store_place(*fetch_line);
    auto node = bench_node::make();
    if (!node) return node.error();
    node_ = *std::move(node);
    const node_id peer{beside.hi, beside.lo};
    if (auto met = node_->meet(beside.address, peer); !met) return met;
    auto fetcher = node_->hub().well_known<kv_fetch_actor>(peer, bench_fetch_number);
    if (!fetcher) return fetcher.error();
    fetcher_ = *std::move(fetcher);
    self_ = std::make_unique<caf::scoped_actor>(node_->system(), true);
    for (uint32_t i = 0; i < sample_.prompts; ++i)
      chains_.push_back(make_kv_chain(kv_tokens(i, sample_.blocks)));
    return {};
  }

  /// What is compared with: reads without a store, or of its files alone.
  result<double> plain_seconds(uint32_t prompt) {
    fetch_.say(sample_.by == fetch_sample::way::peer ? "raw" : "files " + std::to_string(prompt));
    const auto line = fetch_.line(patience);
    if (!line) return line.error();
    return std::stod(*line);
  }

  /// From the question to bytes that this process sees.
  result<double> fetch_seconds(uint32_t prompt) {
    const auto message = order_of(prompt);
    const auto begun = steady::now();
    result<fetched_prefix> got{failure{error_code::internal, "no answer"}};
    (*self_)
        ->request(fetcher_, patience, message)
        .receive(
            [&](const wire::msg<wire::KvFetched>& said) { got = open_fetched(views_, said.get()); },
            [&](const caf::error& why) { got = from_caf(why); });
    const double took = std::chrono::duration<double>(steady::now() - begun).count();
    if (!got) return got.error();
    if (got->blocks.size() != sample_.blocks)
      return failure{error_code::internal, "not all blocks came: " + got->why.detail};
    for (uint32_t i = 0; i < sample_.blocks; ++i)
      if (storage::block_checksum(chains_[prompt].keys[i], got->blocks[i].bytes) !=
          got->blocks[i].checksum)
        return failure{error_code::corrupt, "a block in shared memory is not the stored one"};
    wire::draft<wire::KvFetchRelease> release;
    release->initTicket().setLo(prompt + 1);
    (*self_)->send(fetcher_, release.freeze());
    return took;
  }

private:
  [[nodiscard]] wire::msg<wire::KvFetch> order_of(uint32_t prompt) const {
    const kv_chain& chain = chains_[prompt];
    wire::draft<wire::KvFetch> out;
    out->initTicket().setLo(prompt + 1);
    out->setDeadlineMs(60'000);
    auto keys = out->initKeys(static_cast<uint32_t>(chain.keys.size() * storage::key_bytes));
    for (size_t i = 0; i < chain.keys.size(); ++i) {
      const auto one = storage::to_bytes(chain.keys[i]);
      std::memcpy(keys.begin() + i * storage::key_bytes, one.data(), one.size());
    }
    auto tokens = out->initTokens(static_cast<uint32_t>(chain.tokens.size() * sizeof(int32_t)));
    std::memcpy(tokens.begin(), chain.tokens.data(), tokens.size());
    out->setGroupBlocks(group_blocks);
    auto groups = out->initGroups((sample_.blocks + group_blocks - 1) / group_blocks);
    for (auto group : groups) write_ref(group.initStores(1)[0], store_ref_);
    return out.freeze();
  }

  fetch_sample sample_;
  peer_process store_, fetch_;  // the second one needs the first
  std::unique_ptr<bench_node> node_;
  std::unique_ptr<caf::scoped_actor> self_;
  kv_fetch_actor fetcher_;
  actor_ref store_ref_;
  std::vector<kv_chain> chains_;
  storage::arena_views views_;
};

result<fetch_rates> measure(const fetch_sample& sample, size_t rounds) {
  engine_side engine{sample};
  if (auto ok = engine.open(); !ok) return ok.error();
  fetch_rates rates;
  for (uint32_t prompt = 0; prompt < sample.prompts; ++prompt) {
    const auto plain = engine.plain_seconds(prompt);
    if (!plain) return plain.error();
    const auto fetched = engine.fetch_seconds(prompt);
    if (!fetched) return fetched.error();
    if (prompt + rounds < sample.prompts) continue;  // warms up
    const double megabytes = 1e-6 * sample.blocks * kv_block_bytes;
    rates.plain.push_back(megabytes / *plain);
    rates.fetched.push_back(megabytes / *fetched);
  }
  return rates;
}

}  // namespace

result<std::vector<figure>> measure_kv_fetch(const kv_plan& plan) {
  net::choose_provider("tcp");
  const std::string folder = plan.folder + "/deepinfer-bench-fetch-" + std::to_string(::getpid());
  const auto prompts = static_cast<uint32_t>(plan.rounds) + warm_prompts;
  const auto run = [&](fetch_sample::way by) {
    auto rates = measure({by, folder, prompts, plan.fetch_blocks}, plan.rounds);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    return rates;
  };
  const auto remote = run(fetch_sample::way::peer);
  if (!remote) return remote.error();
  const auto files = run(fetch_sample::way::files);
  if (!files) return files.error();
  std::vector<figure> out;
  out.push_back(make_figure("kv.fetch.one_sided_reads", "MB/s", remote->plain));
  out.push_back(make_figure("kv.fetch.from_peer", "MB/s", remote->fetched,
                            {"kv.fetch.one_sided_reads", remote->plain}));
  out.push_back(make_figure("kv.fetch.file_reads", "MB/s", files->plain));
  out.push_back(make_figure("kv.fetch.from_files", "MB/s", files->fetched,
                            {"kv.fetch.file_reads", files->plain}));
  return out;
}

}  // namespace deepinfer::bench
