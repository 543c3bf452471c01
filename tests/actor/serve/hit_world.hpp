#pragma once

#include "actors/cache/kv_wire.hpp"
#include "actors/serve/kv_swap.hpp"
#include "actors/serve/staged_wire.hpp"
#include "storage/arena/shared_memory.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/block/group_cut.hpp"
#include "tests/actor/serve/engine_world.hpp"
#include "tests/support/noted_way.hpp"
#include "tests/support/rng.hpp"

#include <map>
#include <optional>

/// A prefill and a decode engine, and the peers of a prefix hit, which a test scripts: a fetch
/// process with an arena, and a host of rings on another node.
namespace deepinfer::test {

/// What a scripted fetch process was asked and told.
struct fetch_script {
  struct asked {
    wire::msg<wire::KvFetch> what;
    caf::typed_response_promise<wire::msg<wire::KvFetched>> promise;
  };
  std::vector<asked> fetches;
  std::vector<wire::msg<wire::KvFetchRelease>> releases;
  std::vector<wire::msg<wire::KvFetchNow>> hurries;
  std::function<void(size_t)> on_hurry;
  /// Called with each question; without it the test answers.
  std::function<void(size_t)> on_fetch;
};

inline kv_fetch_actor::behavior_type scripted_fetch(kv_fetch_actor::pointer self,
                                                    const std::shared_ptr<fetch_script>& script) {
  return {
      [self, script](const wire::msg<wire::KvFetch>& m) {
        auto promise = self->make_response_promise<wire::msg<wire::KvFetched>>();
        script->fetches.push_back({m, promise});
        if (script->on_fetch) script->on_fetch(script->fetches.size() - 1);
        return promise;
      },
      [script](const wire::msg<wire::KvFetchRelease>& m) { script->releases.push_back(m); },
      [script](const wire::msg<wire::KvFetchNow>& m) {
        script->hurries.push_back(m);
        if (script->on_hurry) script->on_hurry(script->hurries.size() - 1);
      },
      [](const wire::msg<wire::KvPurge>&) { return wire::msg<wire::KvPurged>{}; },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

struct ring_script {
  std::vector<wire::msg<wire::RingPull>> pulls;
  std::vector<caf::typed_response_promise<wire::msg<wire::RingReady>>> promises;
  std::vector<uint64_t> released;
  std::function<void(size_t)> on_pull;
};

inline ring_host_actor::behavior_type scripted_host(ring_host_actor::pointer self,
                                                    const std::shared_ptr<ring_script>& script) {
  return {
      [self, script](const wire::msg<wire::RingPull>& m) {
        auto promise = self->make_response_promise<wire::msg<wire::RingReady>>();
        script->pulls.push_back(m);
        script->promises.push_back(promise);
        if (script->on_pull) script->on_pull(script->pulls.size() - 1);
        return promise;
      },
      [](const wire::msg<wire::RingSubscribe>&) {},
      [script](const wire::msg<wire::LeaseRelease>& m) {
        script->released.push_back(m.get().getId());
      },
      [](const wire::msg<wire::KvPurge>&) { return wire::msg<wire::KvPurged>{}; },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

/// Between a batch and its engine: steps take no virtual time, so how long they took is made up.
inline step_sink_actor::behavior_type timed_steps(step_sink_actor::pointer self,
                                                  const step_sink_actor& engine,
                                                  std::chrono::milliseconds token_takes) {
  return {[self, engine, token_takes](step_done& done) {
    done.took = token_takes * done.prefilled;
    self->send(engine, std::move(done));
  }};
}

struct hit_options {
  uint32_t max_sequences = 8;
  uint32_t shared_blocks = 0;  ///< of each prompt; everybody's
  uint64_t copy_bytes = uint64_t{1} << 20;
  uint64_t staging_bytes = uint64_t{1} << 20;
  std::chrono::milliseconds fetch_within{1000};
  std::string fetch_policy = "timeout";
  std::chrono::milliseconds token_takes{0};  ///< of prefill, as the engine is told; 0: not measured
  net::loop_options network = remote_world::instant();
};

/// How an answer of the fetch process differs from a good one.
struct answer_edits {
  uint32_t blocks = UINT32_MAX;  ///< at most so many
  int32_t bad_at = -1;           ///< the bytes of this block are not those of its checksum
  int32_t short_at = -1;         ///< this block is shorter than all are
  bool foreign_descriptor = false, foreign_epoch = false, outside = false;
  uint32_t hold_ms = 30000;
};

class hit_world : public engine_world {
public:
  using prompt_tokens = std::vector<int32_t>;

  // absorb: wrong bytes give wrong tokens
  explicit hit_world(const hit_options& with = {})
      : engine_world({.import = model::toy_import::absorb}, with.network), options(with) {
    arena_ = *storage::shared_memory::make(uint64_t{1} << 20, 77);
    fetcher = away.world.system.spawn(scripted_fetch, fetch);
    host = away.world.system.spawn(scripted_host, rings);
    ring_memory = *staging_area::make(*away.transport, 1 << 20);
    prefill = spawn(schedule::engine_role::prefill);
    decode = spawn(schedule::engine_role::decode);
    world.run();
    tell_members(away.hub.export_actor(fetcher));
  }
  ~hit_world() {
    end_engines();
    ring_memory.reset();
  }

  /// The engines' member table: with a fetch process on this machine, or with none.
  void tell_members(const result<actor_ref>& fetch_ref) {
    wire::draft<wire::Members> out;
    out->initSelf().setHi(node.id().hi);
    out->getSelf().setLo(node.id().lo);
    auto records = out->initRecords(2);
    for (uint32_t i = 0; i < 2; ++i) {
      const node_id id = i == 0 ? node.id() : away.id();
      records[i].initId().setHi(id.hi);
      records[i].getId().setLo(id.lo);
      records[i].setMachine("here");
      records[i].setState(wire::NodeState::ALIVE);
    }
    if (fetch_ref) {
      auto service = records[1].initServices(1)[0];
      service.setKind(fetch_service_kind);
      write_ref(service.initActor(), *fetch_ref);
    }
    caf::anon_send(prefill, out.freeze());
    world.run();
  }

  [[nodiscard]] static prompt_tokens some_prompt(uint64_t seed, size_t tokens) {
    rng random{seed};
    prompt_tokens prompt(tokens);
    for (int32_t& id : prompt) id = static_cast<int32_t>(2 + random.below(60));
    return prompt;
  }

  [[nodiscard]] std::vector<storage::block_key> keys_of(std::span<const int32_t> prompt) const {
    std::vector<storage::block_key> keys;
    const auto shared =
        std::min<size_t>(options.shared_blocks, prompt.size() / model::cache_block_tokens);
    const size_t end = shared * model::cache_block_tokens;
    storage::chain_hasher hasher{shared == 0 ? root : shared_root, model::cache_block_tokens};
    const size_t full = prompt.size() / model::cache_block_tokens * model::cache_block_tokens;
    REQUIRE(hasher.append(prompt.first(end), {}, keys));
    if (shared != 0) hasher.continue_in(root);
    REQUIRE(hasher.append(prompt.first(full).subspan(end), {}, keys));
    return keys;
  }

  /// Of leg 1 of request {1, number}; rings of `ring_blocks` are said to be kept, 0: of none.
  void submit(const prompt_tokens& prompt,
              uint64_t number,
              uint32_t hit_blocks,
              uint32_t ring_blocks = 0) {
    wire::draft<wire::PrefillSubmit> out;
    write_prefill(*out, {1, number}, prompt, output_tokens);
    auto cache = out->initCache();
    write_line(cache.initLine(), {root,
                                  model->info().layout,
                                  3,
                                  storage::traffic_class::agent,
                                  4,
                                  {shared_root, options.shared_blocks}});
    cache.setHitBlocks(hit_blocks);
    const storage::group_cut cut{4, options.shared_blocks};
    cache.initGroups(hit_blocks == 0 ? 0 : cut.group_of(hit_blocks - 1) + 1);
    if (ring_blocks != 0) {
      auto ring = cache.initRings(1)[0];
      ring.setBlocks(ring_blocks);
      ring.setBytes(100);
      write_ref(ring.initHost(), *away.hub.export_actor(host));
    }
    caf::anon_send(engine_actor{prefill}, out.freeze());
  }

  /// The answer to question `number`: blocks of a cold run of `prompt`, in the arena.
  void answer(size_t number, const prompt_tokens& prompt, const answer_edits& edits = {}) {
    const auto asked = static_cast<uint32_t>(fetch->fetches.at(number).what.get().getKeys().size() /
                                             storage::key_bytes);
    const uint32_t count = std::min(asked, edits.blocks);
    const auto keys = keys_of(prompt);
    const auto blocks = cold_blocks(prompt, count);
    wire::draft<wire::KvFetched> out;
    const auto& place = arena_->place();
    out->setArenaProcess(place.process);
    out->setArenaDescriptor(edits.foreign_descriptor ? 1'000'000 : place.descriptor);
    out->setArenaBytes(place.bytes);
    out->setArenaEpoch(place.epoch + (edits.foreign_epoch ? 1 : 0));
    out->setHoldMs(edits.hold_ms);
    auto list = out->initBlocks(count);
    for (uint32_t i = 0; i < count; ++i) {
      const std::span bytes = arena_->bytes().subspan(used_, blocks[i].bytes.size());
      std::copy(blocks[i].bytes.begin(), blocks[i].bytes.end(), bytes.begin());
      list[i].setOffset(edits.outside ? place.bytes : used_);
      list[i].setLength(static_cast<uint32_t>(bytes.size()) - (edits.short_at == int32_t(i)));
      list[i].setChecksum(storage::block_checksum(keys[i], bytes));
      if (edits.bad_at == static_cast<int32_t>(i)) bytes[7] ^= std::byte{1};
      used_ += bytes.size();
    }
    fetch->fetches[number].promise.deliver(out.freeze());
  }
  /// What lies in the arena is overwritten.
  void spoil_arena() {
    const auto bytes = arena_->bytes().subspan(storage::memory_header_bytes);
    std::fill(bytes.begin(), bytes.end(), std::byte{0x5A});
  }

  /// The rings behind `blocks` blocks of a cold run, as their host would give them.
  [[nodiscard]] std::vector<model::state_part> cold_rings(const prompt_tokens& prompt,
                                                          uint32_t blocks) const {
    const auto state = cold_run(std::span{prompt}.first(size_t{blocks} * 128));
    return model->export_rings(*state);
  }
  staged_sequence stage_rings(const std::vector<model::state_part>& parts) {
    return *ring_memory->stage(parts, away.world.now(), std::chrono::hours{1});
  }
  void answer_rings(size_t number, const staged_sequence& staged) {
    wire::draft<wire::RingReady> out;
    write_parts(out->initParts(static_cast<uint32_t>(staged.parts.size())), staged);
    write_lease(out->initLease(), staged.lease, *away.hub.export_actor(lease_owner_actor{host}),
                std::chrono::seconds{30});
    rings->promises.at(number).deliver(out.freeze());
  }

  /// Both peers answer at once, and well.
  void answer_all(const prompt_tokens& prompt, const answer_edits& edits = {}) {
    fetch->on_fetch = [this, prompt, edits](size_t n) { answer(n, prompt, edits); };
    rings->on_pull = [this, prompt](size_t n) {
      const auto key = read_block_key(rings->pulls.at(n).get().getKey());
      const auto keys = keys_of(prompt);
      const auto at = std::find(keys.begin(), keys.end(), key);
      REQUIRE(at != keys.end());
      const auto blocks = static_cast<uint32_t>(at - keys.begin()) + 1;
      answer_rings(n, stage_rings(cold_rings(prompt, blocks)));
    };
  }

  /// The fetch process has so many blocks of a prompt when it is told to answer at once.
  void answer_when_hurried(const prompt_tokens& prompt, uint32_t blocks) {
    fetch->on_hurry = [this, prompt, blocks](size_t n) {
      const auto ticket = read_block_key(fetch->hurries.at(n).get().getTicket());
      for (size_t i = 0; i < fetch->fetches.size(); ++i)
        if (read_block_key(fetch->fetches[i].what.get().getTicket()) == ticket &&
            fetch->fetches[i].promise.pending())
          answer(i, prompt, {.blocks = blocks});
    };
  }

  /// Everything a request {1, number} says when it ends here; checked against the oracle, by way of
  /// a decode engine, which has the whole state.
  uint32_t finish(const prompt_tokens& prompt, uint64_t number) {
    const auto is_its = [number](const auto& m) {
      return read_request_id(m.get().getKey()) == request_id{1, number};
    };
    const auto ready = std::find_if(notes->ready.begin(), notes->ready.end(), is_its);
    REQUIRE(ready != notes->ready.end());
    const uint32_t cached = ready->get().getCachedTokens();
    prompt_tokens said{ready->get().getToken()};
    notes->tokens.clear();
    send_decode({1, number}, ready->get(), 1000);
    world.advance(std::chrono::seconds{1});
    said.insert(said.end(), notes->tokens.begin(), notes->tokens.end());
    release(ready->get().getSequence().getLease().getId());
    prompt_tokens all = prompt;
    for (const int32_t token : said) {
      CHECK(token == model::toy_next_token(toy, all));
      all.push_back(token);
    }
    CHECK(said.size() == output_tokens);
    return cached;
  }
  void cancel(uint64_t number) { send_cancel(prefill, {1, number}); }

  using later_figures = actor_world::pending_answer<wire::msg<wire::ActorInfo>>;
  /// What an actor says of itself once it gets to it; nothing runs for that.
  template <class Handle>
  later_figures ask_later(const Handle& actor) {
    return node.world.start_ask<wire::msg<wire::ActorInfo>>(actor, wire::msg<wire::Inspect>{});
  }
  static int64_t read(const later_figures& figures, std::string_view name) {
    const auto info = figures.get();
    REQUIRE(info);
    for (const auto counter : info->get().getCounters())
      if (name == counter.getName().cStr()) return counter.getValue();
    return 0;
  }

  [[nodiscard]] int64_t figure(const std::string& name) { return figure_of(prefill, name); }
  [[nodiscard]] int64_t swap_figure(const std::string& name) { return figure_of(swap, name); }
  template <class Handle>
  [[nodiscard]] int64_t figure_of(const Handle& actor, std::string_view name) {
    const auto figures = ask_later(actor);
    world.run();
    return read(figures, name);
  }

  /// Nothing that a hit took is still held by anybody.
  void check_nothing_left() {
    for (const char* name : {"sequences", "waiting", "steps_in_flight", "transfers", "ring_pulls",
                             "staged", "handovers_read_out", "requests_known", "receivers"}) {
      CAPTURE(name);
      CHECK(figure(name) == 0);
    }
    CHECK(figure("free_tokens") == figure("state_tokens"));
    for (const char* name : {"hits", "hits_waiting", "copy_bytes"}) {
      CAPTURE(name);
      CHECK(swap_figure(name) == 0);
    }
    std::map<storage::block_key, int> open;
    for (const auto& asked : fetch->fetches) ++open[read_block_key(asked.what.get().getTicket())];
    for (const auto& told : fetch->releases) --open[read_block_key(told.get().getTicket())];
    for (const auto& [ticket, count] : open) CHECK(count == 0);
    std::vector<uint64_t> staged;
    for (uint64_t id = 1; id <= ring_memory->leases().live(); ++id) staged.push_back(id);
    std::sort(rings->released.begin(), rings->released.end());
    CHECK(rings->released == staged);
  }

  static constexpr uint32_t output_tokens = 12;
  const storage::block_key root{7, 7}, shared_root{8, 8};

  hit_options options;
  noted_way fetch_took, swap_took, rings_took;
  std::shared_ptr<hit_metrics> hits = std::make_shared<hit_metrics>(
      hit_metrics{fetch_took.way(), swap_took.way(), rings_took.way()});
  std::shared_ptr<fetch_script> fetch = std::make_shared<fetch_script>();
  std::shared_ptr<ring_script> rings = std::make_shared<ring_script>();
  remote_node& away = world.start("away");
  kv_swap_actor swap;
  kv_fetch_actor fetcher;
  ring_host_actor host;
  std::unique_ptr<staging_area> ring_memory;

private:
  engine_impl_actor spawn(schedule::engine_role role) {
    engine_setup setup = engine_of(role);
    if (role == schedule::engine_role::prefill) setup.config.staging_bytes = options.staging_bytes;
    setup.config.planner.max_sequences = options.max_sequences;
    setup.config.planner.chunk_tokens = 128;
    setup.cache.copy_bytes = options.copy_bytes;
    setup.hits = hits;
    setup.cache.fetch_within = options.fetch_within;
    setup.cache.fetch_policy = options.fetch_policy;
    setup.spawn_batch = [this](const batch_config& config, const step_sink_actor& engine) {
      const step_sink_actor told =
          options.token_takes.count() == 0
              ? engine
              : step_sink_actor{system().spawn(timed_steps, engine, options.token_takes)};
      return batch_actor{system().spawn(batch, config, told)};
    };
    setup.spawn_swap = [this](kv_swap_config config, const swap_sink_actor& engine) {
      config.blocks_at_once = 2;  // so that something can happen in between
      return swap = system().spawn(kv_swap, config, engine);
    };
    return system().spawn(engine, setup);
  }

  std::unique_ptr<storage::shared_memory> arena_;
  uint64_t used_ = storage::memory_header_bytes;
};

}  // namespace deepinfer::test
