#pragma once

#include "actors/cache/fetch_config.hpp"
#include "actors/cache/fetch_types.hpp"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace deepinfer {

/// Which blocks are read from which store and when, who waits for them, who holds them; pure: time
/// comes in with each call, what is to be done comes out of `effects`.
///
/// A block is wanted by one job at most, however many fetches wait for it (single flight). A job is
/// part of a group: it opens the group at its stores in turn until one has each wanted block, and
/// lives as long as a fetch that it works for. Fetches are admitted in order of their deadlines
/// while what they may need fits into the arena, so that they never wait for each other's room.
class fetch_core {
public:
  using time_point = fetch::time_point;

  /// Blocks go between `begin` and `end` of the arena.
  fetch_core(const fetch_config& config, uint64_t begin, uint64_t end)
      : config_(config), shelf_(begin, end) {}

  /// `no_capacity` over the limit of fetches, `too_large` over that of blocks, `invalid_argument`
  /// for keys, tokens and groups that do not fit together or a ticket that is open already.
  result<void> submit(fetch::order order, time_point now);
  /// The asker is done with it. Unanswered, it is answered with `cancelled`.
  void release(const fetch::ticket_id& id, uint32_t used_blocks, time_point now);
  /// The asker waits no longer: it gets the blocks that are there, in front of the first that is
  /// not. The rest comes for whoever asks next, while half of the arena is free for it. Nothing for
  /// what is answered or unknown.
  void answer_now(const fetch::ticket_id& id, time_point now);
  /// Blocks in memory are not offered any more, whoever they belong to, nor those that jobs of now
  /// still bring: what was asked for is answered. Returns how many there were.
  size_t retire_blocks();
  /// Time passes: deadlines, holding times, renewals, reads that take too long.
  void tick(time_point now);

  void on_opened(uint64_t number, uint32_t store_index, result<fetch::opened> said, time_point now);
  /// Room for blocks of a batch, each piece that comes gets some: read `run`s into it. Empty, and
  /// nothing is taken, while there is not enough; end the batch with `no_room` then.
  std::vector<fetch::run> make_room(uint64_t number, const std::vector<fetch::piece>& pieces);
  /// One outcome per block. Nothing writes to the batch's room any more.
  void on_read(uint64_t number, const std::vector<fetch::block_done>& done, time_point now);

  /// Offset in the arena of a block of a batch, after `make_room`.
  [[nodiscard]] uint64_t offset_of(uint64_t number, uint32_t block) const;
  [[nodiscard]] bool is_open(const fetch::ticket_id& id) const { return tickets_.contains(id); }

  /// What is to be done since the last call.
  [[nodiscard]] std::vector<fetch::effect> effects();

  struct figures {
    uint64_t fetches = 0, waiting_fetches = 0, jobs = 0, sessions = 0, batches = 0, wanted = 0;
    uint64_t reading_bytes = 0, admitted_bytes = 0;
    uint64_t asked_blocks = 0, hit_blocks = 0, shared_blocks = 0, read_blocks = 0, read_bytes = 0;
    uint64_t missing_blocks = 0, bad_blocks = 0, failed_reads = 0, late_answers = 0, late_reads = 0;
    uint64_t file_blocks = 0, starved = 0;
  };
  [[nodiscard]] figures state() const;
  [[nodiscard]] const block_shelf& shelf() const { return shelf_; }

private:
  struct ticket {
    fetch::order order;
    std::vector<bool> have;  // held on the shelf
    uint32_t good = 0;       // all before are there
    uint32_t end = 0;        // the first that will not come
    bool admitted = false;
    bool answered = false;
    bool quiet = false;     // nobody is told: blocks for whoever asks next
    uint64_t reserved = 0;  // of the arena
    time_point ends_at{};   // its entry in `ends_`
    failure why{error_code::ok, {}};
    std::set<uint64_t> jobs;  // that worked for it
  };
  struct waiter {
    fetch::ticket_id ticket;
    uint32_t index = 0;
  };
  struct wanted_block {
    uint64_t job = 0;
    uint32_t index = 0;  // in the job's group
    std::vector<waiter> waiters;
  };
  enum class step : uint8_t { unassigned, assigned, reading };
  enum class opening_step : uint8_t { no, queued, asked };
  struct item {
    step at = step::unassigned;
    uint64_t session = 0;
    uint32_t tried = 0;  // bits of stores
    failure why{error_code::not_found, "no store has it any more"};
  };
  struct job {
    std::vector<storage::block_key> keys;  // of the group, from its first
    std::vector<int32_t> tokens;
    uint32_t first = 0;        // its position in the sequences
    uint32_t first_depth = 0;  // in its chain
    std::vector<actor_ref> stores;
    std::vector<uint32_t> to_open;  // indexes of stores, the last one first
    uint32_t reopened = 0;          // bits of stores
    storage::traffic_class traffic{};
    time_point deadline{};  // of the most urgent fetch that ever waited
    time_point latest{};    // nobody waits any longer than that
    opening_step opening = opening_step::no;
    bool only_tell = false;  // nothing to read: its store is to hear of a use
    std::map<uint32_t, item> items;
    std::set<uint64_t> sessions;
    std::set<fetch::ticket_id> tickets;
    bool used = false;
  };
  struct session {
    uint64_t job = 0;
    uint32_t store_index = 0;
    fetch::opened said;
    bool files = false;
    bool over = false;
    time_point renewed{};
    std::set<uint32_t> due;  // indexes to be read
  };
  struct batch {
    uint64_t session = 0, job = 0;
    actor_ref store;
    std::vector<uint32_t> indexes;
    std::vector<storage::block_key> keys;
    std::vector<uint64_t> offsets;  // per block; 0: none
    std::vector<uint64_t> spans;    // per block: bytes taken for it
    uint64_t estimate = 0;
    time_point started{};
    bool files = false;
    bool given_up = false;  // waited for too long: whoever needs it asks elsewhere
  };
  struct store_less {
    bool operator()(const actor_ref& a, const actor_ref& b) const {
      return std::tie(a.node, a.actor) < std::tie(b.node, b.actor);
    }
  };
  struct store_state {
    uint32_t reads = 0;
    time_point not_before{};
    std::set<std::pair<time_point, uint64_t>> due;  // (deadline, session)
  };

  // fetches (fetch_core.cpp)
  void admit();
  [[nodiscard]] uint64_t room_for(uint32_t blocks) const;
  void learn_length(uint32_t length);
  void enlist(const fetch::ticket_id& id);
  void want(const fetch::ticket_id& id, uint32_t group);
  void settle(const fetch::ticket_id& id);
  void cut(const fetch::ticket_id& id, uint32_t end, const failure& why);
  void leave(const fetch::ticket_id& id, uint32_t from);
  void forget(const fetch::ticket_id& id);
  void tell_use(const fetch::ticket_id& id, uint32_t used_blocks, time_point now);
  void send_answer(const fetch::ticket_id& id);
  ticket& open_ticket(fetch::order order);
  void keep_reading(fetch::order rest);
  void cut_here(const fetch::ticket_id& id, const failure& why);
  void expire(time_point now);

  // jobs (fetch_jobs.cpp)
  uint64_t make_job(const ticket& of, uint32_t group);
  void join(uint64_t number, const fetch::ticket_id& id);
  void drop_item(const storage::block_key& key);
  void remove_item(job& of, std::map<uint32_t, item>::iterator at);
  std::vector<waiter> take_item(const storage::block_key& key);
  void assign(uint64_t number);
  void end_idle_job(uint64_t number);
  void arrived(const storage::block_key& key);
  void missing(uint64_t number, const storage::block_key& key, const failure& why);
  void queue_open(uint64_t number);
  void give_up_late_reads(time_point now);
  void renew(time_point now);

  // reads (fetch_reads.cpp)
  void pump(time_point now);
  void pump_opens(time_point now);
  bool pump_read(time_point now);
  [[nodiscard]] uint32_t batch_limit(uint32_t reads_under_way) const;
  void start_batch(uint64_t session_number, time_point now);
  void take_outcome(batch& b, uint32_t position, const fetch::block_done& done, time_point now);
  void block_failed(batch& b, uint32_t position, fetch::outcome what, time_point now);
  void close_session(uint64_t number, fetch::outcome why);
  void show_due(uint64_t number);
  [[nodiscard]] uint64_t length_of(const session& s, uint32_t index) const;

  fetch_config config_;
  block_shelf shelf_;
  std::map<fetch::ticket_id, ticket> tickets_;
  std::set<std::pair<time_point, fetch::ticket_id>> waiting_;  // not admitted yet
  std::set<std::pair<time_point, fetch::ticket_id>> ends_;     // deadline, or end of holding
  std::unordered_map<storage::block_key, wanted_block> wanted_;
  std::map<uint64_t, job> jobs_;
  std::map<uint64_t, session> sessions_;
  std::map<uint64_t, batch> batches_;
  std::map<actor_ref, store_state, store_less> stores_;
  std::set<std::pair<time_point, uint64_t>> to_open_;  // (deadline, job)
  std::vector<fetch::effect> effects_;
  uint64_t next_ = 1;
  uint64_t retired_jobs_ =
      0;  // what they bring is for those who wait for it only: jobs before this
  uint32_t opening_ = 0;
  uint64_t admitted_bytes_ = 0;
  uint64_t reading_bytes_ = 0;
  uint64_t block_hint_ = 128 << 10;  // length of a block, as far as is known
  bool length_known_ = false;
  figures counts_;
};

}  // namespace deepinfer
