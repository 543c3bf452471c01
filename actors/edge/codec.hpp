#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/codec.hpp"
#include "actors/messages/protocol.hpp"

#include <caf/stateful_actor.hpp>

#include <memory>

namespace deepinfer {

struct codec_state {
  actor_card card;
};

/// Converts request bodies into tokens. The handler takes as long as its prompt is long, so codecs
/// are spawned detached in service.
codec_actor::behavior_type codec(codec_actor::stateful_pointer<codec_state> self,
                                 const std::shared_ptr<const protocol_codec>& protocol,
                                 const std::shared_ptr<codec_load>& load,
                                 const remote_hub& hub);

}  // namespace deepinfer
