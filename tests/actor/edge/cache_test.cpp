#include "actors/edge/gateway.hpp"
#include "tests/actor/edge/scripted_engine.hpp"

#include <caf/typed_response_promise.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;
using namespace test;
using schedule::choice_id;

/// What the request asked of the kv_check.
struct match_log {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<cache_party> parties;
  bool silent = false;
  caf::typed_response_promise<wire::msg<wire::CacheHint>> kept;
};

/// Says that as many blocks are stored as the prompt has tokens.
prompt_matcher_actor::behavior_type scripted_matcher(prompt_matcher_actor::pointer self,
                                                     const std::shared_ptr<match_log>& log) {
  return {
      [self, log](const match_prompt& what) -> caf::result<wire::msg<wire::CacheHint>> {
        log->prompts.push_back(*what.tokens);
        log->parties.push_back(what.party);
        if (log->silent)
          return log->kept = self->make_response_promise<wire::msg<wire::CacheHint>>();
        wire::draft<wire::CacheHint> hint;
        hint->initLine().initRoot().setHi(4711);
        hint->setHitBlocks(static_cast<uint32_t>(what.tokens->size()));
        return hint.freeze();
      },
  };
}

enum class matcher : uint8_t { answers, silent, none, off };

/// A request for some choices, its engine, and the kv_check that it asks first.
struct matched_request {
  remote_world world;
  remote_node& node = world.start("a:1");
  std::shared_ptr<engine_log> engine = std::make_shared<engine_log>();
  std::shared_ptr<route_log> routes = std::make_shared<route_log>();
  std::shared_ptr<match_log> matches = std::make_shared<match_log>();
  std::shared_ptr<std::vector<written>> writer;
  std::shared_ptr<patient_client> client = std::make_shared<patient_client>();
  request_id id{77, 88};
  request_actor sut;

  explicit matched_request(matcher how = matcher::answers, uint32_t choices = 1)
      : writer(std::make_shared<std::vector<written>>(choices)) {
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->tokens = {5, 6, 7};
    exchange->choices = choices;
    exchange->max_tokens = 50;
    exchange->stream = true;
    exchange->writer = std::make_unique<recording_writer>(writer);
    auto& system = node.world.system;
    const auto ref = node.hub.export_actor(system.spawn(scripted_engine, engine));
    REQUIRE(ref);
    auto setup = std::make_shared<request_setup>();
    setup->hub = &node.hub;
    setup->model = "m";
    setup->protocol = std::make_shared<plain_protocol>();
    setup->unix_time = [] { return 0s; };
    setup->places = std::make_shared<held_places>(std::make_shared<answer_places>(10));
    REQUIRE(setup->places->take(1));
    setup->codec = system.spawn(scripted_codec, exchange);
    setup->prefill_balancer = setup->decode_balancer =
        system.spawn(scripted_balancer, *ref, routes);
    matches->silent = how == matcher::silent;
    if (how != matcher::none) setup->check = system.spawn(scripted_matcher, matches);
    setup->cache.enabled = how != matcher::off;
    setup->cache.match_within = 20ms;
    setup->party.scope.id = "acme";
    sut =
        system.spawn(request, std::shared_ptr<const request_setup>{setup},
                     http_exchange{std::make_shared<http_request>(), client}, exchange_context{id});
    world.run();
  }

  template <class Message>
  void send(const wire::msg<Message>& message) {
    node.world.self->send(sut, message);
    world.run();
  }

  void ready(uint32_t choice, int32_t token, uint32_t cached) {
    const auto of_choice = [&](const auto& m) {
      return read_request_id(m.get().getKey()) == choice_id(id, choice);
    };
    const auto last = std::find_if(engine->prefills.rbegin(), engine->prefills.rend(), of_choice);
    REQUIRE(last != engine->prefills.rend());
    wire::draft<wire::SequenceReady> out;
    write_key(out->initKey(), choice_id(id, choice), read_leg(last->get().getKey()));
    out->setToken(token);
    out->setTokenIndex(static_cast<uint32_t>(writer->at(choice).ids.size()));
    out->setCachedTokens(cached);
    out->initSequence().initLease().setOwner(last->get().getReplyTo());
    send(out.freeze());
  }

  void tokens(uint32_t choice,
              const std::vector<int32_t>& ids,
              wire::FinishReason finish,
              error_code why = error_code::ok) {
    wire::draft<wire::Tokens> out;
    write_key(out->initKey(), choice_id(id, choice), read_leg(decode_of(choice).getKey()));
    out->setFirstIndex(static_cast<uint32_t>(writer->at(choice).ids.size()));
    out->setIds(token_bytes(ids));
    out->setFinish(finish);
    out->initFailure().setCode(static_cast<uint16_t>(why));
    send(out.freeze());
  }

  [[nodiscard]] wire::DecodeSubmit::Reader decode_of(uint32_t choice) const {
    const auto last = std::find_if(
        engine->decodes.rbegin(), engine->decodes.rend(),
        [&](const auto& m) { return read_request_id(m.get().getKey()) == choice_id(id, choice); });
    REQUIRE(last != engine->decodes.rend());
    return last->get();
  }
};

TEST_SUITE_BEGIN("actors/edge");

TEST_CASE("a prompt is matched once for all choices, and every prefill gets the hint") {
  matched_request r{matcher::answers, 3};
  REQUIRE(r.matches->prompts == std::vector<std::vector<int32_t>>{{5, 6, 7}});
  CHECK(r.matches->parties[0].scope.id == "acme");
  REQUIRE(r.engine->prefills.size() == 3);
  for (const auto& m : r.engine->prefills) {
    CHECK(m.get().getCache().getHitBlocks() == 3);
    CHECK(m.get().getCache().getLine().getRoot().getHi() == 4711);
  }
}

TEST_CASE("a gateway tells whose prompt it is, and of which class") {
  remote_world world;
  remote_node& node = world.start("a:1");
  const auto matches = std::make_shared<match_log>();
  auto exchange = std::make_shared<prepared_exchange>();
  exchange->tokens = {1, 2};
  auto& system = node.world.system;
  gateway_setup setup;
  setup.config.trust_tenant_header = true;
  setup.cache.share = "organization";
  setup.hub = &node.hub;
  setup.protocol = std::make_shared<plain_protocol>();
  setup.unix_time = [] { return 0s; };
  setup.codecs.push_back({system.spawn(scripted_codec, exchange), std::make_shared<codec_load>(0)});
  setup.check = system.spawn(scripted_matcher, matches);
  const auto sut = system.spawn(gateway, setup);
  auto request = std::make_shared<http_request>();
  request->method = "POST";
  request->path = "/any";
  request->headers = {{"x-deepinfer-tenant", "acme"},
                      {"x-deepinfer-organization", "group"},
                      {"x-deepinfer-class", "agent"}};
  matches->silent = true;
  node.world.self->send(sut, http_exchange{request, std::make_shared<patient_client>()});
  world.run();
  REQUIRE(matches->parties.size() == 1);
  CHECK(matches->parties[0].scope ==
        storage::cache_scope{storage::scope_kind::organization, "group"});
  CHECK(matches->parties[0].traffic == storage::traffic_class::agent);
}

TEST_CASE("a kv_check that does not answer delays a request by the set time and no more") {
  matched_request r{matcher::silent};
  r.world.advance(19ms);
  CHECK(r.routes->empty());
  r.world.advance(1ms);
  REQUIRE(r.engine->prefills.size() == 1);
  CHECK_FALSE(r.engine->prefills[0].get().hasCache());
  r.ready(0, 10, 0);
  CHECK(r.writer->at(0).ids == std::vector<int32_t>{10});
}

TEST_CASE("routing never sees what is stored of a prompt") {
  matched_request with, without{matcher::none}, off{matcher::off};
  CHECK(off.matches->prompts.empty());
  for (const auto* r : {&with, &without, &off}) {
    REQUIRE(r->routes->size() == 1);
    REQUIRE(r->engine->prefills.size() == 1);
    CHECK(r->engine->prefills[0].get().hasCache() == (r == &with));
    const auto one = r->routes->front().bytes(), other = with.routes->front().bytes();
    CHECK(std::equal(one.begin(), one.end(), other.begin(), other.end()));
  }
}

TEST_CASE("a leg that starts again has its outputs matched behind the prompt") {
  matched_request r;
  r.ready(0, 10, 2);
  r.tokens(0, {11, 12}, wire::FinishReason::NONE);
  r.tokens(0, {}, wire::FinishReason::FAILED, error_code::unreachable);
  r.world.advance(1s);
  REQUIRE(r.matches->prompts.size() == 2);
  CHECK(r.matches->prompts[1] == std::vector<int32_t>{5, 6, 7, 10, 11, 12});
  REQUIRE(r.engine->prefills.size() == 2);
  CHECK(r.engine->prefills[1].get().getCache().getHitBlocks() == 6);
  r.ready(0, 13, 6);
  r.tokens(0, {}, wire::FinishReason::STOP);
  REQUIRE(r.writer->at(0).end_usage);
  CHECK(r.writer->at(0).end_usage->cached_tokens == 2);  // of the prompt, in the first leg
  CHECK(r.writer->at(0).end_usage->rerouted);
}

TEST_CASE("a leg that starts again goes on without a hint when nobody answers") {
  matched_request r;
  r.ready(0, 10, 2);
  r.matches->silent = true;
  r.tokens(0, {}, wire::FinishReason::FAILED, error_code::unreachable);
  r.world.advance(1s);
  REQUIRE(r.engine->prefills.size() == 2);
  CHECK_FALSE(r.engine->prefills[1].get().hasCache());
}

TEST_CASE("a client that goes while its prompt is matched leaves nothing behind") {
  matched_request r{matcher::silent};
  r.node.world.self->send(r.sut, client_gone{{error_code::cancelled, "gone"}});
  r.world.advance(1s);
  CHECK(r.routes->empty());
  CHECK(r.engine->prefills.empty());
}

TEST_CASE("a shutdown while a prompt is matched is an error, and nothing is routed") {
  matched_request r{matcher::silent};
  r.node.world.self->send(r.sut, stop_request{{error_code::unreachable, "the node ends"}});
  r.world.advance(1s);
  CHECK(r.client->status() >= 500);
  CHECK(r.routes->empty());
}

TEST_CASE("usage tells what the first choice took from the cache, already when the stream begins") {
  matched_request r{matcher::answers, 2};
  r.ready(0, 10, 2);
  REQUIRE(r.writer->at(0).begin_usage);
  CHECK(r.writer->at(0).begin_usage->cached_tokens == 2);
  CHECK(r.writer->at(0).begin_usage->prompt_tokens == 3);
  r.ready(1, 10, 3);
  for (const uint32_t c : {0u, 1u}) r.tokens(c, {11}, wire::FinishReason::STOP);
  REQUIRE(r.writer->at(1).end_usage);
  CHECK(r.writer->at(1).end_usage->cached_tokens == 2);
  CHECK(r.writer->at(1).end_usage->prompt_tokens == 3);
  CHECK(r.writer->at(1).end_usage->output_tokens == 4);
}

TEST_CASE("a stream that a ping began knows nothing yet, its end does") {
  matched_request r;
  r.world.advance(6s);
  REQUIRE(r.writer->at(0).begin_usage);
  CHECK(r.writer->at(0).begin_usage->cached_tokens == 0);
  r.ready(0, 10, 3);
  r.tokens(0, {11}, wire::FinishReason::STOP);
  REQUIRE(r.writer->at(0).end_usage);
  CHECK(r.writer->at(0).end_usage->cached_tokens == 3);
}

TEST_CASE("no engine can claim more cached tokens than the prompt has") {
  matched_request r;
  r.ready(0, 10, 4);
  CHECK(r.writer->at(0).begin_usage->cached_tokens == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
