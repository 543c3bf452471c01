// A tokenizer.json from anywhere: refused with a reason, or a tokenizer whose ids lead back to the
// text.
#include "proto/types/check.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <cstdio>
#include <string>
#include <string_view>

using namespace deepinfer;

namespace {

/// The 256 bytes, "ab" as their only merge, and two added tokens.
std::string small_file(std::string_view expression) {
  std::string vocabulary;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    char entry[24];
    std::snprintf(entry, sizeof entry, "\"\\u%04x\":%d,", printable ? byte : next++, byte);
    vocabulary += entry;
  }
  return R"({"model":{"type":"BPE","merges":["a b"],"vocab":{)" + vocabulary +
         R"("ab":256}},"added_tokens":[{"id":257,"content":"<s>","special":true},)"
         R"({"id":258,"content":"<s><s>"}],"normalizer":null,"decoder":{"type":"ByteLevel"},)"
         R"("pre_tokenizer":{"pretokenizers":[{"type":"Split","pattern":{"Regex":")" +
         std::string(expression) +
         R"("},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]}})";
}

}  // namespace

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  std::vector<bytes> made;
  for (const std::string_view expression : {"\\\\p{L}+", "[ab]{2}|c*"}) {
    const std::string file = small_file(expression);
    made.emplace_back(file.begin(), file.end());
  }
  return made;
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto made = text::make_tokenizer(json);
  if (!made) {
    DEEPINFER_CHECK(!made.error().detail.empty());
    return 0;
  }
  const text::tokenizer& tokenizer = **made;
  const std::string plain = "abab <s> c日本 <s><s>";
  const auto ids = tokenizer.encode(plain, {});
  if (!ids) return 0;  // an expression that backtracks too long
  for (const int32_t id : *ids) DEEPINFER_CHECK(!tokenizer.is_added(id));
  DEEPINFER_CHECK(tokenizer.decode(*ids, text::decode_mode::keep_special) == plain);
  return 0;
}
