#pragma once

#include "proto/codec/msg.hpp"

#include <caf/allowed_unsafe_message_type.hpp>

/// Lets CAF carry `wire::msg<T>` as it is: a reference count moves between mailboxes, nothing is
/// encoded. Across processes the bytes travel through `actors/remote`, never through CAF's own
/// serialization, which is what "unsafe" refers to. Include this in every header with a typed
/// interface:
///
///     using counter_actor = caf::typed_actor<
///         caf::replies_to<wire::msg<wire::Ping>>::with<wire::msg<wire::Ack>>,
///         caf::reacts_to<wire::msg<wire::Cancel>>>;
namespace caf {

template <class T>
struct allowed_unsafe_message_type<deepinfer::wire::msg<T>> : std::true_type {};

}  // namespace caf
