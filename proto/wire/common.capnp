@0xffe14954732a6ae8;
# Words that every conversation uses. Rules: one struct per message; evolve by adding fields at the
# end; deadlines are relative milliseconds; token ids are Data (int32, little endian); bulk bytes
# never travel inside a message, only their descriptors (kv.capnp).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("deepinfer::wire");

struct Id128 {
  hi @0 :UInt64;
  lo @1 :UInt64;
}

struct ActorRef {
  # A handle of an actor that may live in any process.
  node @0 :Id128;        # the life of the process it lives in
  actor @1 :UInt64;      # its number inside that process; 0: nobody
  interface @2 :UInt64;  # hash of the typed interface, checked before the handle is used
}

struct Failure {
  code @0 :UInt16;  # deepinfer::error_code
  detail @1 :Text;  # for people
}

struct Ack {
  # "Done." The answer to requests that need no other.
}
