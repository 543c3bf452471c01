#pragma once

#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

/// Reads streams of the Messages protocol as its clients do.
namespace deepinfer::test::anthropic {

struct event {
  std::string type;
  std::string json;
  recipe::json_value data;
};

inline std::vector<event> events_of(std::string_view stream) {
  std::vector<event> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    const std::string_view frame = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    const size_t line = frame.find('\n');
    REQUIRE(line != std::string_view::npos);
    REQUIRE(frame.starts_with("event: "));
    REQUIRE(frame.substr(line + 1).starts_with("data: "));
    event next{std::string(frame.substr(7, line - 7)), std::string(frame.substr(line + 7)), {}};
    next.data = read_json(next.json);
    CHECK(string_member(next.data, "type") == next.type);
    events.push_back(std::move(next));
  }
  return events;
}

inline std::string compact(const recipe::json_value& value) {
  std::string out;
  recipe::append_compact_json(out, value);
  return out;
}

/// What the official clients put together from the events, as the body of the same answer.
/// Complains about events in an order that the protocol does not have.
class message_joiner {
public:
  std::string join(std::string_view stream) {
    for (const event& one : events_of(stream)) take(one);
    REQUIRE(over_);
    return head_ + ",\"content\":[" + blocks_ + "]," + stop_ + "}";
  }

private:
  void take(const event& one) {
    CHECK_FALSE(over_);
    const bool must_ping = std::exchange(ping_due_, false);
    CHECK((one.type == "ping") == must_ping);
    if (one.type == "message_start") {
      CHECK(head_.empty());
      const auto& message = member(one.data, "message");
      CHECK(compact(member(message, "content")) == "[]");
      CHECK(member(message, "stop_reason").is_null());
      CHECK(member(message, "stop_sequence").is_null());
      head_ = "{\"id\":" + compact(member(message, "id")) +
              ",\"type\":\"message\",\"role\":" + compact(member(message, "role")) +
              ",\"model\":" + compact(member(message, "model"));
      usage_start_ = compact(member(member(message, "usage"), "input_tokens"));
      return;
    }
    REQUIRE_FALSE(head_.empty());
    if (one.type == "content_block_start") {
      start(one.data);
    } else if (one.type == "content_block_delta") {
      extend(one.data);
    } else if (one.type == "content_block_stop") {
      stop(one.data);
    } else if (one.type == "message_delta") {
      CHECK_FALSE(open_);
      CHECK(stop_.empty());
      const auto& delta = member(one.data, "delta");
      CHECK(compact(member(member(one.data, "usage"), "input_tokens")) == usage_start_);
      stop_ = "\"stop_reason\":" + compact(member(delta, "stop_reason")) +
              ",\"stop_sequence\":" + compact(member(delta, "stop_sequence")) +
              ",\"usage\":" + compact(member(one.data, "usage"));
    } else if (one.type == "message_stop") {
      CHECK_FALSE(stop_.empty());
      over_ = true;
    } else {
      CHECK(one.type == "ping");
    }
  }

  void check_index(const recipe::json_value& data) const {
    CHECK(*member(data, "index").as<int64_t>() == index_);
  }

  void start(const recipe::json_value& data) {
    CHECK_FALSE(std::exchange(open_, true));
    CHECK(stop_.empty());
    ++index_;
    check_index(data);
    ping_due_ = index_ == 0;
    const auto& block = member(data, "content_block");
    kind_ = string_member(block, "type");
    text_.clear();
    signature_.clear();
    if (kind_ != "tool_use") {
      CHECK(string_member(block, kind_).empty());
      return;
    }
    tool_ =
        "\"id\":" + compact(member(block, "id")) + ",\"name\":" + compact(member(block, "name"));
    CHECK(compact(member(block, "input")) == "{}");
  }

  void extend(const recipe::json_value& data) {
    REQUIRE(open_);
    check_index(data);
    const auto& delta = member(data, "delta");
    const std::string type = string_member(delta, "type");
    CHECK(signature_.empty());
    if (type == "signature_delta") {
      CHECK(kind_ == "thinking");
      signature_ = string_member(delta, "signature");
      CHECK_FALSE(signature_.empty());
      return;
    }
    CHECK(type == (kind_ == "tool_use" ? "input_json_delta" : kind_ + "_delta"));
    const std::string part = string_member(delta, kind_ == "tool_use" ? "partial_json" : kind_);
    CHECK_FALSE(part.empty());
    text_ += part;
  }

  void stop(const recipe::json_value& data) {
    CHECK(std::exchange(open_, false));
    check_index(data);
    if (!blocks_.empty()) blocks_ += ",";
    blocks_ += "{\"type\":\"" + kind_ + "\",";
    if (kind_ == "tool_use") {
      const auto input = recipe::parse_json(text_);
      const bool object = input && input->as<recipe::json_object>() != nullptr;
      blocks_ += tool_ + ",\"input\":" + (object ? compact(*input) : "{}") + "}";
      return;
    }
    blocks_ += "\"" + kind_ + "\":" + json_string(text_);
    if (kind_ == "thinking") blocks_ += ",\"signature\":" + json_string(signature_);
    blocks_ += "}";
    CHECK((kind_ == "thinking") == !signature_.empty());
  }

  std::string head_, blocks_, stop_, usage_start_;
  std::string kind_, tool_, text_, signature_;  // of the open block
  int64_t index_ = -1;
  bool open_ = false, ping_due_ = false, over_ = false;
};

}  // namespace deepinfer::test::anthropic
