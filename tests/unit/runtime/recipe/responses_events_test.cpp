#include "runtime/recipe/answer_format.hpp"
#include "runtime/recipe/answer_stream.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

using kind = output_chunk::kind;
using chunks = std::vector<output_chunk>;

response_identity identity() {
  return {"resp_7", 1700000000, "m", std::nullopt};
}

const answer_traits with_patch{true, false, false, {"apply_patch"}};

std::string written(std::unique_ptr<answer_format> format,
                    const chunks& pieces,
                    finish_reason reason,
                    const token_usage& usage = {10, 4, 3, std::nullopt}) {
  std::string out;
  format->begin(out, usage);
  for (const output_chunk& piece : pieces) format->chunk(out, {0, piece.what, piece.text, {}});
  format->end(out, {0, reason, {}, {}, usage, 1700000009, true});
  return out;
}

std::string streamed(const chunks& pieces, finish_reason reason = finish_reason::stop) {
  return written(make_event_format(api_protocol::responses, identity(), with_patch), pieces,
                 reason);
}

std::string collected(const chunks& pieces, finish_reason reason = finish_reason::stop) {
  return written(make_body_format(api_protocol::responses, identity(), with_patch), pieces, reason);
}

/// The `data` of each event, after checks of what all events have in common.
std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    REQUIRE(end != std::string::npos);
    const std::string frame = stream.substr(at, end - at);
    const size_t line = frame.find('\n');
    REQUIRE(frame.starts_with("event: "));
    REQUIRE(frame.compare(line, 7, "\ndata: ") == 0);
    const std::string data = frame.substr(line + 7);
    CHECK(data.starts_with("{\"type\":\"" + frame.substr(7, line - 7) + "\","));
    CHECK(data.find("\"sequence_number\":" + std::to_string(events.size())) != std::string::npos);
    events.push_back(data);
    at = end + 2;
  }
  return events;
}

std::vector<std::string> types_of(const std::vector<std::string>& events) {
  std::vector<std::string> types;
  for (const std::string& event : events)
    types.push_back(test::string_member(test::read_json(event), "type").substr(9));
  return types;
}

/// A response object; `ending`: status, completed_at, error, incomplete_details.
std::string response(const std::string& ending,
                     const std::string& output,
                     const std::string& usage = "null") {
  return R"({"id":"resp_7","object":"response","created_at":1700000000,"model":"m",)" + ending +
         R"(,"output":[)" + output + R"(],"usage":)" + usage + "}";
}

const std::string in_progress =
    R"("status":"in_progress","completed_at":null,"error":null,"incomplete_details":null)";
const std::string completed =
    R"("status":"completed","completed_at":1700000009,"error":null,"incomplete_details":null)";
const std::string usage_10_3_4 =
    R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,)"
    R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":13})";

/// Without "type":"response. in front and the closing brace behind.
void check_events(const std::vector<std::string>& got, const std::vector<std::string>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    CHECK(got[i] == R"({"type":"response.)" + wanted[i] + "}");
}

}  // namespace

TEST_SUITE("runtime/recipe/responses") {
  TEST_CASE("thinking and text make fifteen events") {
    const auto events = events_of(streamed({{kind::reasoning, "r"}, {kind::text, "t\n\"é"}}));
    const std::string rs = R"("item_id":"rs_resp_7_0","output_index":0)";
    const std::string thought = R"({"type":"reasoning","id":"rs_resp_7_0","status":"completed",)"
                                R"("content":[{"type":"reasoning_text","text":"r"}],"summary":[]})";
    const std::string message =
        R"({"type":"message","id":"msg_resp_7_1","status":"completed","role":"assistant",)"
        R"("phase":"final_answer","content":[{"type":"output_text","annotations":[],)"
        R"("logprobs":[],"text":"t\n\"é"}]})";
    check_events(
        events,
        {R"(created","response":)" + response(in_progress, "") + R"(,"sequence_number":0)",
         R"(in_progress","response":)" + response(in_progress, "") + R"(,"sequence_number":1)",
         R"(output_item.added","item":{"type":"reasoning","id":"rs_resp_7_0",)"
         R"("status":"in_progress","content":[],"summary":[]},"output_index":0,"sequence_number":2)",
         R"(content_part.added","content_index":0,)" + rs +
             R"(,"part":{"type":"reasoning_text","text":""},"sequence_number":3)",
         R"(reasoning_text.delta","content_index":0,"delta":"r",)" + rs + R"(,"sequence_number":4)",
         R"(reasoning_text.done","content_index":0,)" + rs + R"(,"sequence_number":5,"text":"r")",
         R"(content_part.done","content_index":0,)" + rs +
             R"(,"part":{"type":"reasoning_text","text":"r"},"sequence_number":6)",
         R"(output_item.done","item":)" + thought + R"(,"output_index":0,"sequence_number":7)",
         R"(output_item.added","item":{"type":"message","id":"msg_resp_7_1",)"
         R"("status":"in_progress","role":"assistant","phase":"final_answer","content":[]},)"
         R"("output_index":1,"sequence_number":8)",
         R"(content_part.added","content_index":0,"item_id":"msg_resp_7_1","output_index":1,)"
         R"("part":{"type":"output_text","annotations":[],"logprobs":[],"text":""},)"
         R"("sequence_number":9)",
         R"(output_text.delta","content_index":0,"delta":"t\n\"é","item_id":"msg_resp_7_1",)"
         R"("logprobs":[],"output_index":1,"sequence_number":10)",
         R"(output_text.done","content_index":0,"item_id":"msg_resp_7_1","logprobs":[],)"
         R"("output_index":1,"sequence_number":11,"text":"t\n\"é")",
         R"(content_part.done","content_index":0,"item_id":"msg_resp_7_1","output_index":1,)"
         R"("part":{"type":"output_text","annotations":[],"logprobs":[],"text":"t\n\"é"},)"
         R"("sequence_number":12)",
         R"(output_item.done","item":)" + message + R"(,"output_index":1,"sequence_number":13)",
         R"(completed","response":)" + response(completed, thought + "," + message, usage_10_3_4) +
             R"(,"sequence_number":14)"});
  }

  TEST_CASE("a call is announced with its name, filled by deltas, and split at the first ::") {
    const auto events = events_of(streamed({{kind::text, "Look."},
                                            {kind::call, "weather::current::x"},
                                            {kind::arguments, "{\"a\": "},
                                            {kind::arguments, "1}"},
                                            {kind::call, "f"},
                                            {kind::arguments, "{}"}},
                                           finish_reason::tool_calls));
    const std::string message =
        R"({"type":"message","id":"msg_resp_7_0","status":"completed","role":"assistant",)"
        R"("phase":"commentary","content":[{"type":"output_text","annotations":[],)"
        R"("logprobs":[],"text":"Look."}]})";
    const auto call = [](const std::string& status, const std::string& arguments) {
      return R"({"type":"function_call","id":"fc_resp_7_1","status":")" + status +
             R"(","call_id":"call_resp_7_0","name":"current::x","namespace":"weather",)"
             R"("arguments":")" +
             arguments + "\"}";
    };
    const std::string second = R"({"type":"function_call","id":"fc_resp_7_2","status":"completed",)"
                               R"("call_id":"call_resp_7_1","name":"f","arguments":"{}"})";
    const std::string fc = R"("item_id":"fc_resp_7_1","output_index":1)";
    REQUIRE(events.size() == 18);
    // The message was the answer when it began, and commentary when it ended.
    CHECK(events[2].find(R"("phase":"final_answer")") != std::string::npos);
    check_events(
        {events.begin() + 7, events.begin() + 13},
        {R"(output_item.done","item":)" + message + R"(,"output_index":0,"sequence_number":7)",
         R"(output_item.added","item":)" + call("in_progress", "") +
             R"(,"output_index":1,"sequence_number":8)",
         R"(function_call_arguments.delta","delta":"{\"a\": ",)" + fc + R"(,"sequence_number":9)",
         R"(function_call_arguments.delta","delta":"1}",)" + fc + R"(,"sequence_number":10)",
         R"(function_call_arguments.done","arguments":"{\"a\": 1}",)" + fc +
             R"(,"sequence_number":11)",
         R"(output_item.done","item":)" + call("completed", R"({\"a\": 1})") +
             R"(,"output_index":1,"sequence_number":12)"});
    check_events(
        {events.begin() + 17, events.end()},
        {R"(completed","response":)" +
         response(completed, message + "," + call("completed", R"({\"a\": 1})") + "," + second,
                  usage_10_3_4) +
         R"(,"sequence_number":17)"});
  }

  TEST_CASE("a custom call gets its input as text, decoded across escapes that were cut") {
    const auto events = events_of(streamed({{kind::call, "apply_patch"},
                                            {kind::arguments, "{\"inp"},
                                            {kind::arguments, "ut\": \"a\\"},
                                            {kind::arguments, "n\\ud83d"},
                                            {kind::arguments, "\\ude00b"},
                                            {kind::arguments, "\"}"}},
                                           finish_reason::tool_calls));
    const std::string ctc = R"("item_id":"ctc_resp_7_0","output_index":0)";
    const auto item = [](const std::string& status, const std::string& input) {
      return R"({"type":"custom_tool_call","id":"ctc_resp_7_0","status":")" + status +
             R"(","call_id":"call_resp_7_0","name":"apply_patch","input":")" + input + "\"}";
    };
    check_events(
        {events.begin() + 2, events.end()},
        {R"(output_item.added","item":)" + item("in_progress", "") +
             R"(,"output_index":0,"sequence_number":2)",
         R"(custom_tool_call_input.delta","delta":"a",)" + ctc + R"(,"sequence_number":3)",
         R"(custom_tool_call_input.delta","delta":"\n",)" + ctc + R"(,"sequence_number":4)",
         "custom_tool_call_input.delta\",\"delta\":\"\xF0\x9F\x98\x80"
         "b\"," +
             ctc + R"(,"sequence_number":5)",
         "custom_tool_call_input.done\",\"input\":\"a\\n\xF0\x9F\x98\x80"
         "b\"," +
             ctc + R"(,"sequence_number":6)",
         R"(output_item.done","item":)" +
             item("completed",
                  "a\\n\xF0\x9F\x98\x80"
                  "b") +
             R"(,"output_index":0,"sequence_number":7)",
         R"(completed","response":)" +
             response(completed,
                      item("completed",
                           "a\\n\xF0\x9F\x98\x80"
                           "b"),
                      usage_10_3_4) +
             R"(,"sequence_number":8)"});
  }

  TEST_CASE("the end of a custom call that was cut off is told as it is") {
    const auto events =
        events_of(streamed({{kind::call, "apply_patch"}, {kind::arguments, "{\"input\": \"a\\u00"}},
                           finish_reason::length));
    CHECK(types_of(events) == std::vector<std::string>{
                                  "created", "in_progress", "output_item.added",
                                  "custom_tool_call_input.delta", "custom_tool_call_input.delta",
                                  "custom_tool_call_input.done", "output_item.done", "incomplete"});
    CHECK(events[5].find(R"("input":"a\\u00")") != std::string::npos);
  }

  TEST_CASE("what is not finished is incomplete, its last item and all, with the time of the end") {
    const auto reason_of = [](finish_reason how, const std::string& reason) {
      const auto events = events_of(streamed({{kind::reasoning, "r"}, {kind::text, "t"}}, how));
      REQUIRE(events.size() == 15);
      CHECK(events[13].find(R"("id":"msg_resp_7_1","status":"incomplete")") != std::string::npos);
      const std::string output =
          R"({"type":"reasoning","id":"rs_resp_7_0","status":"completed",)"
          R"("content":[{"type":"reasoning_text","text":"r"}],"summary":[]},)"
          R"({"type":"message","id":"msg_resp_7_1","status":"incomplete","role":"assistant",)"
          R"("phase":"final_answer","content":[{"type":"output_text","annotations":[],)"
          R"("logprobs":[],"text":"t"}]})";
      check_events({events.begin() + 14, events.end()},
                   {R"(incomplete","response":)" +
                    response(R"("status":"incomplete","completed_at":1700000009,"error":null,)"
                             R"("incomplete_details":{"reason":")" +
                                 reason + R"("})",
                             output, usage_10_3_4) +
                    R"(,"sequence_number":14)"});
    };
    reason_of(finish_reason::length, "max_output_tokens");
    reason_of(finish_reason::content_filter, "content_filter");
    const auto empty = events_of(streamed({}, finish_reason::length));
    CHECK(types_of(empty) == std::vector<std::string>{"created", "in_progress", "incomplete"});
  }

  TEST_CASE("nothing said is a complete response without output") {
    CHECK(collected({}) == response(completed, "", usage_10_3_4));
    CHECK(types_of(events_of(streamed({{kind::text, ""}, {kind::reasoning, ""}}))) ==
          std::vector<std::string>{"created", "in_progress", "completed"});
  }

  TEST_CASE("reasoning tokens are told when they are known") {
    const std::string body =
        written(make_body_format(api_protocol::responses, identity(), with_patch), {},
                finish_reason::stop_sequence, {3, 5, 2, 1});
    CHECK(body.find(R"("output_tokens_details":{"reasoning_tokens":1})") != std::string::npos);
    CHECK(body.find(R"("input_tokens_details":{"cached_tokens":5})") != std::string::npos);
    CHECK(body.find(R"("total_tokens":5)") != std::string::npos);
  }

  TEST_CASE("a failure ends the stream with what there is, and closes nothing as if it were done") {
    std::string out;
    const auto format = make_event_format(api_protocol::responses, identity(), with_patch);
    format->begin(out, {});
    format->chunk(out, {0, kind::call, "f", {}});
    format->chunk(out, {0, kind::arguments, "{\"a", {}});
    format->fail(out, {500, "internal_error", "internal_error", {}, "lost \"it\""});
    const auto events = events_of(out);
    check_events(
        {events.begin() + 4, events.end()},
        {R"(failed","response":)" +
         response(R"("status":"failed","completed_at":null,"error":{"code":"internal_error",)"
                  R"("message":"lost \"it\""},"incomplete_details":null)",
                  R"({"type":"function_call","id":"fc_resp_7_0","status":"incomplete",)"
                  R"("call_id":"call_resp_7_0","name":"f","arguments":"{\"a"})") +
         R"(,"sequence_number":4)"});
    std::string body;
    make_body_format(api_protocol::responses, identity(), with_patch)->fail(body, {});
    CHECK(body.empty());
  }

  TEST_CASE("the body is the response of the last event, and deltas add up to what is done") {
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      chunks pieces;
      for (uint32_t left = random.below(20); left > 0; --left) {
        static constexpr const char* texts[] = {"",      "a",  "\n\"", "é", "{\"input\": \"",
                                                "\\u00", "\"}"};
        const char* text = texts[random.below(7)];
        switch (random.below(6)) {
          case 0:
          case 1:
            pieces.push_back({kind::reasoning, text});
            break;
          case 2:
          case 3:
            pieces.push_back({kind::text, text});
            break;
          default:
            static constexpr const char* names[] = {"f", "n::g", "apply_patch"};
            pieces.push_back({kind::call, names[random.below(3)]});
            for (uint32_t parts = random.below(4); parts > 0; --parts)
              pieces.push_back({kind::arguments, texts[random.below(7)]});
        }
      }
      const auto reason = static_cast<finish_reason>(random.below(5));
      const auto events = events_of(streamed(pieces, reason));
      std::map<std::string, std::string> joined, done;
      std::string open;  // deltas belong to the item that was added last
      for (const std::string& event : events) {
        const json_value read = test::read_json(event);
        const std::string type = test::string_member(read, "type");
        if (type == "response.output_item.added") {
          CHECK(open.empty());
          open = test::string_member(test::member(read, "item"), "id");
          joined[open] = "";
        } else if (type == "response.output_item.done") {
          CHECK(test::string_member(test::member(read, "item"), "id") == open);
          open.clear();
        } else if (type.ends_with(".delta")) {
          CHECK(test::string_member(read, "item_id") == open);
          joined[open] += test::string_member(read, "delta");
        } else {
          for (const char* key : {"text", "arguments", "input"})
            if (type.ends_with(".done") && test::find_member(read, key) != nullptr)
              done[test::string_member(read, "item_id")] = test::string_member(read, key);
        }
      }
      CHECK(open.empty());
      CHECK(joined == done);
      const json_value last = test::read_json(events.back());
      CHECK(test::spaced(test::member(last, "response")) ==
            test::spaced(test::read_json(collected(pieces, reason))));
    }
  }

  TEST_CASE("a recorded output makes a response, streamed or not") {
    for (const bool stream : {true, false}) {
      const auto request = prepare(
          api_protocol::responses,
          R"({"model":"tiny-v41","input":"Weather?","reasoning":{"effort":"none"},"stream":)" +
              std::string(stream ? "true" : "false") +
              R"(,"tools":[{"type":"function","name":"get_weather"}]})",
          *test::tiny_tokenizer(), {"tiny-v41", {}, 4096});
      REQUIRE(request);
      answer_stream answer(test::tiny_tokenizer(), *request, identity());
      std::string out = answer.start({6, 0});
      for (const std::string& line :
           test::read_source_lines("tests/golden/tokenizer/prompts.jsonl")) {
        const json_value golden = test::read_json(line);
        if (test::string_member(golden, "name") != "weather") continue;
        for (const json_value& id : *test::member(golden, "output_ids").as<json_array>()) {
          const auto token = static_cast<int32_t>(*id.as<int64_t>());
          out += answer.push({0, {&token, 1}, {}});
        }
      }
      out += answer.finish({0, engine_finish::stop, 1700000009});
      const std::string whole = stream ? events_of(out).back() : out;
      CHECK(whole.find(R"("name":"get_weather","arguments":"{\"location\": \"Athens\"}")") !=
            std::string::npos);
      CHECK(whole.find(R"("status":"completed","completed_at":1700000009)") != std::string::npos);
    }
  }
}
