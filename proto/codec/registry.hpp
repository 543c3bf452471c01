#pragma once

#include "proto/codec/msg.hpp"
#include "proto/wire/bench.capnp.h"
#include "proto/wire/cache.capnp.h"
#include "proto/wire/cluster.capnp.h"
#include "proto/wire/common.capnp.h"
#include "proto/wire/introspect.capnp.h"
#include "proto/wire/kv.capnp.h"
#include "proto/wire/request.capnp.h"
#include "proto/wire/sequence.capnp.h"

namespace deepinfer::wire {

template <class... Types>
struct type_list {};

/// Every message that may cross a process, in one place. To add one: define the struct in
/// `proto/wire`, add it here, put it into an interface in `actors/messages`.
using crossing_types = type_list<Ack,
                                 ActorRef,
                                 Gossip,
                                 MembersQuery,
                                 Members,
                                 RouteQuery,
                                 RouteReply,
                                 RouteDone,
                                 LoadSubscribe,
                                 LoadReport,
                                 PrefillSubmit,
                                 DecodeSubmit,
                                 Accepted,
                                 SequenceReady,
                                 Tokens,
                                 Credit,
                                 Cancel,
                                 LeaseRenew,
                                 LeaseRelease,
                                 Inspect,
                                 ActorInfo,
                                 LocalTopologyQuery,
                                 LocalTopology,
                                 TopologyQuery,
                                 Topology,
                                 KvPut,
                                 KvPutDone,
                                 KvOpen,
                                 KvOpened,
                                 KvRead,
                                 KvReadDone,
                                 KvRenew,
                                 KvClose,
                                 KvReportBad,
                                 KvInfoQuery,
                                 KvInfo,
                                 KvChangesQuery,
                                 KvChanges,
                                 KvSnapshotQuery,
                                 KvSnapshotPage,
                                 KvHave,
                                 KvHas,
                                 KvPurge,
                                 KvPurged,
                                 KvClockAcknowledge,
                                 KvFetch,
                                 KvFetched,
                                 KvFetchRelease,
                                 KvFetchNow,
                                 RingChanges,
                                 RingSubscribe,
                                 RingPull,
                                 RingReady,
                                 Ping,
                                 Blob>;

/// The Cap'n Proto id of a message type, as it stands in the frame header.
template <class T>
[[nodiscard]] constexpr uint64_t type_id() {
  return capnp::typeId<T>();
}

}  // namespace deepinfer::wire
