#include "proto/codec/msg.hpp"

#include "proto/codec/registry.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace deepinfer;
using namespace deepinfer::wire;

namespace {

msg<PrefillSubmit> sample() {
  draft<PrefillSubmit> d;
  d->initKey().setLeg(3);
  const std::vector<int32_t> tokens{1, 2, 3, 4};
  d->setTokens(kj::arrayPtr(reinterpret_cast<const kj::byte*>(tokens.data()), tokens.size() * 4));
  d->setModel("tiny");
  d->initSampling().setTopP(0.5f);
  return d.freeze();
}

}  // namespace

TEST_SUITE("proto/codec") {
  TEST_CASE("a message reads back what the draft wrote, here and after the wire") {
    const auto sent = sample();
    const auto received = msg<PrefillSubmit>::open(sent.bytes());
    REQUIRE(received);
    for (const auto& m : {sent, *received}) {
      CHECK(m.get().getKey().getLeg() == 3);
      CHECK(m.get().getTokens().size() == 16);
      CHECK(m.get().getSampling().getTopP() == 0.5f);
      CHECK(std::string{m.get().getModel().cStr()} == "tiny");
    }
  }

  TEST_CASE("an empty message reads as all defaults") {
    const msg<LoadReport> none;
    CHECK_FALSE(none);
    CHECK(none.get().getQueuedTokens() == 0);
    CHECK(to_string(none) == "(empty)");
  }

  TEST_CASE("a long-lived message can be read any number of times") {
    const auto m = *msg<PrefillSubmit>::open(sample().bytes());
    uint64_t sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += m.get().getModel().size();
    CHECK(sum == 4'000'000);
  }

  TEST_CASE("damaged bytes are an error or another valid message, never a throw") {
    const auto good = sample();
    const std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
    test::rng random{5};
    for (int round = 0; round < 20'000; ++round) {
      auto bad = bytes;
      const uint32_t flips = 1 + random.below(4);
      for (uint32_t i = 0; i < flips; ++i)
        bad[random.below(static_cast<uint32_t>(bad.size()))] =
            static_cast<std::byte>(random.next());
      if (random.below(4) == 0) bad.resize(random.below(static_cast<uint32_t>(bad.size())) & ~7u);
      const auto opened = msg<PrefillSubmit>::open(bad);
      if (!opened) continue;
      const auto r = opened->get();
      static_cast<void>(r.getModel().size() + r.getTokens().size() + r.getSampling().getTopK());
      static_cast<void>(to_string(*opened));
    }
  }

  TEST_CASE("a list that claims more elements than there are bytes is refused") {
    draft<Gossip> d;
    d->initRecords(3);
    const auto good = d.freeze();
    CHECK(msg<Gossip>::open(good.bytes()));
    // A list of zero-sized structs costs no bytes: the walk must not follow a claimed 2^29 of them.
    for (size_t at = 8; at + 8 <= good.bytes().size(); at += 8) {
      std::vector<std::byte> bad(good.bytes().begin(), good.bytes().end());
      for (size_t i = 4; i < 8; ++i) bad[at + i] = std::byte{0xff};
      static_cast<void>(msg<Gossip>::open(bad));
    }
  }
}
