// What storing costs a decode engine: the same requests on two engines, one of which stores.
#include "actors/bench/bench_node.hpp"
#include "actors/bench/kv_figures.hpp"
#include "actors/bench/kv_sample.hpp"
#include "actors/cache/kv_writer.hpp"
#include "actors/cache/ring_host.hpp"
#include "actors/serve/batch.hpp"
#include "actors/serve/engine.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "runtime/model/v41_model.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace deepinfer::bench {
namespace {

using steady = std::chrono::steady_clock;

constexpr uint32_t sequences = 8;
constexpr uint32_t prompt_tokens = 200;
constexpr uint32_t warm_outputs = 8;  ///< until all of a batch are decoded together
constexpr std::chrono::seconds patience{120};

/// What the client of one run has heard; engines' threads write it.
struct run_notes {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, wire::msg<wire::SequenceReady>> ready;  ///< by number of the request
  std::map<uint64_t, uint32_t> outputs;
  uint32_t warm = 0, ended = 0;
  bool failed = false;
  steady::time_point begun, over;

  void tokens(uint64_t request, uint32_t count, wire::FinishReason finish) {
    const std::lock_guard lock{mutex};
    uint32_t& had = outputs[request];
    const uint32_t before = std::exchange(had, had + count);
    if (before < warm_outputs && had >= warm_outputs && ++warm == sequences) begun = steady::now();
    if (finish == wire::FinishReason::NONE) return;
    failed = failed || finish == wire::FinishReason::FAILED;
    if (++ended == sequences) over = steady::now();
    changed.notify_all();
  }
};

leg_sink_actor::behavior_type run_client(leg_sink_actor::pointer,
                                         const std::shared_ptr<run_notes>& notes) {
  return {
      [notes](const wire::msg<wire::SequenceReady>& m) {
        const std::lock_guard lock{notes->mutex};
        notes->ready[m.get().getKey().getId().getLo()] = m;
        notes->changed.notify_all();
      },
      [notes](const wire::msg<wire::Tokens>& m) {
        notes->tokens(m.get().getKey().getId().getLo(),
                      static_cast<uint32_t>(m.get().getIds().size() / sizeof(int32_t)),
                      m.get().getFinish());
      },
  };
}

/// A store elsewhere: it reads what it is offered and takes it.
kv_store_actor::behavior_type far_store(kv_store_actor::pointer self, net::transport* transport) {
  using namespace wire;
  return {
      [self, transport](const msg<KvPut>& m) {
        auto promise = self->make_response_promise<msg<KvPutDone>>();
        draft<KvPutDone> out;
        auto outcomes = out->initOutcomes(m.get().getBlocks().size());
        for (uint32_t i = 0; i < outcomes.size(); ++i) outcomes.set(i, KvPutOutcome::STORED);
        for (const auto block : m.get().getBlocks()) {
          const auto ref = block.getBytes();
          auto bytes = std::make_shared<std::vector<std::byte>>(ref.getLength());
          transport->read(transport->self(), {ref.getRegion(), ref.getOffset(), ref.getLength()},
                          *bytes, std::chrono::seconds{5}, [bytes](const result<void>&) {});
        }
        promise.deliver(out.freeze());
        return promise;
      },
      [](const msg<KvOpen>&) { return msg<KvOpened>{}; },
      [](const msg<KvRead>&) { return msg<KvReadDone>{}; },
      [](const msg<KvChangesQuery>&) { return msg<KvChanges>{}; },
      [](const msg<KvSnapshotQuery>&) { return msg<KvSnapshotPage>{}; },
      [](const msg<KvInfoQuery>&) {
        draft<KvInfo> out;
        out->initStore().setLo(1);
        out->setGroupBlocks(64);
        out->setReplicas(1);
        out->setCapacityBytes(uint64_t{1} << 30);
        return out.freeze();
      },
      [](const msg<KvHave>&) { return msg<KvHas>{}; },
      [](const msg<KvPurge>&) { return msg<KvPurged>{}; },
      [](const msg<KvClockAcknowledge>&) { return msg<Ack>{}; },
      [](const msg<KvRenew>&) {},
      [](const msg<KvClose>&) {},
      [](const msg<KvReportBad>&) {},
      [](const msg<LeaseRelease>&) {},
      [](const msg<Inspect>&) { return msg<ActorInfo>{}; },
  };
}

wire::msg<wire::Members> members_with(const node_id& self, const actor_ref& store) {
  wire::draft<wire::Members> out;
  out->initSelf().setHi(self.hi);
  out->getSelf().setLo(self.lo);
  auto record = out->initRecords(1)[0];
  record.initId().setHi(self.hi);
  record.getId().setLo(self.lo);
  auto service = record.initServices(1)[0];
  service.setKind("kvstore");
  write_ref(service.initActor(), store);
  return out.freeze();
}

class persist_site {
public:
  enum class storing : uint8_t { no, yes };

  static result<std::unique_ptr<persist_site>> open(const kv_plan& plan);
  ~persist_site();
  /// Seconds of one step of all sequences.
  result<double> run(storing what);
  [[nodiscard]] uint64_t blocks_stored();

private:
  explicit persist_site(const kv_plan& plan) : plan_(plan) {}
  result<engine_impl_actor> spawn(schedule::engine_role role, storing what);
  result<void> spawn_cache();
  void submit_prefill(uint64_t request, const leg_sink_actor& client);
  void submit_decode(const engine_impl_actor& engine,
                     const wire::msg<wire::SequenceReady>& ready,
                     const leg_sink_actor& client);
  void end(const caf::actor& actor);

  const kv_plan& plan_;
  std::unique_ptr<bench_node> node_;
  std::shared_ptr<persist_budget> budget_ =
      std::make_shared<persist_budget>(kv_writer_config{}.queue_bytes);
  kv_writer_actor writer_;
  ring_host_impl_actor rings_;
  engine_impl_actor prefill_, plain_, storing_;
  uint64_t layout_ = 0;
  uint64_t next_request_ = 1;
  std::vector<caf::actor> actors_;
};

result<std::unique_ptr<persist_site>> persist_site::open(const kv_plan& plan) {
  std::unique_ptr<persist_site> site{new persist_site{plan}};
  auto node = bench_node::make();
  if (!node) return node.error();
  site->node_ = *std::move(node);
  if (auto made = site->spawn_cache(); !made) return made.error();
  const auto add = [&site](engine_impl_actor& into, schedule::engine_role role, storing what) {
    auto made = site->spawn(role, what);
    if (made) into = *made;
    return made ? result<void>{} : result<void>{made.error()};
  };
  using schedule::engine_role;
  if (auto ok = add(site->prefill_, engine_role::prefill, storing::no); !ok) return ok.error();
  if (auto ok = add(site->plain_, engine_role::decode, storing::no); !ok) return ok.error();
  if (auto ok = add(site->storing_, engine_role::decode, storing::yes); !ok) return ok.error();
  return site;
}

result<void> persist_site::spawn_cache() {
  kv_writer_setup setup;
  setup.hub = &node_->hub();
  setup.transport = &node_->transport();
  setup.writer = {1, 1};
  setup.budget = budget_;
  writer_ = node_->system().spawn<caf::detached>(kv_writer, setup);
  rings_ =
      node_->system().spawn(ring_host, ring_host_setup{{}, &node_->hub(), &node_->transport()});
  const kv_store_actor store = node_->system().spawn(far_store, &node_->transport());
  for (const auto& actor :
       {caf::actor_cast<caf::actor>(writer_), caf::actor_cast<caf::actor>(rings_),
        caf::actor_cast<caf::actor>(store)})
    actors_.push_back(actor);
  const auto ref = node_->hub().export_actor(store);
  if (!ref) return ref.error();
  caf::anon_send(writer_, members_with(node_->transport().self(), *ref));
  return {};
}

result<engine_impl_actor> persist_site::spawn(schedule::engine_role role, storing what) {
  engine_setup setup;
  setup.role = role;
  model::v41_options options;
  options.threads = 1;
  auto made = model::make_v41_model(plan_.model, options);
  if (!made) return made.error();
  setup.model = *std::move(made);
  layout_ = setup.model->info().layout;
  setup.hub = &node_->hub();
  setup.transport = &node_->transport();
  if (what == storing::yes) {
    setup.writer = writer_;
    setup.budget = budget_;
    setup.rings = rings_;
  }
  setup.spawn_batch = [system = &node_->system()](const batch_config& config,
                                                  const step_sink_actor& engine) {
    return batch_actor{system->spawn<caf::detached>(batch, config, engine)};
  };
  const engine_impl_actor engine = node_->system().spawn(deepinfer::engine, setup);
  actors_.push_back(caf::actor_cast<caf::actor>(engine));
  return engine;
}

// Memory that actors have registered goes before the transport.
persist_site::~persist_site() {
  if (!node_) return;
  for (const auto& actor : actors_) end(actor);
  prefill_ = plain_ = storing_ = nullptr;
  writer_ = nullptr;
  rings_ = nullptr;
}

void persist_site::end(const caf::actor& actor) {
  caf::scoped_actor self{node_->system()};
  self->send_exit(actor, caf::exit_reason::user_shutdown);
  self->wait_for(actor);
}

void persist_site::submit_prefill(uint64_t request, const leg_sink_actor& client) {
  wire::draft<wire::PrefillSubmit> out;
  write_key(out->initKey(), {1, request}, leg_epoch{1});
  out->setDeadlineMs(600'000);
  if (const auto ref = node_->hub().export_actor(client)) write_ref(out->initReplyTo(), *ref);
  std::vector<int32_t> prompt(prompt_tokens);
  kv_random random{request};
  for (int32_t& id : prompt) id = static_cast<int32_t>(10 + random.below(400));
  out->setTokens(token_bytes(prompt));
  out->setPromptTokens(prompt_tokens);
  auto sampling = out->initSampling();
  write_sampling(sampling, {});
  sampling.setMaxTokens(plan_.persist_steps + warm_outputs);
  sampling.setIgnoreEos(true);
  write_line(out->initCache().initLine(), {{1, 1}, layout_, 1, storage::traffic_class::chat, 64});
  caf::anon_send(engine_actor{prefill_}, out.freeze());
}

void persist_site::submit_decode(const engine_impl_actor& engine,
                                 const wire::msg<wire::SequenceReady>& ready,
                                 const leg_sink_actor& client) {
  wire::draft<wire::DecodeSubmit> out;
  out->setKey(ready.get().getKey());
  out->setDeadlineMs(600'000);
  if (const auto ref = node_->hub().export_actor(client)) write_ref(out->initReplyTo(), *ref);
  out->setCredit(1 << 20);
  out->setSequence(ready.get().getSequence());
  caf::anon_send(engine_actor{engine}, out.freeze());
}

result<double> persist_site::run(storing what) {
  const auto notes = std::make_shared<run_notes>();
  const leg_sink_actor client = node_->system().spawn(run_client, notes);
  for (uint32_t i = 0; i < sequences; ++i) submit_prefill(next_request_++, client);
  std::unique_lock lock{notes->mutex};
  const bool ready = notes->changed.wait_for(lock, patience,
                                             [&notes] { return notes->ready.size() == sequences; });
  if (ready)
    for (const auto& [request, message] : notes->ready)
      submit_decode(what == storing::yes ? storing_ : plain_, message, client);
  const bool over = notes->changed.wait_for(
      lock, patience, [&notes] { return notes->ended == sequences || notes->failed; });
  if (!ready || !over || notes->failed)
    return failure{error_code::internal, "an engine did not do its work; look at its model"};
  for (const auto& [request, message] : notes->ready) {
    wire::draft<wire::LeaseRelease> release;
    release->setId(message.get().getSequence().getLease().getId());
    caf::anon_send(engine_actor{prefill_}, release.freeze());
  }
  const std::chrono::duration<double> took = notes->over - notes->begun;
  lock.unlock();
  end(caf::actor_cast<caf::actor>(client));
  return took.count() / plan_.persist_steps;
}

uint64_t persist_site::blocks_stored() {
  caf::scoped_actor self{node_->system()};
  uint64_t stored = 0;
  self->request(writer_, patience, wire::draft<wire::Inspect>{}.freeze())
      .receive(
          [&stored](const wire::msg<wire::ActorInfo>& info) {
            for (const auto counter : info.get().getCounters())
              if (counter.getName() == "stored") stored = static_cast<uint64_t>(counter.getValue());
          },
          [](const caf::error&) {});
  return stored;
}

}  // namespace

result<std::vector<figure>> measure_kv_persist(const kv_plan& plan) {
  using storing = persist_site::storing;
  auto site = persist_site::open(plan);
  if (!site) return site.error();
  if (auto warm = (*site)->run(storing::no); !warm) return warm.error();
  if (auto warm = (*site)->run(storing::yes); !warm) return warm.error();
  std::vector<double> plain, stored;
  for (size_t round = 0; round < plan.rounds; ++round) {
    // In turns, so that neither is always the second.
    for (const storing what : {round % 2 == 0 ? storing::no : storing::yes,
                               round % 2 == 0 ? storing::yes : storing::no}) {
      const auto took = (*site)->run(what);
      if (!took) return took.error();
      (what == storing::yes ? stored : plain).push_back(*took * 1e6);
    }
  }
  const uint64_t blocks = (*site)->blocks_stored();
  if (blocks == 0) return failure{error_code::internal, "nothing was stored"};
  std::vector<figure> out;
  out.push_back(make_figure("kv.persist.step_without", "us", plain));
  out.push_back(
      make_figure("kv.persist.step_storing", "us", stored, {"kv.persist.step_without", plain}));
  out.push_back(make_figure("kv.persist.blocks_stored", "", {static_cast<double>(blocks)}));
  return out;
}

}  // namespace deepinfer::bench
