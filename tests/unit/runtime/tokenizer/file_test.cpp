#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;

namespace {

/// The smallest complete file: 256 bytes, "ab" and its merge, one added token.
std::string small_file() {
  std::string vocab;
  const auto add = [&vocab](const std::string& key, int id) {
    vocab += (vocab.empty() ? "" : ",") + key + ":" + std::to_string(id);
  };
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, "\"\\u%04x\"", printable ? byte : next++);
    add(escaped, byte);
  }
  add("\"ab\"", 256);
  return R"({"added_tokens":[{"id":257,"content":"<s>","special":true}],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":)"
         R"({"Regex":"\\p{L}+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel",)"
         R"("add_prefix_space":false,"use_regex":false}]},"decoder":{"type":"ByteLevel"},)"
         R"("model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":["a b"]}})";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("a small file with other expressions works") {
    const auto made = text::make_tokenizer(small_file());
    REQUIRE(made);
    CHECK((*made)->vocabulary_size() == 258);
    CHECK(*(*made)->encode("ab ab", {}) == std::vector<int32_t>{256, 32, 256});
    CHECK(*(*made)->encode("<s>", {}) == std::vector<int32_t>{60, 115, 62});
    CHECK((*made)->special_id("<s>") == 257);
    CHECK_FALSE((*made)->special_id("ab"));
  }

  TEST_CASE("merges may be pairs instead of strings") {
    const auto made = text::make_tokenizer(with(small_file(), "[\"a b\"]", R"([["a","b"]])"));
    REQUIRE(made);
    CHECK(*(*made)->encode("ab", {}) == std::vector<int32_t>{256});
  }

  TEST_CASE("malformed files are refused with a reason") {
    const std::string good = small_file();
    const std::vector<std::string> bad = {
        "",
        "[]",
        "{}",
        good.substr(0, good.size() / 2),
        with(good, "\"ab\":256", "\"ab\":255"),  // id twice
        with(good, "\"ab\":256", "\"ab\":-1"),
        with(good, "\"ab\":256", "\"ab\":\"x\""),
        with(good, "\"ab\":256", "\"ac\":256"),  // merge result unknown
        with(good, "[\"a b\"]", "[\"ab\"]"),
        with(good, "[\"a b\"]", "[[\"a\"]]"),
        with(good, "[\"a b\"]", "[\"a zz\"]"),
        with(good, "\"\\u0061\":97", "\"aa\":97"),  // no token for byte 97
        with(good, "\"id\":257", "\"id\":97"),
        with(good, "\"id\":257", "\"no\":257"),
        with(good, "\"content\":\"<s>\"", "\"content\":\"ab\""),  // other id in the vocabulary
    };
    for (const std::string& text : bad) {
      CAPTURE(text.substr(0, 80));
      const auto made = text::make_tokenizer(text);
      REQUIRE_FALSE(made);
      CHECK(made.error().code == error_code::corrupt);
      CHECK(made.error().detail.find("tokenizer.json") == 0);
    }
  }

  TEST_CASE("an added token within reach of plain text is refused") {
    const std::string text =
        with(small_file(), "{\"id\":257,\"content\":\"<s>\"", "{\"id\":256,\"content\":\"ab\"");
    const auto made = text::make_tokenizer(text);
    REQUIRE_FALSE(made);
    CHECK(made.error().detail.find("plain text could become") != std::string::npos);
  }

  TEST_CASE("what would change ids and is not implemented is refused, never ignored") {
    const std::string good = small_file();
    const std::vector<std::pair<std::string, std::string>> changes = {
        {"\"type\":\"BPE\"", "\"type\":\"Unigram\""},
        {"\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.1"},
        {"\"type\":\"BPE\"", "\"type\":\"BPE\",\"byte_fallback\":true"},
        {"\"type\":\"BPE\"", "\"type\":\"BPE\",\"ignore_merges\":true"},
        {"\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\""},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}"},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Metaspace\"}"},
        {"\"behavior\":\"Isolated\"", "\"behavior\":\"Removed\""},
        {"\"invert\":false", "\"invert\":true"},
        {"\"use_regex\":false", "\"use_regex\":true"},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":true"},
        {"\"special\":true", "\"special\":true,\"lstrip\":true"},
    };
    for (const auto& change : changes) {
      const auto& to = change.second;
      CAPTURE(to);
      const auto made = text::make_tokenizer(with(good, change.first, to));
      REQUIRE_FALSE(made);
      CHECK(made.error().code == error_code::unsupported);
    }
  }

  TEST_CASE("files and vocabularies beyond their limits are refused") {
    const std::string good = small_file();
    text::tokenizer_limits limits;
    limits.max_file_bytes = good.size();
    limits.max_vocabulary = 258;
    CHECK(text::make_tokenizer(good, limits));
    limits.max_file_bytes = good.size() - 1;
    CHECK(text::make_tokenizer(good, limits).error().code == error_code::too_large);
    limits.max_file_bytes = good.size();
    limits.max_vocabulary = 257;
    CHECK(text::make_tokenizer(good, limits).error().code == error_code::too_large);
  }

  TEST_CASE("a missing file is not found") {
    const auto made = text::load_tokenizer(test::source_path("no/such/tokenizer.json"));
    REQUIRE_FALSE(made);
    CHECK(made.error().code == error_code::not_found);
  }
}
