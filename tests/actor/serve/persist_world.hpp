#pragma once

#include "storage/block/chain_hasher.hpp"
#include "storage/block/group_cut.hpp"
#include "tests/actor/serve/engine_world.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

/// A prefill and a decode engine with a writer, a host of rings and a client that only take notes.
namespace deepinfer::test {

inline kv_writer_actor::behavior_type noting_writer(kv_writer_actor::pointer,
                                                    const std::shared_ptr<persist_notes>& notes) {
  return {
      [notes](const persist_blocks& m) { notes->blocks.push_back(m); },
      [](const drain_writer&) { return wire::msg<wire::Ack>{}; },
      [](const wire::msg<wire::Members>&) {},
      [](const wire::msg<wire::LeaseRelease>&) {},
      [](const wire::msg<wire::KvPurge>&) { return wire::msg<wire::KvPurged>{}; },
      [](const cache_tick&) {},
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

inline ring_host_impl_actor::behavior_type noting_host(
    ring_host_impl_actor::pointer, const std::shared_ptr<persist_notes>& notes) {
  return {
      [](const wire::msg<wire::RingPull>&) -> caf::result<wire::msg<wire::RingReady>> {
        return to_caf({error_code::not_found, "takes notes only"});
      },
      [](const wire::msg<wire::RingSubscribe>&) {},
      [](const wire::msg<wire::LeaseRelease>&) {},
      [](const wire::msg<wire::KvPurge>&) { return wire::msg<wire::KvPurged>{}; },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
      [notes](const keep_rings& m) { notes->rings.push_back(m); },
      [](const ring_flush&) {},
      [](const cache_tick&) {},
  };
}

struct persist_options {
  std::string persist_by = "decode";
  uint64_t budget = uint64_t{1} << 20;
  uint64_t root = 7;  ///< 0: no line
  uint32_t group_blocks = 4;
  uint32_t shared_blocks = 0;  ///< everybody's, under `shared_root`
  uint32_t context_limit = 8192;
};

class persist_world : public engine_world {
public:
  explicit persist_world(const persist_options& with = {})
      : engine_world({.context_limit = with.context_limit}),
        options(with),
        budget(std::make_shared<persist_budget>(with.budget)) {
    budget->open(1);
    writer_ = system().spawn(noting_writer, notes);
    host_ = system().spawn(noting_host, notes);
    prefill = spawn(schedule::engine_role::prefill);
    decode = spawn(schedule::engine_role::decode);
    world.run();
  }
  ~persist_world() { end_engines(); }

  void submit_prefill(uint32_t max_tokens) {
    wire::draft<wire::PrefillSubmit> out;
    write_prefill(*out, id, prompt, max_tokens);
    if (options.root != 0)
      write_line(out->initCache().initLine(), {root(),
                                               model->info().layout,
                                               3,
                                               storage::traffic_class::agent,
                                               options.group_blocks,
                                               {shared_root, options.shared_blocks}});
    caf::anon_send(engine_actor{prefill}, out.freeze());
    world.run();
  }

  void submit_decode(uint32_t credit = 100000) {
    start_decode(credit);
    world.run();
    release(notes->ready[0].get().getSequence().getLease().getId());
  }

  /// Asked, and nothing has run yet.
  void start_decode(uint32_t credit = 100000) {
    REQUIRE(notes->ready.size() == 1);
    send_decode(id, notes->ready[0].get(), credit);
  }

  void grant(uint32_t outputs) {
    wire::draft<wire::Credit> out;
    write_key(out->initKey(), id, leg_epoch{1});
    out->setTokens(outputs);
    caf::anon_send(engine_actor{decode}, out.freeze());
    world.run();
  }

  void cancel(const engine_impl_actor& engine) {
    start_cancel(engine);
    world.run();
  }
  void start_cancel(const engine_impl_actor& engine) { send_cancel(engine, id); }

  [[nodiscard]] storage::block_key root() const { return {options.root, options.root}; }
  static constexpr storage::block_key shared_root{8, 8};

  /// Of the full blocks of a sequence, by the definition of keys.
  [[nodiscard]] std::vector<storage::block_key> keys_of(std::span<const int32_t> all) const {
    std::vector<storage::block_key> keys;
    storage::block_key parent = options.shared_blocks == 0 ? root() : shared_root;
    for (size_t i = 0; (i + 1) * model::cache_block_tokens <= all.size(); ++i) {
      if (i != 0 && i == options.shared_blocks) parent = storage::root_behind(root(), parent);
      const auto part = all.subspan(i * model::cache_block_tokens, model::cache_block_tokens);
      keys.push_back(parent = storage::key_of(parent, storage::content_of(part, i, {})));
    }
    return keys;
  }
  /// The root of the chain that begins at this block.
  [[nodiscard]] storage::block_key root_at(uint32_t block,
                                           const std::vector<storage::block_key>& keys) const {
    if (options.shared_blocks == 0) return root();
    return block == 0 ? shared_root : storage::root_behind(root(), keys[block - 1]);
  }
  [[nodiscard]] uint64_t scope_at(uint32_t block) const {
    if (block >= options.shared_blocks) return 3;
    return static_cast<uint64_t>(storage::id_of(storage::public_scope()));
  }

  /// What was given to the writer, checked: in order, without gaps, each message of one group, and
  /// every block the bytes and the key that a run without cache would have.
  uint32_t check_blocks(uint32_t first) const {
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), notes->tokens.begin(), notes->tokens.end());
    const auto cold = cold_blocks(all);
    const auto keys = keys_of(all);
    const storage::group_cut cut{options.group_blocks, options.shared_blocks};
    uint32_t next = first;
    for (const persist_blocks& m : notes->blocks) {
      REQUIRE(m.first_block == cut.depth_of(next));
      REQUIRE(m.keys.size() == m.blocks->size());
      CHECK(m.parent == (m.first_block == 0 ? root_at(next, keys) : keys[next - 1]));
      CHECK(m.head == keys[cut.first_of(cut.group_of(next))]);
      CHECK(m.line.scope == scope_at(next));
      const uint32_t group = cut.group_of(next);
      for (size_t i = 0; i < m.keys.size(); ++i, ++next) {
        CHECK(cut.group_of(next) == group);
        CHECK(m.keys[i] == keys[next]);
        REQUIRE(next < cold.size());
        CHECK((*m.blocks)[i].bytes == cold[next].bytes);
        const auto from = all.begin() + next * model::cache_block_tokens;
        CHECK(std::equal(from, from + model::cache_block_tokens,
                         m.tokens.begin() + static_cast<ptrdiff_t>(i) * model::cache_block_tokens));
      }
    }
    return next - first;
  }

  /// All whole ones.
  [[nodiscard]] std::vector<model::state_part> cold_blocks(std::span<const int32_t> tokens) const {
    return engine_world::cold_blocks(
        tokens, static_cast<uint32_t>(tokens.size()) / model::cache_block_tokens);
  }

  persist_options options;
  std::shared_ptr<persist_budget> budget;
  std::vector<int32_t> prompt;
  request_id id{1, 2};

private:
  engine_impl_actor spawn(schedule::engine_role role) {
    engine_setup setup = engine_of(role);
    setup.cache.persist_by = options.persist_by;
    setup.writer = writer_;
    setup.budget = budget;
    setup.rings = host_;
    return system().spawn(engine, setup);
  }

  kv_writer_actor writer_;
  ring_host_impl_actor host_;
};

}  // namespace deepinfer::test
