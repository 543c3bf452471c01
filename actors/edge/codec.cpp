#include "actors/edge/codec.hpp"

namespace deepinfer {
namespace {

/// Gives a job's share of the load back when the job is done.
struct load_taken {
  codec_load& load;
  uint64_t bytes;

  ~load_taken() { load -= bytes; }
};

}  // namespace

codec_actor::behavior_type codec(codec_actor::stateful_pointer<codec_state> self,
                                 const std::shared_ptr<const protocol_codec>& protocol,
                                 const std::shared_ptr<codec_load>& load,
                                 const remote_hub& hub) {
  self->state.card = actor_card{"codec", hub};
  return {
      [self, protocol, load](const encode_job& job) {
        const load_taken until_done{*load, job.bytes};
        const auto request = job.request.lock();
        if (!request) return encode_answer{nullptr, recipe::bad_request("", "the client is gone")};
        auto prepared = protocol->prepare(*request, job.context);
        self->state.card.count(prepared ? "encoded" : "refused");
        self->state.card.sent(self->current_sender());
        if (!prepared) return encode_answer{nullptr, prepared.error()};
        self->state.card.count("tokens", static_cast<int64_t>((*prepared)->tokens.size()));
        return encode_answer{*prepared, {}};
      },
      [self, protocol](const wire::msg<wire::Inspect>&) {
        for (const auto& [name, value] : protocol->counters()) self->state.card.set(name, value);
        return self->state.card.info(*self, "idle");
      },
  };
}

}  // namespace deepinfer
