@0xf42a85a0e38ded23;
# Descriptors of bytes that stay where they are until somebody reads them one-sided.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("deepinfer::wire");

struct BulkRef {
  # A span of registered memory on a node. The reader pulls it, compares the digest, then
  # releases the lease.
  region @0 :UInt64;      # key of the registered region
  offset @1 :UInt64;      # from the start of the region, bytes
  length @2 :UInt64;      # bytes
  generation @3 :UInt64;  # of the buffer; changes when it is used again
  digestHi @4 :UInt64;    # XXH3-128 of the bytes
  digestLo @5 :UInt64;
}

struct Lease {
  # The owner keeps the bytes until release or expiry, whichever comes first.
  id @0 :UInt64;
  node @1 :Common.Id128;
  owner @2 :Common.ActorRef;  # takes LeaseRenew and LeaseRelease
  ttlMs @3 :UInt32;
}

struct LeaseRenew {
  id @0 :UInt64;
  ttlMs @1 :UInt32;
}

struct LeaseRelease {
  id @0 :UInt64;
}

enum PartKind {
  block @0;     # Block KV of 128 tokens, all source layers
  blockTail @1; # the rows behind the last full block
  ring @2;      # sliding-window rings
  state @3;     # State KV: pending compressor rows, look-back ids
}

struct BulkPart {
  kind @0 :PartKind;
  index @1 :UInt32;  # of the block; 0 otherwise
  bytes @2 :BulkRef;
}
