#include "actors/console/actor_metrics.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;

TEST_SUITE("actors/console") {
  TEST_CASE("lasting actors become series, requests do not, and no text breaks a line") {
    wire::draft<wire::LocalTopology> d;
    auto actors = d->initActors(2);
    actors[0].setKind("decode\"\n");
    actors[0].setId(1033);
    actors[0].setMailbox(4);
    auto counters = actors[0].initCounters(1);
    counters[0].setName("sequences");
    counters[0].setValue(3);
    actors[1].setKind("request");
    actors[1].initCounters(1)[0].setName("tokens");
    const std::string text = actor_metrics_text(d.freeze().get());
    CHECK(
        text.find("deepinfer_actor{kind=\"decode\\\" \",actor=\"1033\",name=\"sequences\"} 3\n") !=
        std::string::npos);
    CHECK(text.find("deepinfer_actor_mailbox{kind=\"decode\\\" \",actor=\"1033\"} 4\n") !=
          std::string::npos);
    CHECK(text.find("request") == std::string::npos);
  }
}
