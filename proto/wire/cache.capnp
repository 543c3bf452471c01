@0xb1c2d7a94e6f3085;
# The shared KV cache: what a prompt may take from it, and the talk with stores, fetch processes and
# hosts of rings. Keys are 16 bytes each (big-endian), token ids int32 LE.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Kv = import "kv.capnp";
$Cxx.namespace("deepinfer::wire");

# ---- what travels with a request ------------------------------------------------------------------

struct CacheLine {
  # Which chain of blocks a sequence belongs to, and who it counts for.
  root @0 :Common.Id128;   # of the chain (chain_domain with the scope in it); zero: no caching
  layout @1 :UInt64;       # that the root was made for; an engine of another layout ignores all this
  scope @2 :UInt64;        # storage::scope_id
  traffic @3 :UInt8;       # storage::traffic_class
  groupBlocks @4 :UInt32;  # blocks that lie together on one store; > 0
  sharedRoot @5 :Common.Id128;  # of the first `sharedBlocks` blocks: those of a prompt that operators listed
  sharedBlocks @6 :UInt32;      # everybody's; depths and groups of those behind begin anew
}

struct CacheGroup {
  # The blocks of one group of a prompt (storage::group_cut): who is said to have them, best first.
  stores @0 :List(Common.ActorRef);
}

struct RingHint {
  # The window rings behind the first `blocks` blocks are kept in the memory of a host.
  blocks @0 :UInt32;
  host @1 :Common.ActorRef;
  bytes @2 :UInt64;
}

struct CacheHint {
  # What CHECK knows of a prompt. A hint: all of it may prove wrong, which costs time only (KV-9).
  line @0 :CacheLine;
  hitBlocks @1 :UInt32;
  groups @2 :List(CacheGroup);  # of the hit
  rings @3 :List(RingHint);     # longest first
}

# ---- kv_store: writing ----------------------------------------------------------------------------

struct BlockWrite {
  key @0 :Common.Id128;
  parent @1 :Common.Id128;
  depth @2 :UInt32;
  content @3 :Data;        # tokens and media marks, as they are hashed into the key
  bytes @4 :Kv.BulkRef;
  checksum @5 :UInt64;     # storage::block_checksum at the source
  expiryMs @6 :UInt64;     # cluster time, of a block that moves: it ends then; 0: as its class says
}

struct KvPut {
  # The store reserves, pulls what it does not have, verifies, commits, and answers. It lets go of
  # the lease by itself.
  writer @0 :UInt64;       # stable over lives of the instance
  writerEpoch @1 :UInt64;
  scope @2 :UInt64;
  traffic @3 :UInt8;
  deadlineMs @4 :UInt32;
  blocks @5 :List(BlockWrite);  # of one chain and one group, parents first
  lease @6 :Kv.Lease;
  placement @7 :UInt64;    # of who gives blocks away: a digest of the stores it knows, as it weighs
                           # them. Taken only by a store that sees the same; 0: of no matter
}

enum KvPutOutcome {
  stored @0;
  refreshed @1;    # was there
  diverged @2;     # is there with other bytes, which stay
  noParent @3;
  overQuota @4;
  full @5;
  busy @6;
  stale @7;        # an older life of the writer, or too late
  corrupt @8;      # the bytes are not those of the checksum
  failed @9;       # the medium, or the pull
  otherPlacement @10;  # this store sees other stores or weights: ask again when all see the same
}

struct KvPutDone {
  outcomes @0 :List(KvPutOutcome);  # one for each block
}

# ---- kv_store: reading ----------------------------------------------------------------------------

struct KvOpen {
  # Protects the longest stored prefix of these blocks, which are of one group.
  keys @0 :Data;
  tokens @1 :Data;       # of those blocks
  firstDepth @2 :UInt32; # of keys[0] in its sequence
  deadlineMs @3 :UInt32; # a later answer is of no use, and its lease is closed; 0: the store's own limit
}

struct BlockPlace {
  segment @0 :UInt32;
  offset @1 :UInt64;
  length @2 :UInt32;
  checksum @3 :UInt64;
}

struct KvOpened {
  blocks @0 :UInt32;
  lease @1 :UInt64;      # 0: none was free, or no blocks
  epoch @2 :UInt64;
  expiryMs @3 :UInt64;   # cluster time; of the last block
  ttlMs @4 :UInt32;      # of the lease
  folder @5 :Text;       # where the segment files lie, for readers that have the same path mounted
  folderMark @6 :Common.Id128;  # what the file `mark` in that folder says: the same folder, not one of the same name
  places @7 :List(BlockPlace);  # of those blocks; empty: only KvRead reaches the bytes
}

struct KvRead {
  lease @0 :UInt64;
  epoch @1 :UInt64;
  keys @2 :Data;
  deadlineMs @3 :UInt32;
  readerVerifies @4 :Bool;  # the asker compares what it pulls with the checksums, and reports what is bad; the store need not
}

enum KvReadStatus {
  ok @0;
  absent @1;
  bad @2;          # failed its checksum; in quarantine now
  failed @3;       # the medium did not answer
  stale @4;        # the lease is not valid
  noRoom @5;       # too much is being read; again, later
}

struct BlockRead {
  status @0 :KvReadStatus;
  bytes @1 :Kv.BulkRef;   # of `ok`; without a digest, the checksum vouches for them
  checksum @2 :UInt64;    # storage::block_checksum
}

struct KvReadDone {
  blocks @0 :List(BlockRead);  # one for each key
  lease @1 :Kv.Lease;          # of the bytes; LeaseRelease when they were pulled
}

struct KvRenew {
  lease @0 :UInt64;
  epoch @1 :UInt64;
}

struct KvClose {
  lease @0 :UInt64;
  epoch @1 :UInt64;
  used @2 :Bool;     # unused hits do not live longer (KV-14)
  traffic @3 :UInt8;
}

struct KvReportBad {
  # A reader of files found bytes that are not the block's.
  key @0 :Common.Id128;
}

# ---- kv_store: what it tells ----------------------------------------------------------------------

struct KvInfoQuery {
}

struct KvInfo {
  store @0 :Common.Id128;    # of the folder: the same after a restart; places groups
  epoch @1 :UInt64;          # of this life
  groupBlocks @2 :UInt32;
  replicas @3 :UInt32;       # that this store believes in, 1 for shared ones
  capacityBytes @4 :UInt64;
  blockBytesHint @5 :UInt64; # of the longest block stored; 0: none yet
  clockFrozen @6 :Bool;      # nothing expires until KvClockAcknowledge
}

enum KvChangeKind {
  stored @0;
  removed @1;
  touched @2;
}

struct KvChangeColumns {
  # Changes as an index takes them, one column for each field, so that ten million of them are a
  # matter of copying. All columns have `count` values; numbers are little-endian.
  count @0 :UInt32;
  firstSequence @1 :UInt64;  # the others follow without a gap; of a snapshot: 0, they have none
  kinds @2 :Data;            # one byte each; empty: all are stored
  keys @3 :Data;             # 16 bytes each
  depths @4 :Data;           # 4 bytes each
  contentDigests @5 :Data;   # 8 bytes each
  expiriesMs @6 :Data;       # 8 bytes each
}

struct KvChangesQuery {
  # Waits up to `waitMs` for something to tell.
  epoch @0 :UInt64;
  sequence @1 :UInt64;
  limit @2 :UInt32;
  waitMs @3 :UInt32;
}

struct KvChanges {
  gap @0 :Bool;            # other life, or too far behind: take a snapshot
  epoch @1 :UInt64;
  sequence @2 :UInt64;     # where to go on
  changes @3 :KvChangeColumns;
}

struct KvSnapshotQuery {
  cursor @0 :UInt64;
  limit @1 :UInt32;
  deadlineMs @2 :UInt32;   # 0: the store's own limit
}

struct KvSnapshotPage {
  epoch @0 :UInt64;
  sequence @1 :UInt64;
  nextCursor @2 :UInt64;   # 0: the last page
  blocks @3 :KvChangeColumns;
}

struct KvHave {
  # Which of these are stored? Refreshes nothing; for stores that move blocks to their owners.
  keys @0 :Data;
}

struct KvHas {
  present @0 :Data;        # one byte for each key: 1 or 0
}

struct KvPurge {
  # To stores, hosts of rings, writers and fetch processes: all of this scope goes.
  scope @0 :UInt64;
}

struct KvPurged {
  # What was taken away, of what the answerer has.
  blocks @0 :UInt64;
  rings @1 :UInt64;
  bytes @2 :UInt64;
}

struct KvClockAcknowledge {
}

# ---- kv_fetch -------------------------------------------------------------------------------------

struct KvFetch {
  # From an engine of the same machine. All blocks of a hit, or as many as can be had, into memory
  # that both processes see.
  ticket @0 :Common.Id128;      # of the asker's choice; unique among its open fetches
  deadlineMs @1 :UInt32;        # also the priority: the earliest goes first
  keys @2 :Data;
  tokens @3 :Data;              # of those blocks
  groupBlocks @4 :UInt32;
  groups @5 :List(CacheGroup);
  traffic @6 :UInt8;
  sharedBlocks @7 :UInt32;      # as in the CacheLine
}

struct FetchedBlock {
  offset @0 :UInt64;            # in the arena
  length @1 :UInt32;
  checksum @2 :UInt64;          # storage::block_checksum
}

struct KvFetched {
  # The good blocks from the first on; what is behind the first bad one is not there.
  arenaProcess @0 :UInt32;      # /proc/<process>/fd/<descriptor> is the memory
  arenaDescriptor @1 :UInt32;
  arenaBytes @2 :UInt64;
  arenaEpoch @3 :UInt64;        # of the fetch process's life
  blocks @4 :List(FetchedBlock);
  why @5 :Common.Failure;       # why not all; code 0 when all are there
  holdMs @6 :UInt32;            # how long behind the fetch's deadline they stay unless released
}

struct KvFetchRelease {
  # Ends a fetch, also one that was not answered yet.
  ticket @0 :Common.Id128;
  usedBlocks @1 :UInt32;        # 0: not used, its life is not prolonged
}

struct KvFetchNow {
  # The asker waits no longer: what is there of a fetch that was not answered yet is its answer.
  ticket @0 :Common.Id128;
}

# ---- ring_host ------------------------------------------------------------------------------------

struct RingEntry {
  key @0 :Common.Id128;   # of the last block in front of the rings
  bytes @1 :UInt64;
}

struct RingChanges {
  # To every kv_check: what a host has, from it alone. The whole list first, then changes; a number
  # that does not follow the last one asks for the list again (RingSubscribe).
  host @0 :Common.ActorRef;
  number @1 :UInt64;      # counts up from 0, which is the whole list
  added @2 :List(RingEntry);
  removed @3 :Data;       # keys
}

struct RingSubscribe {
  subscriber @0 :Common.ActorRef;
}

struct RingPull {
  key @0 :Common.Id128;
  layout @1 :UInt64;
}

struct RingReady {
  parts @0 :List(Kv.BulkPart);  # kinds ring and state
  lease @1 :Kv.Lease;
}
