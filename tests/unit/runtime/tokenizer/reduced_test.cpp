#include "runtime/tokenizer/prompt_encoder.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"
#include "tests/unit/runtime/tokenizer/vector_lines.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

/// The real ids of the DeepSeek vocabulary, for the texts that a reduced file covers.
using namespace deepinfer;
using text::decode_mode;

namespace {

const std::shared_ptr<const text::tokenizer>& reduced() {
  static const auto loaded = [] {
    auto made = text::load_tokenizer(test::source_path("tests/golden/tokenizer/reduced.json"));
    REQUIRE(made);
    return *std::move(made);
  }();
  return loaded;
}

struct prompt {
  std::string text;
  std::vector<text::special_range> specials;
};

prompt prompt_of(const test::vector_line& line) {
  prompt made;
  for (size_t i = 0; i < line.pieces.size(); ++i) {
    const size_t begin = made.text.size();
    made.text += line.pieces[i];
    if (i % 2 == 1) made.specials.push_back({begin, made.text.size()});
  }
  return made;
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("all scripts, emoji, code, digits and white space have the ids of the vocabulary") {
    const auto vectors = test::read_vectors("tests/golden/tokenizer/reduced_vectors.jsonl");
    REQUIRE(vectors.size() > 1600);
    size_t ids = 0;
    for (const test::vector_line& line : vectors) {
      CAPTURE(line.text);
      const auto made = reduced()->encode(line.text, {});
      REQUIRE(made);
      CHECK(*made == line.ids);
      CHECK(reduced()->decode(line.ids, decode_mode::keep_special) == line.text);
      ids += line.ids.size();
    }
    CHECK(ids > 24'000);
  }

  TEST_CASE("recorded prompts and samples have their recorded ids") {
    const auto vectors = test::read_vectors("tests/golden/tokenizer/recorded.jsonl");
    REQUIRE(vectors.size() == 32);
    for (const test::vector_line& line : vectors) {
      const prompt p = prompt_of(line);
      CAPTURE(p.text);
      const auto made = reduced()->encode(p.text, p.specials);
      REQUIRE(made);
      CHECK(*made == line.ids);
      CHECK(reduced()->decode(line.ids, decode_mode::keep_special) == p.text);
    }
  }

  TEST_CASE("all recorded texts as one prompt, in parts of any size, have the same ids") {
    prompt all;
    for (const char* file : {"recorded", "reduced_vectors"}) {
      for (auto& line :
           test::read_vectors("tests/golden/tokenizer/" + std::string(file) + ".jsonl")) {
        if (line.pieces.empty()) line.pieces = {line.text};
        const prompt p = prompt_of(line);
        for (const auto& range : p.specials)
          all.specials.push_back({all.text.size() + range.begin, all.text.size() + range.end});
        all.text += p.text;
      }
    }
    const auto wanted = reduced()->encode(all.text, all.specials);
    REQUIRE(wanted);
    for (const size_t part_bytes : {1u, 3u, 20u, 100u, 5000u}) {
      CAPTURE(part_bytes);
      text::part_encoder_options options;
      options.part_bytes = part_bytes;
      options.reuse = std::make_shared<text::part_cache>();
      const auto encoder = text::make_part_encoder(reduced(), options);
      for (int round = 0; round < 2; ++round) {
        const auto made = encoder->encode("", all.text, all.specials);
        REQUIRE(made);
        CHECK(*made == *wanted);
      }
      CHECK(options.reuse->counters().parts > 10);
    }
  }

  TEST_CASE("an emoji of two tokens is released with the second, which counts both") {
    text::stream_decoder decoder(reduced());
    const auto first = decoder.push(28927);
    CHECK(first.text.empty());
    CHECK(first.tokens == 0);
    const auto second = decoder.push(225);
    CHECK(second.text == "😀");
    CHECK(second.tokens == 2);
    CHECK(decoder.push(28927).tokens == 0);  // and at the end of the output it is nothing
  }

  TEST_CASE("the flags decide what decoding without special tokens drops") {
    const auto id = [](const char* text) { return *reduced()->special_id(text); };
    const std::vector<int32_t> ids = {id("<｜begin▁of▁sentence｜>"),
                                      id("<｜User｜>"),
                                      28927,
                                      225,
                                      id("<｜image｜>"),
                                      id("<think>"),
                                      id("</think>"),
                                      id("｜DSML｜"),
                                      id("<｜latest_reminder｜>"),
                                      id("<｜place▁holder▁no▁0｜>"),
                                      id("<｜end▁of▁sentence｜>")};
    CHECK(ids[0] == 0);
    CHECK(ids[4] == 129264);
    CHECK(ids[9] == 128000);
    CHECK(reduced()->vocabulary_size() == 129265);
    CHECK(reduced()->decode(ids, decode_mode::skip_special) ==
          "<｜User｜>😀<think></think>｜DSML｜<｜latest_reminder｜>");
  }
}
