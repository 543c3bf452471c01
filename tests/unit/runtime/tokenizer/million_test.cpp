#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Properties over very many short strings. Failures are counted and shown for the first seed:
/// a million checks of the test library would take longer than the work they check.
using namespace deepinfer;
using text::decode_mode;

namespace {

constexpr uint64_t strings = 1'000'000;

struct verdict {
  uint64_t failures = 0;
  uint64_t first_seed = 0;

  void note(bool holds, uint64_t seed) {
    if (!holds && failures++ == 0) first_seed = seed;
  }
};

void check_all(const verdict& found) {
  CAPTURE(found.first_seed);
  CHECK(found.failures == 0);
}

/// Bytes that are often, but not always, well-formed: ASCII, whole characters of every length, and
/// parts of them.
void append_random_bytes(std::string& out, test::rng& random) {
  static constexpr std::array<std::string_view, 12> characters = {
      "é", "ß", "٣", "｜", "▁", "中", "ア", "\u3000", "😀", "\U0010FFFF", "\u0301", "\u0085"};
  const uint64_t bits = random.next();
  const auto pick = static_cast<size_t>(bits >> 8);
  switch (bits % 16) {
    case 0:
      out += static_cast<char>(pick);
      break;
    case 1: {
      const std::string_view whole = characters[pick % characters.size()];
      out += whole.substr(0, 1 + (pick >> 32) % whole.size());
      break;
    }
    case 2:
    case 3:
    case 4:
      out += characters[pick % characters.size()];
      break;
    case 5:
      out += ' ';
      break;
    default:
      out += static_cast<char>(pick % 128);
  }
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("10^6 random byte strings: ill-formed ones are refused, the others come back") {
    const auto& tokenizer = *test::tiny_tokenizer();
    verdict found;
    uint64_t well_formed = 0;
    std::string bytes, lossy;
    for (uint64_t seed = 1; seed <= strings; ++seed) {
      test::rng random(seed);
      bytes.clear();
      for (uint32_t left = random.below(9); left > 0; --left) append_random_bytes(bytes, random);
      lossy.clear();
      text::append_lossy(lossy, bytes);
      const bool is_text = lossy == bytes;
      well_formed += is_text;
      const auto ids = tokenizer.encode(bytes, {});
      found.note(ids.has_value() == is_text, seed);
      if (ids) found.note(tokenizer.decode(*ids, decode_mode::keep_special) == bytes, seed);
    }
    check_all(found);
    CHECK(well_formed > strings / 3);
    CHECK(well_formed < strings * 9 / 10);
  }

  TEST_CASE("10^6 random id streams decode id by id as they do at once, never in half characters") {
    const auto source = test::tiny_tokenizer();
    const auto& tokenizer = *source;
    std::vector<int32_t> single;  // tokens of one byte make most broken characters
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocabulary_size()); ++id)
      if (tokenizer.token_text(id).size() == 1) single.push_back(id);
    REQUIRE(single.size() == 256);
    const int32_t stop = tokenizer.encode("x", {})->front();
    verdict found;
    std::vector<int32_t> ids;
    std::string joined;
    for (uint64_t seed = 1; seed <= strings; ++seed) {
      test::rng random(seed);
      ids.clear();
      for (uint32_t left = random.below(7); left > 0; --left)
        ids.push_back(random.below(3) != 0
                          ? single[random.below(256)]
                          : static_cast<int32_t>(random.below(tokenizer.vocabulary_size() + 3)) -
                                1);
      ids.push_back(stop);  // a decided end: everything is released
      text::stream_decoder decoder(source);
      joined.clear();
      uint32_t counted = 0;
      for (const int32_t id : ids) {
        const auto released = decoder.push(id);
        found.note(text::is_utf8(released.text) && (released.tokens > 0 || released.text.empty()),
                   seed);
        joined += released.text;
        counted += released.tokens;
      }
      found.note(counted == ids.size(), seed);
      found.note(joined == tokenizer.decode(ids, decode_mode::keep_special), seed);
    }
    check_all(found);
  }

  TEST_CASE("10^6 strings of pieces of control tokens never give a control id") {
    const auto& tokenizer = *test::tiny_tokenizer();
    std::vector<std::string> pieces = {"<",  ">",     "</",   "｜",   "▁",      "|", " ",
                                       "\n", "think", "User", "DSML", "invoke", "a", "中"};
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocabulary_size()); ++id) {
      if (!tokenizer.is_added(id)) continue;
      const std::string_view whole = tokenizer.token_text(id);
      pieces.emplace_back(whole);
      for (size_t cut = 1; cut < whole.size(); ++cut)
        if (text::is_utf8(whole.substr(0, cut))) {
          pieces.emplace_back(whole.substr(0, cut));
          pieces.emplace_back(whole.substr(cut));
        }
    }
    verdict found;
    uint64_t spelled = 0;
    std::string text;
    for (uint64_t seed = 1; seed <= strings; ++seed) {
      test::rng random(seed);
      text.clear();
      for (uint32_t left = 1 + random.below(4); left > 0; --left)
        text += pieces[random.below(static_cast<uint32_t>(pieces.size()))];
      if (seed % 64 == 0) spelled += !tokenizer.find_specials(text).empty();
      const auto ids = tokenizer.encode(text, {});
      bool is_plain = ids.has_value();
      if (ids)
        for (const int32_t id : *ids) is_plain = is_plain && !tokenizer.is_added(id);
      found.note(is_plain, seed);
    }
    check_all(found);
    CHECK(spelled > strings / 64 / 20);  // many of them do spell whole tokens
  }
}
