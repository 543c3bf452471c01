#include "storage/memory/memory_store.hpp"
#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

#include <cstdlib>
#include <set>

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

/// Bytes of a second kind of engine, which computes a block otherwise.
std::vector<std::byte> other_bytes(const block_key& key, uint32_t length) {
  return test::bytes_of({key.hi, ~key.lo}, length);
}

struct totals {
  uint64_t operations = 0, reads = 0, refused_reads = 0, crashes = 0, faults = 0, quarantined = 0,
           leases = 0, diverged = 0, lost = 0;
};

/// One store, many clients, a bad medium and a bad clock, all from one seed. What is claimed: no
/// read gives bytes that nobody wrote for that key; nothing is matched that was never committed, so
/// no hit crosses a scope; the rules of lives hold; leases hold; the store opens again.
class random_run {
public:
  random_run(uint64_t seed, totals& all) : random_(seed), medium_(seed), all_(all) {
    config_ = test::small_store();
    config_.durable = static_cast<durability>(random_.below(3));
    config_.feed_changes = 64;
    config_.purge_blocks = static_cast<uint32_t>(1 + random_.below(100));
    config_.default_quota_bytes = uint64_t{200 + random_.below(900)} * 4096;
    for (uint64_t family = 0; family < 6; ++family) {
      const std::string tenant(1, static_cast<char>('a' + family % 3));
      const auto whole = test::make_chain(tenant, seed * 100 + family, 60);
      for (int branch = 0; branch < 3; ++branch) {
        auto tokens = whole.tokens;  // the same beginning, other ends
        for (size_t i = random_.below(tokens.size()); i < tokens.size(); ++i)
          tokens[i] = static_cast<int32_t>(random_.below(1000));
        chains_.push_back(
            test::chain_from(tenant, tokens, 900 + 40 * static_cast<uint32_t>(family)));
      }
    }
    open();
  }
  ~random_run() { all_.faults += medium_.faults().faults(); }

  void step() {
    ++all_.operations;
    now_.steady += std::chrono::milliseconds{random_.below(2'000)};
    now_.wall += std::chrono::milliseconds{random_.below(2'000)};
    switch (random_.below(21)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return put();
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return match_and_read();
      case 9:
        return touch();
      case 10:
        return end_lease();
      case 11:
        return expire();
      case 12:
        return relieve();
      case 13:
        return compact();
      case 14:
        return scrub();
      case 15:
        return rare();
      case 16:
        return faults();
      case 17:
        return arm_crash();
      case 18:
        return give_away();
      default:
        return leave_reservations();
    }
  }

  void finish() {
    medium_.faults().set({});
    reopen();
    check_rules();
    // what the medium has spoiled is found; afterwards every block that is offered can be read
    while (store_->stats().scrub_passes == 0) REQUIRE(store_->scrub(1 << 20, now_));
    for (const auto& chain : chains_) {
      const uint32_t blocks = test::stored_blocks(*store_, chain, now_);
      CHECK(read(chain, blocks, {}) == blocks);
    }
    check_rules();
  }

  void check_rules() {
    const auto broken = dynamic_cast<segment_store&>(*store_).broken_rule();
    REQUIRE_MESSAGE(!broken, broken.value_or(""));
  }

private:
  struct held_lease {
    lease_ref ref;
    size_t chain = 0;
    uint32_t blocks = 0;
    std::chrono::milliseconds until{};
    uint64_t taken_away = 0;  ///< quarantined and purged when it was granted
  };

  /// Some branches of a chain went to another store; what is leased stays, as leases check.
  void give_away() {
    const group_query query{.head = some_chain().keys[0],
                            .order = tree_order::children_first,
                            .limit = 1 + random_.below(30)};
    const auto blocks = store_->group(query);
    if (!blocks) return;
    std::vector<block_key> keys;
    for (const group_block& block : *blocks) keys.push_back(block.record.key);
    const auto gone = store_->give_away(keys, now_);
    if (gone) CHECK(*gone <= keys.size());
  }

  const test::block_chain& some_chain() {
    return chains_[random_.below(static_cast<uint32_t>(chains_.size()))];
  }

  void open() {
    for (int attempt = 0;; ++attempt) {
      REQUIRE(attempt < 10);
      auto made = medium_.open(config_);
      if (made) {
        store_ = std::move(*made);
        return;
      }
      revive();  // the machine went down while the store was opening
    }
  }
  void revive() {
    store_.reset();
    random_.below(2) == 0 ? medium_.process_died() : medium_.power_lost();
  }
  void reopen() {
    all_.quarantined += store_->stats().quarantined;
    all_.diverged += store_->stats().diverged;
    revive();
    leases_.clear();
    tickets_.clear();
    if (random_.below(2) == 0) now_.steady = std::chrono::milliseconds{random_.below(1000)};
    open();
    all_.lost += store_->stats().lost_at_open;
    ++all_.crashes;
  }
  void after_crash() {
    if (!medium_.faults().crashed()) return;
    reopen();
    check_rules();
  }

  std::vector<commit_item> write(const test::block_chain& chain, uint32_t from, uint32_t to) {
    test::chain_writer writer{*store_,
                              {random_.below(4), writer_life_},
                              random_.below(2) == 0 ? traffic_class::agent : traffic_class::chat};
    std::vector<commit_item> commits;
    const auto reserved = writer.reserve(chain, from, to, now_);
    if (!reserved) return commits;
    std::vector<std::vector<std::byte>> bytes;
    std::vector<write_item> writes;
    for (uint32_t i = from; i < to; ++i) {
      const auto& r = (*reserved)[i - from];
      const bool other = random_.below(40) == 0;
      bytes.push_back(other ? other_bytes(chain.keys[i], chain.length)
                            : test::bytes_of(chain.keys[i], chain.length));
      if (r.ticket == ticket_id{}) continue;
      if (r.outcome == reserve_outcome::granted) writes.push_back({r.ticket, bytes.back()});
      commits.push_back({r.ticket, block_checksum(chain.keys[i], bytes.back())});
    }
    static_cast<void>(store_->write(writes, now_));
    return commits;
  }
  void put() {
    const auto& chain = some_chain();
    const uint32_t from = random_.below(3) == 0 ? random_.below(chain.size())
                                                : test::stored_blocks(*store_, chain, now_);
    if (from >= chain.size()) return;
    const uint32_t to = std::min(chain.size(), from + 1 + random_.below(20));
    const auto commits = write(chain, from, to);
    for (uint32_t i = from; i < to; ++i) ever_stored_.insert(chain.keys[i]);
    static_cast<void>(store_->commit(commits, now_));
    after_crash();
  }
  void leave_reservations() {
    const auto& chain = some_chain();
    const uint32_t from = random_.below(chain.size());
    for (const auto& commit : write(chain, from, std::min(chain.size(), from + 3)))
      tickets_.push_back(commit);
    if (tickets_.size() > 20) {
      // some are committed by somebody who mixes them up, the rest is given up
      std::vector<ticket_id> rest;
      for (const auto& t : tickets_) rest.push_back(t.ticket);
      std::vector<commit_item> mixed{tickets_[0], {tickets_[1].ticket, tickets_[0].checksum}};
      for (const auto& c : chains_) ever_stored_.insert(c.keys.begin(), c.keys.end());
      static_cast<void>(store_->commit(mixed, now_));
      store_->abandon(rest);
      tickets_.clear();
    }
    after_crash();
  }

  uint32_t read(const test::block_chain& chain, uint32_t blocks, const lease_ref& lease) {
    std::vector<std::vector<std::byte>> buffers(blocks, std::vector<std::byte>(chain.length));
    std::vector<read_item> items;
    for (uint32_t i = 0; i < blocks; ++i) items.push_back({chain.keys[i], buffers[i]});
    const auto answers = store_->read(items, lease, now_);
    REQUIRE(answers);
    uint32_t good = 0;
    for (uint32_t i = 0; i < blocks; ++i) {
      if ((*answers)[i].status != read_status::ok) {
        ++all_.refused_reads;
        continue;
      }
      const bool right = buffers[i] == test::bytes_of(chain.keys[i], chain.length) ||
                         buffers[i] == other_bytes(chain.keys[i], chain.length);
      REQUIRE_MESSAGE(right, "wrong bytes were served");
      ++good;
    }
    all_.reads += good;
    return good;
  }
  void match_and_read() {
    const size_t index = random_.below(static_cast<uint32_t>(chains_.size()));
    const auto& chain = chains_[index];
    const auto match = store_->match(chain.query(), lease_wish::grant, now_);
    if (match) {
      for (uint32_t i = 0; i < match->blocks; ++i) REQUIRE(ever_stored_.contains(chain.keys[i]));
      if (match->lease.id != 0) {
        ++all_.leases;
        leases_.push_back(
            {match->lease, index, match->blocks, now_.steady + config_.lease_ttl, taken_away()});
      }
      read(chain, match->blocks, match->lease);
    }
    after_crash();
  }
  [[nodiscard]] uint64_t taken_away() const {
    return store_->stats().quarantined + store_->stats().purged + store_->stats().hash_collisions +
           store_->stats().read_failures;
  }
  /// I-2: what is leased is there, unless it was found bad or was purged.
  void check_leases() {
    if (medium_.faults().crashed()) return;
    for (const held_lease& held : leases_)
      if (held.until > now_.steady && held.taken_away == taken_away())
        REQUIRE(test::stored_blocks(*store_, chains_[held.chain], now_) >= held.blocks);
  }
  void end_lease() {
    if (leases_.empty()) return;
    const auto held = leases_.back();
    leases_.pop_back();
    const auto kind = random_.below(2) == 0 ? use_kind::used : use_kind::unused;
    if (random_.below(4) == 0)
      static_cast<void>(store_->renew(held.ref, now_));
    else
      static_cast<void>(store_->release(held.ref, {kind, traffic_class::agent}, now_));
    after_crash();
  }

  void touch() {
    const auto& chain = some_chain();
    static_cast<void>(
        store_->touch(chain.keys[random_.below(chain.size())], traffic_class::chat, now_));
    after_crash();
  }
  void expire() {
    switch (random_.below(8)) {
      case 0:
        now_.wall += 80h;
        break;  // a jump: nothing may go
      case 1:
        now_.wall -= 2h;
        break;
      case 2:
        now_.wall += 30h;
        now_.steady += 30h;
        break;  // time passes
      case 3:
        store_->acknowledge_clock(now_);
        break;
      default:
        break;
    }
    static_cast<void>(store_->expire(now_, random_.below(100)));
    std::erase_if(leases_, [this](const auto& held) { return held.until <= now_.steady; });
    check_leases();
    after_crash();
  }
  void relieve() {
    static_cast<void>(store_->relieve(now_, random_.below(200)));
    check_leases();
    after_crash();
  }
  void compact() {
    static_cast<void>(store_->compact(random_.below(1 << 18), now_));
    check_leases();
    after_crash();
  }
  void scrub() {
    static_cast<void>(store_->scrub(random_.below(1 << 16), now_));
    after_crash();
  }
  void rare() {
    switch (random_.below(6)) {
      case 0:
        static_cast<void>(store_->purge(some_chain().scope, now_));
        break;
      case 1:
        static_cast<void>(store_->fence({random_.below(4), ++writer_life_}));
        break;
      case 2:
        static_cast<void>(medium_.damage());
        break;
      case 3:
        static_cast<void>(store_->flush());
        break;
      default:
        check_rules();
        break;
    }
    after_crash();
  }
  void faults() {
    fault_plan::chances c;
    if (random_.below(2) == 0) {
      c.flipped_read = random_.below(2'000);
      c.flipped_write = random_.below(600);
      c.torn_write = random_.below(600);
      c.short_read = random_.below(1'000);
      c.failed_read = random_.below(600);
      c.failed_write = random_.below(600);
      c.full_disk = random_.below(1'500);
      c.stall = random_.below(1'000);
    }
    medium_.faults().set(c);
  }
  void arm_crash() {
    if (random_.below(4) == 0) medium_.faults().crash_after(random_.below(60));
  }

  test::rng random_;
  memory_medium medium_;
  totals& all_;
  store_config config_;
  std::unique_ptr<block_store> store_;
  std::vector<test::block_chain> chains_;
  std::set<block_key> ever_stored_;
  std::vector<held_lease> leases_;
  std::vector<commit_item> tickets_;
  uint64_t writer_life_ = 1;
  clock_reading now_ = test::at(0s);
};

TEST_SUITE_BEGIN("storage/memory");

TEST_CASE("no run over a bad medium serves a wrong byte or breaks a rule") {
  // a million operations where somebody waits for them
  const uint64_t seeds = std::getenv("DEEPINFER_LONG_TESTS") != nullptr ? 1'000 : 20;
  totals all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    random_run run{seed, all};
    for (int i = 0; i < 1'000; ++i) {
      CAPTURE(i);
      run.step();
    }
    run.finish();
  }
  MESSAGE(all.operations, " operations, ", all.reads, " blocks read, ", all.refused_reads,
          " refused, ", all.faults, " faults, ", all.crashes, " crashes, ", all.quarantined,
          " quarantined, ", all.leases, " leases, ", all.diverged, " diverged, ", all.lost,
          " lost at open");
  // a run in which nothing happens would prove nothing
  CHECK(all.reads > all.operations);
  CHECK(all.crashes > seeds * 5);
  CHECK(all.faults > seeds * 50);
  CHECK(all.quarantined > seeds);
  CHECK(all.leases > seeds * 50);
  CHECK(all.diverged > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
