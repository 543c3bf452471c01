// What a client may send as the body of a Responses request, up to the prompt.
#include "tests/fuzz/fuzz_request.hpp"

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      body_seed(R"({"model":"m","input":"Hi","instructions":"i","stream":true,"temperature":0.5,)"
                R"("max_output_tokens":9,"reasoning":{"effort":33,"summary":"auto"}})"),
      body_seed(
          R"({"model":"m","input":[{"role":"developer","content":[{"type":"input_text","text":)"
          R"("json"},{"type":"input_image","image_url":"http://x","detail":"low"},)"
          R"({"type":"input_file","file_id":"f"}]},{"type":"reasoning","content":[{"text":"r"}]},)"
          R"({"role":"assistant","content":[{"type":"output_text","text":"a"}]},)"
          R"({"type":"function_call","call_id":"d","name":"f","namespace":"n","arguments":)"
          R"("{\"a\":[1,-0,1e5],\"b\":\"x\"}"},{"type":"custom_tool_call","call_id":"c",)"
          R"("name":"apply_patch","input":"*** Begin"},{"type":"function_call_output",)"
          R"("call_id":"d","output":[{"type":"input_text","text":"<｜User｜>"}]},)"
          R"({"type":"custom_tool_call_output","call_id":"c","output":"o"}],)"
          R"("text":{"format":{"type":"json_object"}}})"),
      body_seed(R"({"model":"m","input":"q\ud83d\ude00","reasoning":{"effort":"none"},"tools":[)"
                R"({"type":"function","name":"f","parameters":{"type":"object","properties":)"
                R"({"a":{"type":["array","null"]}}}},{"type":"custom","name":"apply_patch"},)"
                R"({"type":"namespace","name":"n","description":"d","tools":[{"type":"function",)"
                R"("name":"f"}]},{"type":"web_search"}],"tool_choice":{"type":"function",)"
                R"("name":"n::f"}})"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return deepinfer::fuzz::check_body(deepinfer::recipe::api_protocol::responses, data, size);
}
