#pragma once

#include "actors/messages/errors.hpp"
#include "actors/serve/batch.hpp"
#include "actors/serve/engine.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "runtime/model/toy_model.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace deepinfer::test {

/// What the peers of the engines heard.
struct persist_notes {
  std::vector<persist_blocks> blocks;
  std::vector<keep_rings> rings;
  std::vector<wire::msg<wire::SequenceReady>> ready;
  std::vector<int32_t> tokens;
  bool ended = false;
};

inline leg_sink_actor::behavior_type noting_client(leg_sink_actor::pointer,
                                                   const std::shared_ptr<persist_notes>& notes) {
  return {
      [notes](const wire::msg<wire::SequenceReady>& m) {
        notes->ready.push_back(m);
        notes->tokens.push_back(m.get().getToken());
        if (m.get().getFinish() != wire::FinishReason::NONE) notes->ended = true;
      },
      [notes](const wire::msg<wire::Tokens>& m) {
        std::vector<int32_t> ids(m.get().getIds().size() / sizeof(int32_t));
        if (!ids.empty()) std::memcpy(ids.data(), m.get().getIds().begin(), ids.size() * 4);
        notes->tokens.insert(notes->tokens.end(), ids.begin(), ids.end());
        if (m.get().getFinish() != wire::FinishReason::NONE) notes->ended = true;
      },
  };
}

/// A node with a prefill and a decode engine of a toy model, and a client that takes notes. A world
/// with more peers derives from it, spawns the engines when those are there, and ends the engines
/// before them.
class engine_world {
public:
  caf::actor_system& system() { return node.world.system; }

  /// What a run without any cache computes.
  [[nodiscard]] std::unique_ptr<model::sequence> cold_run(std::span<const int32_t> tokens) const {
    auto state = model->make_sequence();
    model::step_item item;
    item.target = state.get();
    item.tokens = tokens;
    model->step({&item, 1});
    REQUIRE_FALSE(item.failed);
    return state;
  }
  [[nodiscard]] std::vector<model::state_part> cold_blocks(std::span<const int32_t> tokens,
                                                           uint32_t count) const {
    const auto state = cold_run(tokens);
    return model->export_blocks(*state, 0, count);
  }

  /// The lease on what a decode engine has taken over.
  void release(uint64_t lease) {
    wire::draft<wire::LeaseRelease> out;
    out->setId(lease);
    caf::anon_send(engine_actor{prefill}, out.freeze());
    world.run();
  }

  std::shared_ptr<persist_notes> notes = std::make_shared<persist_notes>();
  remote_world world;
  remote_node& node = world.start("engines");
  model::toy_options toy;
  std::shared_ptr<model::step_model> model;
  engine_impl_actor prefill, decode;
  leg_sink_actor client;

protected:
  explicit engine_world(const model::toy_options& with,
                        const net::loop_options& network = remote_world::instant())
      : world(1, network), toy(with), model(*model::make_toy_model(with)) {
    client = system().spawn(noting_client, notes);
  }
  ~engine_world() = default;

  /// The engines' memory is registered with a transport that ends with their node.
  void end_engines() {
    caf::anon_send_exit(prefill, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(decode, caf::exit_reason::user_shutdown);
    world.run();
  }

  /// What all engines have; the rest is the world's.
  engine_setup engine_of(schedule::engine_role role) {
    engine_setup setup;
    setup.role = role;
    setup.config.staging_bytes = 1 << 20;
    setup.model = std::shared_ptr<model::step_model>{*model::make_toy_model(toy)};
    setup.hub = &node.hub;
    setup.transport = node.transport.get();
    setup.spawn_batch = [this](const batch_config& config, const step_sink_actor& engine) {
      return batch_actor{system().spawn(batch, config, engine)};
    };
    return setup;
  }

  /// Leg 1 of a request; the cache is the world's.
  void write_prefill(wire::PrefillSubmit::Builder out,
                     const request_id& id,
                     std::span<const int32_t> prompt,
                     uint32_t max_tokens) {
    write_key(out.initKey(), id, leg_epoch{1});
    out.setDeadlineMs(120'000);
    write_ref(out.initReplyTo(), *node.hub.export_actor(client));
    out.setModel("toy");
    out.setTokens(token_bytes(prompt));
    out.setPromptTokens(static_cast<uint32_t>(prompt.size()));
    auto sampling = out.initSampling();
    write_sampling(sampling, {});
    sampling.setMaxTokens(max_tokens);
    sampling.setIgnoreEos(true);
  }

  void send_decode(const request_id& id, wire::SequenceReady::Reader ready, uint32_t credit) {
    wire::draft<wire::DecodeSubmit> out;
    write_key(out->initKey(), id, leg_epoch{1});
    out->setDeadlineMs(60'000);
    write_ref(out->initReplyTo(), *node.hub.export_actor(client));
    out->setCredit(credit);
    out->setSequence(ready.getSequence());
    caf::anon_send(engine_actor{decode}, out.freeze());
  }

  static void send_cancel(const engine_impl_actor& engine, const request_id& id) {
    wire::draft<wire::Cancel> out;
    write_key(out->initKey(), id, leg_epoch{1});
    caf::anon_send(engine_actor{engine}, out.freeze());
  }
};

}  // namespace deepinfer::test
