@0xe47b97483610b517;
# Membership: who is in the cluster, under which epoch, and which actors a node offers to others.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("deepinfer::wire");

struct Service {
  kind @0 :Text;  # "gateway", "prefill", "decode", "console", ...
  actor @1 :Common.ActorRef;
  model @2 :Text;  # served name, for engines
  layout @3 :UInt64;  # of the state that an engine computes, 0 for others
  store @4 :Common.Id128;  # of the folder that a kvstore has, the same after a restart
}

enum NodeState {
  alive @0;
  suspect @1;   # no sign of life for a while
  left @2;      # said goodbye
  dead @3;      # declared dead; this life never comes back
}

struct NodeRecord {
  id @0 :Common.Id128;
  name @1 :Text;  # for people: host:port
  address @2 :Text;  # fabric address that others dial, host:port
  roles @3 :List(Text);
  epoch @4 :UInt64;  # grows with every start on the same address; microseconds since 1970
  state @5 :NodeState;
  version @6 :UInt64;  # raised by the owner with each change of its own record
  uptimeMs @7 :UInt64;
  services @8 :List(Service);
  machine @9 :Text;  # equal for processes that can map memory of one another; empty: unknown
}

struct Gossip {
  # Sent to every linked peer twice a second and at once after a change. Idempotent.
  sender @0 :Common.Id128;
  cluster @1 :Text;
  records @2 :List(NodeRecord);
  coordinator @3 :Common.Id128;
}

struct MembersQuery {
}

struct Members {
  # The table as one node sees it. Also pushed to local subscribers after each change.
  self @0 :Common.Id128;
  cluster @1 :Text;
  records @2 :List(NodeRecord);
  coordinator @3 :Common.Id128;
  majority @4 :Bool;  # this side holds the majority of the last agreed table
}
