@0x9f9c63e825565747;
# A sequence as a value: everything an engine needs to continue it at the same token. P -> D
# hand-off, drain and re-route after a fault all use this one message.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Cache = import "cache.capnp";
using Kv = import "kv.capnp";
$Cxx.namespace("deepinfer::wire");

struct Sampling {
  temperature @0 :Float32;  # 0: greedy
  topP @1 :Float32 = 1;
  topK @2 :UInt32;          # 0: off
  seed @3 :UInt64;          # the noise is a function of (seed, position) alone
  maxTokens @4 :UInt32;     # of output, over all legs
  ignoreEos @5 :Bool;
  logprobs @6 :UInt8;       # 0: none; else 1 + the best tokens to tell beside each output token
}

struct SequenceState {
  model @0 :Text;
  layout @1 :UInt64;         # fingerprint of weights + state layout; a mismatch is refused
  tokens @2 :Data;           # prompt, then output so far (int32 LE); the last one is not computed yet
  promptTokens @3 :UInt32;
  computedTokens @4 :UInt32; # positions whose state the parts hold
  sampling @5 :Sampling;
  parts @6 :List(Kv.BulkPart);
  lease @7 :Kv.Lease;
  cache @8 :Cache.CacheLine;
  storedBlocks @9 :UInt32;   # from the first on, that came from the cache: not to be written again
}
