@0xb539705befb2cb02;
# Messages of the fabric benchmark.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("deepinfer::wire");

struct Ping {
  # 64 bytes with Cap'n Proto framing.
  number @0 :UInt64;
  a @1 :UInt64;
  b @2 :UInt64;
  c @3 :UInt64;
  d @4 :UInt64;
  e @5 :UInt64;
}

struct Blob {
  # A longer one, of any length.
  number @0 :UInt64;
  payload @1 :Data;
}
