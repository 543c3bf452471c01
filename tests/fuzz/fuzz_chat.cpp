// What a client may send as the body of a Chat Completions request, up to the prompt.
#include "tests/fuzz/fuzz_request.hpp"

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      body_seed(
          R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,)"
          R"("stream_options":{"include_usage":true},"stop":["a"],"temperature":0.5,"seed":1})"),
      body_seed(
          R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":)"
          R"([{"type":"text","text":"json"},{"type":"image_url","image_url":{"url":"http://x"}}]},)"
          R"({"role":"assistant","reasoning_content":"r","tool_calls":[{"id":"c","type":"function",)"
          R"("function":{"name":"f","arguments":"{\"a\":[1,-0,1e5],\"b\":\"x\"}"}}]},)"
          R"({"role":"tool","tool_call_id":"c","content":"<｜User｜>"}],)"
          R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
          R"("properties":{"a":{"type":["array","null"]}}}}}],"reasoning_effort":33})"),
      body_seed(
          R"({"model":"m","thinking":{"type":"disabled"},"messages":[{"role":"user","content":)"
          R"("q\ud83d\ude00"},{"role":"assistant","content":"p","prefix":true}],)"
          R"("response_format":{"type":"text"},"max_tokens":99999999999999999999})"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return deepinfer::fuzz::check_body(deepinfer::recipe::api_protocol::chat, data, size);
}
