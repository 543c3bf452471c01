#pragma once

#include "actors/edge/request.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "proto/codec/logprobs.hpp"
#include "runtime/schedule/choices.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// A request actor alone with engines, balancers and a client that do as the test says.
namespace deepinfer::test {

/// What the request told engines.
struct engine_log {
  std::vector<wire::msg<wire::PrefillSubmit>> prefills;
  std::vector<wire::msg<wire::DecodeSubmit>> decodes;
  std::vector<wire::msg<wire::Cancel>> cancels;
  std::vector<uint64_t> released;  ///< leases
  uint32_t credits = 0;
};

/// Accepts everything.
inline engine_actor::behavior_type scripted_engine(engine_actor::pointer,
                                                   const std::shared_ptr<engine_log>& log) {
  return {
      [log](const wire::msg<wire::PrefillSubmit>& m) {
        log->prefills.push_back(m);
        return wire::msg<wire::Accepted>{};
      },
      [log](const wire::msg<wire::DecodeSubmit>& m) {
        log->decodes.push_back(m);
        return wire::msg<wire::Accepted>{};
      },
      [log](const wire::msg<wire::Cancel>& m) { log->cancels.push_back(m); },
      [log](const wire::msg<wire::Credit>&) { ++log->credits; },
      [](const wire::msg<wire::LoadSubscribe>&) {},
      [](const wire::msg<wire::LeaseRenew>&) {},
      [log](const wire::msg<wire::LeaseRelease>& m) { log->released.push_back(m.get().getId()); },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

/// What balancers were asked.
using route_log = std::vector<wire::msg<wire::RouteQuery>>;

/// Knows one engine.
inline balancer_actor::behavior_type scripted_balancer(
    balancer_actor::pointer,
    const actor_ref& engine,
    const std::shared_ptr<route_log>& log = std::make_shared<route_log>()) {
  return {
      [engine, log](const wire::msg<wire::RouteQuery>& m) {
        log->push_back(m);
        wire::draft<wire::RouteReply> reply;
        write_ref(reply->initEngine(), engine);
        return reply.freeze();
      },
      [](const wire::msg<wire::LoadReport>&) {},
      [](const wire::msg<wire::Members>&) {},
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

inline codec_actor::behavior_type scripted_codec(
    codec_actor::pointer, const std::shared_ptr<prepared_exchange>& exchange) {
  return {
      [exchange](const encode_job&) {
        return encode_answer{exchange, {}};
      },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

/// What reached the writer of one choice.
struct written {
  std::vector<int32_t> ids;
  std::vector<token_logprobs> rows;
  std::optional<schedule::end_reason> end;
  std::optional<answer_usage> begin_usage, end_usage;
};

class recording_writer final : public answer_writer {
public:
  explicit recording_writer(std::shared_ptr<std::vector<written>> to) : to_(std::move(to)) {}

  std::string begin(const answer_usage& usage) override {
    to_->front().begin_usage = usage;
    return {};
  }
  fed feed(const fed_tokens& tokens) override {
    written& choice = to_->at(tokens.choice);
    choice.ids.insert(choice.ids.end(), tokens.ids.begin(), tokens.ids.end());
    choice.rows.insert(choice.rows.end(), tokens.logprobs.begin(), tokens.logprobs.end());
    return {};
  }
  std::string end(const choice_result& how, const answer_usage& usage) override {
    to_->at(how.choice).end = how.reason;
    to_->at(how.choice).end_usage = usage;
    return "ended ";
  }
  std::string fail(const recipe::api_error&) override { return "failed"; }
  std::string keep_alive() override { return {}; }

private:
  std::shared_ptr<std::vector<written>> to_;
};

/// Takes everything.
class patient_client final : public http_responder {
public:
  result<void> respond(uint16_t status,
                       std::string_view,
                       std::string body,
                       const http_headers&) override {
    status_ = status;
    body_ = std::move(body);
    return {};
  }
  result<void> begin_stream(uint16_t status, std::string_view, const http_headers&) override {
    status_ = status;
    return {};
  }
  result<size_t> write(std::string chunk) override {
    body_ += chunk;
    return size_t{0};
  }
  result<void> finish() override {
    finished_ = true;
    return {};
  }
  void on_drain(std::function<void()>) override {}
  void on_closed(std::function<void(const failure&)>) override {}
  [[nodiscard]] size_t pending_bytes() const override { return 0; }

  [[nodiscard]] uint16_t status() const { return status_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] bool finished() const { return finished_; }

private:
  uint16_t status_ = 0;
  std::string body_;
  bool finished_ = false;
};

class plain_protocol final : public protocol_codec {
public:
  prepared_result prepare(const http_request&, const exchange_context&) const override {
    return recipe::bad_request({}, "the scripted codec answers");
  }
  std::string error_body(const http_request&,
                         const recipe::api_error& error,
                         const exchange_context&) const override {
    return error.message;
  }
  bool serves(std::string_view) const override { return true; }
  std::optional<recipe::api_result<std::string>> look_up(const http_request&) const override {
    return std::nullopt;
  }
};

}  // namespace deepinfer::test
