#pragma once

#include "actors/messages/caf_messages.hpp"
#include "proto/wire/introspect.capnp.h"

#include <caf/actor.hpp>
#include <caf/replies_to.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <string>

/// The small interface that every actor answers, so that the console shows nothing that was not
/// read from a live actor.
namespace deepinfer {

using inspectable_actor = caf::typed_actor<
    // Who are you, what are you doing, how deep is your mailbox, to whom did you send how much?
    caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Sent to the console of the process by whoever spawns an actor.
struct track_actor {
  std::string kind;
  inspectable_actor handle;
};

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::track_actor)
