// What a client may send as the body of a Messages request, up to the prompt.
#include "tests/fuzz/fuzz_request.hpp"

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      body_seed(
          R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}],)"
          R"("stream":true,"stop_sequences":["a"],"temperature":0.5,"top_k":3,"system":"s"})"),
      body_seed(
          R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"t"},)"
          R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk=="}},)"
          R"({"type":"image","source":{"type":"url","url":"http://x"}},{"type":"document"}]},)"
          R"({"role":"assistant","content":[{"type":"thinking","thinking":"r","signature":"s"},)"
          R"({"type":"text","text":"t"},{"type":"tool_use","id":"c","name":"f","input":)"
          R"({"a":[1,-0,1e5],"b":"x"}},{"type":"tool_use","id":"d","name":"g","input":{}}]},)"
          R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"d"},)"
          R"({"type":"tool_result","tool_use_id":"c","content":[{"type":"text",)"
          R"("text":"<｜User｜>"},{"type":"tool_reference","tool_name":"n"}]}]},)"
          R"({"role":"system","content":"q\ud83d\ude00"}],"output_config":{"effort":33},)"
          R"("tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":)"
          R"(["array","null"]}}}}]})"),
      body_seed(
          R"({"model":"m","thinking":{"type":"disabled"},"messages":[{"role":"user","content":)"
          R"("q"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s"},)"
          R"({"type":"web_search_tool_result"},{"type":"text","text":"a"}]}],)"
          R"("system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":)"
          R"([{"type":"web_search_20250305","name":"w"},{"name":"f","type":"custom",)"
          R"("input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f",)"
          R"("disable_parallel_tool_use":true},"output_config":{"format":{"type":"json_schema",)"
          R"("schema":{}}},"max_tokens":7})"),
      body_seed(R"({"model":"m","max_tokens":99999999999999999999,"messages":[]})"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  constexpr auto protocol = recipe::api_protocol::messages;
  recipe::conversion_options options;
  fuzz::check_body(protocol, data, size, options);
  options.refuse_web_search_in_messages = false;
  options.thinking_by_default = false;
  return fuzz::check_body(protocol, data, size, options);
}
