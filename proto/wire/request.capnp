@0xe7ec9a2c62da38f7;
# From a request to engines and back.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Cache = import "cache.capnp";
using Sequence = import "sequence.capnp";
$Cxx.namespace("deepinfer::wire");

enum FinishReason {
  none @0;       # more follows
  stop @1;       # end-of-sequence token
  length @2;     # maxTokens or the context limit
  cancelled @3;
  failed @4;     # see failure
}

struct RequestKey {
  id @0 :Common.Id128;
  leg @1 :UInt32;  # messages of an older leg are dropped
}

struct RouteQuery {
  promptTokens @0 :UInt32;
  maxTokens @1 :UInt32;
  model @2 :Text;
  exclude @3 :List(Common.ActorRef);  # engines that already failed this request
}

struct RouteReply {
  engine @0 :Common.ActorRef;
}

struct RouteDone {
  # Takes the work of a RouteQuery back out of the balancer's own view.
  engine @0 :Common.ActorRef;
  promptTokens @1 :UInt32;
  maxTokens @2 :UInt32;
}

struct LoadSubscribe {
  subscriber @0 :Common.ActorRef;
}

struct LoadReport {
  # What an engine tells its subscribers, at most ten times a second while it works and once a
  # second otherwise; three silent intervals mean "treat as full".
  engine @0 :Common.ActorRef;
  role @1 :Text;
  accepting @2 :Bool;
  queuedTokens @3 :UInt64;    # prompt tokens accepted and not computed
  runningSequences @4 :UInt32;
  maxSequences @5 :UInt32;
  contextTokens @6 :UInt64;   # tokens held by running sequences
  freeTokens @7 :UInt64;      # state space left, in tokens
  number @8 :UInt64;          # counts up
}

struct PrefillSubmit {
  key @0 :RequestKey;
  deadlineMs @1 :UInt32;
  replyTo @2 :Common.ActorRef;
  model @3 :Text;
  tokens @4 :Data;           # prompt, then output tokens of earlier legs
  promptTokens @5 :UInt32;
  sampling @6 :Sequence.Sampling;
  cache @7 :Cache.CacheHint;
}

struct DecodeSubmit {
  key @0 :RequestKey;
  deadlineMs @1 :UInt32;
  replyTo @2 :Common.ActorRef;
  credit @3 :UInt32;         # output tokens the receiver can take now
  sequence @4 :Sequence.SequenceState;
}

struct Accepted {
  key @0 :RequestKey;
}

struct SequenceReady {
  # A prefill engine's result: one output token and the sequence that continues behind it.
  key @0 :RequestKey;
  tokenIndex @1 :UInt32;     # of the output token, from 0
  token @2 :Int32;
  finish @3 :FinishReason;   # not none: the token ended it, and there is no sequence
  sequence @4 :Sequence.SequenceState;
  logprobs @5 :TokenLogprobs;
  cachedTokens @6 :UInt32;   # of the prompt, whose entries came from the cache and were used
}

struct TokenLogprobs {
  # Natural logarithms of how likely the model found a message's output tokens, and the best tokens
  # at the place of each, equally many. Lists are empty where sampling.logprobs is 0.
  chosen @0 :List(Float32);  # of each token; at most 0, -infinity included
  bestIds @1 :Data;          # a row for each token, best first (int32 LE); -1: none
  best @2 :List(Float32);    # theirs; -infinity for none
}

struct Tokens {
  # Output tokens firstIndex, firstIndex+1, ... of one leg.
  key @0 :RequestKey;
  firstIndex @1 :UInt32;
  ids @2 :Data;
  finish @3 :FinishReason;
  failure @4 :Common.Failure;
  logprobs @5 :TokenLogprobs;
}

struct Credit {
  key @0 :RequestKey;
  tokens @1 :UInt32;         # added to what was granted before
}

struct Cancel {
  key @0 :RequestKey;
}
