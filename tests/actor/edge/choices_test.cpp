#include "tests/actor/edge/scripted_engine.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;
using schedule::choice_id;
using schedule::choice_seed;
using schedule::end_reason;

namespace {

token_logprobs row_of(int32_t token) {
  return {-0.25f * static_cast<float>(token), {{token, -0.5f}, {token + 1, -1.5f}}};
}

/// A request for two choices with two alternatives beside each token, and its engine.
struct two_choices {
  static constexpr uint32_t asked = 3;

  remote_world world;
  remote_node& node = world.start("a:1");
  std::shared_ptr<engine_log> engine = std::make_shared<engine_log>();
  std::shared_ptr<std::vector<written>> writer = std::make_shared<std::vector<written>>(2);
  std::shared_ptr<patient_client> client = std::make_shared<patient_client>();
  std::shared_ptr<answer_places> places = std::make_shared<answer_places>(10);
  request_id id{77, 88};
  request_actor sut = start();

  request_actor start() {
    auto exchange = std::make_shared<prepared_exchange>();
    exchange->tokens = {5, 6, 7};
    exchange->sampling.seed = 41;
    exchange->choices = 2;
    exchange->logprobs = asked - 1;
    exchange->max_tokens = 50;
    exchange->stream = true;
    exchange->writer = std::make_unique<recording_writer>(writer);
    auto& system = node.world.system;
    const auto ref = node.hub.export_actor(system.spawn(scripted_engine, engine));
    REQUIRE(ref);
    auto setup = std::make_shared<request_setup>();
    setup->hub = &node.hub;
    setup->protocol = std::make_shared<plain_protocol>();
    setup->unix_time = [] { return 0s; };
    setup->places = std::make_shared<held_places>(places);
    REQUIRE(setup->places->take(1));
    setup->codec = system.spawn(scripted_codec, exchange);
    setup->prefill_balancer = setup->decode_balancer =
        system.spawn(scripted_balancer, *ref, std::make_shared<route_log>());
    const auto made =
        system.spawn(request, std::shared_ptr<const request_setup>{setup},
                     http_exchange{std::make_shared<http_request>(), client}, exchange_context{id});
    world.run();
    return made;
  }

  template <class Message>
  void send(const wire::msg<Message>& message) {
    node.world.self->send(sut, message);
    world.run();
  }

  /// The first token of a choice, and its sequence under a lease.
  void ready(uint32_t choice,
             leg_epoch leg,
             int32_t token,
             std::vector<token_logprobs> rows,
             uint64_t lease = 0) {
    wire::draft<wire::SequenceReady> out;
    write_key(out->initKey(), choice_id(id, choice), leg);
    out->setToken(token);
    out->setTokenIndex(static_cast<uint32_t>(writer->at(choice).ids.size()));
    wire::write_logprobs(out->initLogprobs(), rows, asked);
    auto held = out->initSequence().initLease();
    held.setId(lease);
    // The engine that all legs of this test run on.
    held.setOwner(engine->prefills.front().get().getReplyTo());
    send(out.freeze());
  }

  void tokens(const request_id& key,
              leg_epoch leg,
              uint32_t first_index,
              const std::vector<int32_t>& ids,
              const std::vector<token_logprobs>& rows,
              wire::FinishReason finish = wire::FinishReason::NONE) {
    wire::draft<wire::Tokens> out;
    write_key(out->initKey(), key, leg);
    out->setFirstIndex(first_index);
    out->setIds(token_bytes(ids));
    out->setFinish(finish);
    wire::write_logprobs(out->initLogprobs(), rows, asked);
    send(out.freeze());
  }

  leg_epoch last_leg(uint32_t choice) const {
    leg_epoch leg{};
    const auto look = [&](wire::RequestKey::Reader key) {
      if (read_request_id(key) == choice_id(id, choice)) leg = std::max(leg, read_leg(key));
    };
    for (const auto& m : engine->prefills) look(m.get().getKey());
    for (const auto& m : engine->decodes) look(m.get().getKey());
    return leg;
  }

  /// Both choices decode, one token each.
  void decode() {
    for (uint32_t c = 0; c < 2; ++c) ready(c, last_leg(c), 10, {row_of(10)});
    REQUIRE(engine->decodes.size() == 2);
  }
};

}  // namespace

TEST_SUITE("actors/edge") {
  TEST_CASE_FIXTURE(two_choices, "every choice goes to an engine as a request of its own") {
    REQUIRE(engine->prefills.size() == 2);
    for (uint32_t c = 0; c < 2; ++c) {
      const auto sent = engine->prefills[c].get();
      CHECK(read_request_id(sent.getKey()) == choice_id(id, c));
      CHECK(sent.getSampling().getSeed() == choice_seed(41, c));
      CHECK(sent.getSampling().getLogprobs() == asked);
      CHECK(sent.getPromptTokens() == 3);
    }
    CHECK(places->taken() == 2);
  }

  TEST_CASE_FIXTURE(two_choices, "the writer gets new tokens only, each with its own row") {
    decode();
    const auto leg = last_leg(1);
    tokens(choice_id(id, 1), leg, 1, {11, 12}, {row_of(11), row_of(12)});
    // Two of four are known already.
    tokens(choice_id(id, 1), leg, 1, {11, 12, 13, 14},
           {row_of(11), row_of(12), row_of(13), row_of(14)});
    CHECK(writer->at(0).ids == std::vector<int32_t>{10});
    CHECK(writer->at(1).ids == std::vector<int32_t>{10, 11, 12, 13, 14});
    for (size_t i = 0; i < 5; ++i) CHECK(writer->at(1).rows.at(i) == row_of(writer->at(1).ids[i]));
  }

  TEST_CASE_FIXTURE(two_choices, "rows that do not fit their tokens lead to another leg") {
    decode();
    const auto leg = last_leg(0);
    const auto other = last_leg(1);
    tokens(choice_id(id, 0), leg, 1, {11, 12}, {row_of(11)});
    CHECK(writer->at(0).ids == std::vector<int32_t>{10});
    REQUIRE(engine->cancels.size() == 1);
    CHECK(read_leg(engine->cancels[0].get().getKey()) == leg);
    REQUIRE(engine->prefills.size() == 3);
    CHECK(read_request_id(engine->prefills[2].get().getKey()) == id);
    CHECK(engine->prefills[2].get().getTokens().size() == 4 * sizeof(int32_t));
    CHECK(last_leg(1) == other);  // the other choice stays where it is
    // The new leg goes on where the old one was believed last.
    ready(0, last_leg(0), 11, {row_of(11)});
    CHECK(writer->at(0).ids == std::vector<int32_t>{10, 11});
  }

  TEST_CASE_FIXTURE(two_choices, "ids that are no ids lead to another leg") {
    decode();
    tokens(choice_id(id, 0), last_leg(0), 1, {-5}, {row_of(5)});
    CHECK(engine->cancels.size() == 1);
    CHECK(engine->prefills.size() == 3);
  }

  TEST_CASE_FIXTURE(two_choices, "a first token without its row is not believed") {
    ready(0, last_leg(0), 10, {});
    CHECK(writer->at(0).ids.empty());
    CHECK(engine->prefills.size() == 3);
  }

  TEST_CASE_FIXTURE(two_choices, "tokens of nobody's choice are not heard") {
    decode();
    tokens({1, 2}, last_leg(0), 1, {11}, {row_of(11)});
    tokens(choice_id(id, 2), last_leg(0), 1, {11}, {row_of(11)});
    CHECK(writer->at(0).ids.size() == 1);
    CHECK(engine->cancels.empty());
  }

  TEST_CASE_FIXTURE(two_choices, "the answer ends with its last choice") {
    decode();
    tokens(choice_id(id, 0), last_leg(0), 1, {1}, {row_of(1)}, wire::FinishReason::STOP);
    CHECK(writer->at(0).end == end_reason::stop);
    CHECK_FALSE(client->finished());
    tokens(choice_id(id, 1), last_leg(1), 1, {2, 3}, {row_of(2), row_of(3)},
           wire::FinishReason::LENGTH);
    CHECK(writer->at(1).end == end_reason::length);
    CHECK(client->body() == "ended ended ");
    CHECK(client->finished());
    CHECK(places->taken() == 0);
    CHECK(engine->cancels.empty());
  }

  TEST_CASE_FIXTURE(two_choices, "a choice that fails for good takes the others with it") {
    decode();
    wire::draft<wire::Tokens> out;
    write_key(out->initKey(), choice_id(id, 1), last_leg(1));
    out->setFirstIndex(1);
    out->setFinish(wire::FinishReason::FAILED);
    out->initFailure().setCode(static_cast<uint16_t>(error_code::invalid_argument));
    send(out.freeze());
    CHECK(client->body() == "failed");
    CHECK(client->finished());
    CHECK(engine->cancels.size() == 2);
    CHECK(places->taken() == 0);
  }

  TEST_CASE_FIXTURE(two_choices, "a client that goes cancels the legs of all choices") {
    decode();
    node.world.self->send(sut, client_gone{{error_code::cancelled, "gone"}});
    world.run();
    std::vector<request_id> cancelled;
    for (const auto& m : engine->cancels) cancelled.push_back(read_request_id(m.get().getKey()));
    CHECK(cancelled == std::vector<request_id>{choice_id(id, 0), choice_id(id, 1)});
    CHECK(places->taken() == 0);
  }
}
