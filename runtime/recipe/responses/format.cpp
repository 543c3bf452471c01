#include "runtime/recipe/responses/format.hpp"

#include "runtime/recipe/responses/items.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer::recipe::responses {
namespace {

using kind = output_item::kind;

enum class shape : uint8_t {
  events,  ///< every step is an event
  body     ///< only the response object of the last event is written
};

/// What a response object says besides its identity and output.
struct response_state {
  std::string_view status = "in_progress";
  std::optional<uint64_t> completed_s;
  const api_error* error = nullptr;
  std::string_view incomplete_reason;
  const token_usage* usage = nullptr;
};

/// One implementation of both shapes: the body cannot differ from what the events add up to. A
/// response has one choice, so that the choice of a chunk says nothing.
class item_format final : public answer_format {
public:
  item_format(shape as, response_identity identity, answer_traits traits)
      : shape_(as), identity_(std::move(identity)), traits_(std::move(traits)) {}

  void begin(std::string& out, const token_usage&) override {
    response_event(out, "response.created", {});
    response_event(out, "response.in_progress", {});
  }

  void chunk(std::string& out, const choice_chunk& piece) override {
    switch (piece.what) {
      case output_chunk::kind::reasoning:
        return append_text(out, kind::reasoning, piece.text);
      case output_chunk::kind::text:
        return append_text(out, kind::message, piece.text);
      case output_chunk::kind::call:
        return open_call(out, piece.text);
      case output_chunk::kind::arguments:
        return append_arguments(out, piece.text);
    }
  }

  void end(std::string& out, const choice_end& how) override {
    const bool whole =
        how.reason != finish_reason::length && how.reason != finish_reason::content_filter;
    close(out, whole ? output_item::state::completed : output_item::state::incomplete);
    response_state state;
    state.status = whole ? "completed" : "incomplete";
    state.completed_s = how.completed_s;
    state.usage = &how.usage;
    if (how.reason == finish_reason::length) state.incomplete_reason = "max_output_tokens";
    if (how.reason == finish_reason::content_filter) state.incomplete_reason = "content_filter";
    if (shape_ == shape::body) return write_response(out, state);
    response_event(out, whole ? "response.completed" : "response.incomplete", state);
  }

  /// The open item gets no closing events: clients act on those of a call.
  void fail(std::string& out, const api_error& error) override {
    if (open_) items_.back().status = output_item::state::incomplete;
    open_ = false;
    response_state state;
    state.status = "failed";
    state.error = &error;
    response_event(out, "response.failed", state);
  }

private:
  void append_text(std::string& out, kind what, std::string_view text) {
    if (text.empty()) return;
    if (!open_ || items_.back().what != what) {
      close(out, output_item::state::completed);
      open(out, make_item(what, items_.size(), identity_.id));
      part_event(out, "response.content_part.added");
    }
    items_.back().text += text;
    delta_event(out, text);
  }

  void open_call(std::string& out, std::string_view called) {
    // The text before a call was no answer yet.
    if (open_ && items_.back().what == kind::message) items_.back().is_commentary = true;
    close(out, output_item::state::completed);
    const auto& custom = traits_.custom_tools;
    const bool is_custom = std::find(custom.begin(), custom.end(), called) != custom.end();
    open(out, make_call(is_custom ? kind::custom_call : kind::function_call, items_.size(),
                        identity_.id, called, std::to_string(calls_++)));
  }

  void append_arguments(std::string& out, std::string_view text) {
    if (!open_ || !items_.back().is_call()) return;
    output_item& item = items_.back();
    const size_t before = item.text.size();
    if (item.what == kind::custom_call) {
      item.input.push(text, item.text);
    } else {
      item.text += text;
    }
    if (item.text.size() > before) delta_event(out, std::string_view(item.text).substr(before));
  }

  void open(std::string& out, output_item item) {
    items_.push_back(std::move(item));
    open_ = true;
    item_event(out, "response.output_item.added");
  }

  void close(std::string& out, output_item::state status) {
    if (!open_) return;
    output_item& item = items_.back();
    if (item.what == kind::custom_call) {
      const size_t before = item.text.size();
      item.input.finish(item.text);
      if (item.text.size() > before) delta_event(out, std::string_view(item.text).substr(before));
    }
    done_event(out);
    if (!item.is_call()) part_event(out, "response.content_part.done");
    item.status = status;
    item_event(out, "response.output_item.done");
    open_ = false;
  }

  /// Frames one event; `write` adds the members that stand before and behind the number.
  template <class Write>
  void event(std::string& out, std::string_view type, Write&& write) {
    if (shape_ == shape::body) return;
    out.append("event: ").append(type).append("\ndata: ");
    json_writer json(out);
    json.begin_object();
    json.text("type", type);
    write(json);
    json.end_object();
    out += "\n\n";
  }

  void number(json_writer& json) { json.number("sequence_number", sequence_++); }

  void response_event(std::string& out, std::string_view type, const response_state& state) {
    event(out, type, [this, &state](json_writer& json) {
      json.key("response");
      write_members(json, state);
      number(json);
    });
  }

  void item_event(std::string& out, std::string_view type) {
    event(out, type, [this](json_writer& json) {
      json.key("item");
      json.begin_object();
      write_item(json, items_.back());
      json.end_object();
      json.number("output_index", items_.back().index);
      number(json);
    });
  }

  void part_event(std::string& out, std::string_view type) {
    event(out, type, [this](json_writer& json) {
      json.number("content_index", 0);
      write_place(json);
      json.key("part");
      json.begin_object();
      write_part(json, items_.back());
      json.end_object();
      number(json);
    });
  }

  void write_place(json_writer& json) const {
    json.text("item_id", items_.back().id);
    json.number("output_index", items_.back().index);
  }

  void delta_event(std::string& out, std::string_view delta) {
    const kind what = items_.back().what;
    event(out, event_type(what).delta, [this, delta, what](json_writer& json) {
      const bool is_text = what == kind::reasoning || what == kind::message;
      if (is_text) json.number("content_index", 0);
      json.text("delta", delta);
      json.text("item_id", items_.back().id);
      if (what == kind::message) json.raw("logprobs", "[]");
      json.number("output_index", items_.back().index);
      number(json);
    });
  }

  void done_event(std::string& out) {
    const output_item& item = items_.back();
    event(out, event_type(item.what).done, [this, &item](json_writer& json) {
      if (item.what == kind::function_call) json.text("arguments", item.text);
      if (item.what == kind::custom_call) json.text("input", item.text);
      if (!item.is_call()) json.number("content_index", 0);
      json.text("item_id", item.id);
      if (item.what == kind::message) json.raw("logprobs", "[]");
      json.number("output_index", item.index);
      number(json);
      if (!item.is_call()) json.text("text", item.text);
    });
  }

  struct event_types {
    std::string_view delta, done;
  };
  static event_types event_type(kind what) {
    switch (what) {
      case kind::reasoning:
        return {"response.reasoning_text.delta", "response.reasoning_text.done"};
      case kind::message:
        return {"response.output_text.delta", "response.output_text.done"};
      case kind::function_call:
        return {"response.function_call_arguments.delta", "response.function_call_arguments.done"};
      case kind::custom_call:
        break;
    }
    return {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"};
  }

  void write_response(std::string& out, const response_state& state) const {
    json_writer json(out);
    write_members(json, state);
  }

  void write_members(json_writer& json, const response_state& state) const {
    json.begin_object();
    json.text("id", identity_.id);
    json.text("object", "response");
    json.number("created_at", identity_.created_s);
    json.text("model", identity_.model);
    json.text("status", state.status);
    write_ending(json, state);
    json.key("output");
    json.begin_array();
    for (const output_item& item : items_) {
      json.begin_object();
      write_item(json, item);
      json.end_object();
    }
    json.end_array();
    if (state.usage != nullptr) {
      write_usage(json, *state.usage);
    } else {
      json.null("usage");
    }
    json.end_object();
  }

  static void write_ending(json_writer& json, const response_state& state) {
    if (state.completed_s) {
      json.number("completed_at", *state.completed_s);
    } else {
      json.null("completed_at");
    }
    if (state.error != nullptr) {
      json.key("error");
      json.begin_object();
      json.text("code", state.error->code);
      json.text("message", state.error->message);
      json.end_object();
    } else {
      json.null("error");
    }
    if (state.incomplete_reason.empty()) return json.null("incomplete_details");
    json.key("incomplete_details");
    json.begin_object();
    json.text("reason", state.incomplete_reason);
    json.end_object();
  }

  shape shape_;
  response_identity identity_;
  answer_traits traits_;
  std::vector<output_item> items_;
  bool open_ = false;  // the last item may still grow
  uint64_t calls_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<answer_format> make_events(response_identity identity, answer_traits traits) {
  return std::make_unique<item_format>(shape::events, std::move(identity), std::move(traits));
}

std::unique_ptr<answer_format> make_body(response_identity identity, answer_traits traits) {
  return std::make_unique<item_format>(shape::body, std::move(identity), std::move(traits));
}

}  // namespace deepinfer::recipe::responses
