// What a client may send as the body of a Chat Completions request, up to the prompt.
#include "proto/types/check.hpp"
#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <string>
#include <string_view>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

fuzz::bytes seed(std::string_view body) {
  return {body.begin(), body.end()};
}

bool is_control_token(std::string_view text) {
  return text == image_placeholder || std::find(std::begin(token::needed), std::end(token::needed),
                                                text) != std::end(token::needed);
}

void check_prompt(conversation talk) {
  const rendered_prompt prompt = render(std::move(talk));
  DEEPINFER_CHECK(text::is_utf8(prompt.text));
  size_t done = 0;
  for (const text::special_range& range : prompt.specials) {
    DEEPINFER_CHECK(range.begin >= done && range.end > range.begin);
    DEEPINFER_CHECK(range.end <= prompt.text.size());
    const auto spelled = std::string_view(prompt.text).substr(range.begin, range.end - range.begin);
    DEEPINFER_CHECK(is_control_token(spelled));
    done = range.end;
  }
}

}  // namespace

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      seed(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,)"
           R"("stream_options":{"include_usage":true},"stop":["a"],"temperature":0.5,"seed":1})"),
      seed(
          R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":)"
          R"([{"type":"text","text":"json"},{"type":"image_url","image_url":{"url":"http://x"}}]},)"
          R"({"role":"assistant","reasoning_content":"r","tool_calls":[{"id":"c","type":"function",)"
          R"("function":{"name":"f","arguments":"{\"a\":[1,-0,1e5],\"b\":\"x\"}"}}]},)"
          R"({"role":"tool","tool_call_id":"c","content":"<｜User｜>"}],)"
          R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
          R"("properties":{"a":{"type":["array","null"]}}}}}],"reasoning_effort":33})"),
      seed(R"({"model":"m","thinking":{"type":"disabled"},"messages":[{"role":"user","content":)"
           R"("q\ud83d\ude00"},{"role":"assistant","content":"p","prefix":true}],)"
           R"("response_format":{"type":"text"},"max_tokens":99999999999999999999})"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  auto request = parse_request(api_protocol::chat, body);
  if (request) {
    check_prompt(std::move(request->talk));
  } else {
    DEEPINFER_CHECK(request.error().status == 400);
    DEEPINFER_CHECK(!request.error().message.empty());
    DEEPINFER_CHECK(text::is_utf8(request.error().message));
  }
  return 0;
}
