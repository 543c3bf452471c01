@0xab3d10c3a7ec7d25;
# The interface that every actor answers, and what the console makes of it.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("deepinfer::wire");

struct Inspect {
}

struct Counter {
  name @0 :Text;
  value @1 :Int64;
}

struct PeerCount {
  # How many messages an actor has sent to another one.
  actor @0 :UInt64;
  node @1 :Common.Id128;
  messages @2 :UInt64;
}

struct ActorInfo {
  kind @0 :Text;
  id @1 :UInt64;
  node @2 :Common.Id128;
  state @3 :Text;    # one line
  mailbox @4 :UInt32;
  counters @5 :List(Counter);
  peers @6 :List(PeerCount);
}

struct LocalTopologyQuery {
  # Asked of the console actor of one node; answered from that node's live actors.
}

struct LocalTopology {
  node @0 :Common.Id128;
  actors @1 :List(ActorInfo);
  log @2 :List(Text);  # last log lines
}

struct TopologyQuery {
  # Asked of any console actor; it asks the consoles of all other nodes.
}

struct Topology {
  cluster @0 :Text;
  self @1 :Common.Id128;
  nodes @2 :List(Cluster.NodeRecord);
  actors @3 :List(ActorInfo);
  unreachable @4 :List(Common.Id128);  # nodes that did not answer in time
}
