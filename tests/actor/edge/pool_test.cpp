#include "actors/edge/codec.hpp"
#include "actors/edge/gateway.hpp"
#include "tests/actor/edge/scripted_engine.hpp"

#include <caf/typed_response_promise.hpp>
#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

/// Takes jobs and never answers: each is the test's to end.
struct busy_log {
  std::vector<encode_job> jobs;
  std::vector<caf::typed_response_promise<encode_answer>> answers;
};

codec_actor::behavior_type busy_codec(codec_actor::pointer self,
                                      const std::shared_ptr<busy_log>& log) {
  return {
      [self, log](const encode_job& job) {
        log->jobs.push_back(job);
        log->answers.push_back(self->make_response_promise<encode_answer>());
        return log->answers.back();
      },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

/// A gateway with two codecs, and clients that wait.
struct two_codecs {
  remote_world world;
  remote_node& node = world.start("a:1");
  std::shared_ptr<busy_log> logs[2] = {std::make_shared<busy_log>(), std::make_shared<busy_log>()};
  std::shared_ptr<codec_load> loads[2] = {std::make_shared<codec_load>(0),
                                          std::make_shared<codec_load>(0)};
  std::vector<std::shared_ptr<const http_request>> requests;
  gateway_config config;
  gateway_impl_actor sut = start();

  gateway_impl_actor start() {
    auto& system = node.world.system;
    gateway_setup setup;
    setup.config = config;
    setup.hub = &node.hub;
    setup.protocol = std::make_shared<plain_protocol>();
    setup.unix_time = [] { return 0s; };
    for (int i = 0; i < 2; ++i)
      setup.codecs.push_back({system.spawn(busy_codec, logs[i]), loads[i]});
    const auto made = system.spawn(gateway, setup);
    world.run();
    return made;
  }

  std::shared_ptr<patient_client> send(size_t body_bytes, http_headers headers = {}) {
    auto request = std::make_shared<http_request>();
    request->method = "POST";
    request->path = "/any";
    request->headers = std::move(headers);
    request->body.assign(body_bytes, 'x');
    requests.push_back(request);
    auto client = std::make_shared<patient_client>();
    node.world.self->send(sut, http_exchange{request, client});
    world.run();
    return client;
  }
};

}  // namespace

TEST_SUITE("actors/edge") {
  TEST_CASE_FIXTURE(two_codecs, "nobody waits behind a huge prompt while another codec is free") {
    send(10'000'000);
    for (int i = 0; i < 5; ++i) send(1000);
    CHECK(logs[0]->jobs.size() == 1);
    CHECK(logs[1]->jobs.size() == 5);
    CHECK(loads[0]->load() == 10'000'000);
    CHECK(loads[1]->load() == 5000);
    CHECK(logs[0]->jobs.front().bytes == 10'000'000);
    *loads[0] -= 10'000'000;  // done, as a codec says it
    send(1000);
    CHECK(logs[0]->jobs.size() == 2);
  }

  TEST_CASE_FIXTURE(two_codecs,
                    "what a trusted proxy got wrong is refused before it costs anything") {
    const http_headers wrong{{"x-deepinfer-class", "robot"}};
    CHECK(send(10, wrong)->status() == 0);  // not trusted, not read
    CHECK(logs[0]->jobs.size() == 1);
    config.trust_tenant_header = true;
    sut = start();
    const auto client = send(10, wrong);
    CHECK(client->status() == 400);
    CHECK(client->body().find("x-deepinfer-class") != std::string::npos);
    CHECK(logs[0]->jobs.size() + logs[1]->jobs.size() == 1);
    CHECK(send(10, {{"x-deepinfer-class", "agent"}})->status() == 0);
  }

  TEST_CASE_FIXTURE(two_codecs, "a packed body reaches no codec") {
    for (const char* coding : {"gzip", "br", "identity, gzip"})
      CHECK(send(10, {{"content-encoding", coding}})->status() == 415);
    CHECK(logs[0]->jobs.empty());
    CHECK(loads[0]->load() == 0);
    CHECK(send(10, {{"content-encoding", "identity"}})->status() == 0);
    CHECK(logs[0]->jobs.size() == 1);
  }

  TEST_CASE_FIXTURE(two_codecs, "a codec gives its load back when a job is done, well or not") {
    const auto load = std::make_shared<codec_load>(300);
    auto& system = node.world.system;
    const codec_actor real = system.spawn(
        codec, std::shared_ptr<const protocol_codec>{std::make_shared<plain_protocol>()}, load,
        std::cref(node.hub));
    const auto request = std::make_shared<http_request>();
    node.world.self->send(real, encode_job{request, {}, 100});
    world.run();
    CHECK(load->load() == 200);
    node.world.self->send(real, encode_job{{}, {}, 200});  // its client has gone
    world.run();
    CHECK(load->load() == 0);
  }
}
