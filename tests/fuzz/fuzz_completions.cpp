// What a client may send as the body of a Completions request, up to the prompt.
#include "tests/fuzz/fuzz_request.hpp"

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      body_seed(R"({"model":"m","prompt":"Hi <｜User｜>","stream":true,"stop":["a",""],"n":2,)"
                R"("stream_options":{"include_usage":true},"logprobs":3,"best_of":1})"),
      body_seed(R"({"model":"m","prompt":"q\ud83d\ude00","suffix":"<｜fim▁end｜>","seed":1,)"
                R"("temperature":0.5,"top_p":0.9,"presence_penalty":-1})"),
      body_seed(R"({"model":"m","prompt":"p","echo":true,"max_tokens":99999999999999999999})"),
      body_seed(R"({"model":"m","prompt":["a",1,null],"echo":true,"suffix":"s"})"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return deepinfer::fuzz::check_body(deepinfer::recipe::api_protocol::completions, data, size);
}
