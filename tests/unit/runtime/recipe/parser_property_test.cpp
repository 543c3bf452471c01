#include "runtime/recipe/output_parser.hpp"
#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/output_reference.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/recipe/output_grammar.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;
using test::parsed_output;

namespace {

using kind = output_chunk::kind;

/// A parser fed in parts. Between characters, chunks must be well-formed.
class fed_parser {
public:
  explicit fed_parser(const parser_options& options) : parser_(options) {}

  void push(std::string_view part) {
    take([&] { parser_.push(part, chunks_); });
  }

  parsed_output finish() && {
    take([&] { parser_.finish(chunks_); });
    out_.stop = parser_.stop_sequence();
    const bool called = std::any_of(out_.chunks.begin(), out_.chunks.end(),
                                    [](const auto& c) { return c.what == kind::call; });
    consistent_ = consistent_ && parser_.called() == called &&
                  parser_.stopped() == !out_.stop.empty() &&
                  (!parser_.stopped() || parser_.section() == output_section::finished);
    CHECK(consistent_);
    return std::move(out_);
  }

  [[nodiscard]] bool well_formed() const { return well_formed_; }

private:
  template <class Step>
  void take(Step&& step) {
    chunks_.clear();
    step();
    for (const output_chunk& chunk : chunks_) {
      well_formed_ = well_formed_ && text::is_utf8(chunk.text);
      consistent_ = consistent_ && (chunk.what == kind::call || !chunk.text.empty());
      consistent_ = consistent_ && (chunk.what != kind::arguments || parser_.called());
    }
    test::join_chunks(out_.chunks, chunks_);
  }

  output_parser parser_;
  std::vector<output_chunk> chunks_;
  parsed_output out_;
  bool well_formed_ = true;
  bool consistent_ = true;
};

/// One way to cut: parts of 1 to `most` bytes, moved to the next character border where asked.
struct cutting {
  uint32_t most;
  bool between_characters;
};

parsed_output feed(const test::made_output& made, cutting how, test::rng& random) {
  fed_parser parser(made.options);
  for (std::string_view left = made.text; !left.empty();) {
    size_t size = std::min<size_t>(left.size(), 1 + random.below(how.most));
    while (how.between_characters && size < left.size() &&
           (static_cast<unsigned char>(left[size]) & 0xC0) == 0x80)
      ++size;
    parser.push(left.substr(0, size));
    left.remove_prefix(size);
  }
  if (how.between_characters) CHECK(parser.well_formed());
  return std::move(parser).finish();
}

/// Checks one output against the table, whole and cut; the number of ways it was cut.
size_t check_output(const test::made_output& made, uint32_t ways, test::rng& random) {
  const parsed_output want = test::parse_by_the_table(made.options, made.text);
  fed_parser whole(made.options);
  whole.push(made.text);
  const parsed_output got = std::move(whole).finish();
  CHECK(test::shown(got) == test::shown(want));
  CHECK(feed(made, {1, false}, random) == want);
  size_t same = 0;
  for (uint32_t way = 0; way < ways; ++way) {
    constexpr uint32_t sizes[] = {2, 3, 5, 8, 13, 40, 200};
    const cutting how{sizes[random.below(7)], random.below(2) == 0};
    same += feed(made, how, random) == want ? 1 : 0;
  }
  CHECK(same == ways);
  if (same != ways) MESSAGE("output: ", made.text);
  return ways;
}

std::vector<std::string> recorded_outputs() {
  std::vector<std::string> texts;
  for (const std::string& line : test::read_source_lines("tests/golden/recipe/outputs.jsonl"))
    texts.push_back(test::string_member(test::read_json(line), "text"));
  for (const std::string& line : test::read_source_lines("tests/golden/recipe/calls.jsonl"))
    texts.push_back(test::string_member(test::read_json(line), "raw"));
  return texts;
}

/// How often each thing was seen that the property is about.
struct coverage {
  size_t reasoning = 0, text = 0, stopped = 0, calls = 0, parallel = 0, call_in_reasoning = 0,
         call_behind_text = 0;

  void note(const parsed_output& out) {
    const auto count = [&out](kind what) {
      return std::count_if(out.chunks.begin(), out.chunks.end(),
                           [what](const output_chunk& c) { return c.what == what; });
    };
    reasoning += count(kind::reasoning) > 0;
    text += count(kind::text) > 0;
    stopped += !out.stop.empty();
    calls += count(kind::call) > 0;
    parallel += count(kind::call) > 1;
    for (size_t i = 1; i < out.chunks.size(); ++i) {
      if (out.chunks[i].what != kind::call) continue;
      call_in_reasoning += out.chunks[i - 1].what == kind::reasoning;
      call_behind_text += out.chunks[i - 1].what == kind::text;
    }
  }
};

}  // namespace

TEST_SUITE("runtime/recipe") {
  TEST_CASE("no way of cutting an output changes what it means, and the table says the same") {
    test::output_grammar grammar(20260301);
    test::rng random(7);
    std::set<std::string> distinct;
    coverage seen;
    size_t cuts = 0;
    while (distinct.size() < 600) {
      const test::made_output made = grammar.next();
      if (!distinct.insert(made.text).second) continue;
      CAPTURE(distinct.size());
      seen.note(test::parse_by_the_table(made.options, made.text));
      cuts += check_output(made, 150, random);
    }
    for (const std::string& recorded : recorded_outputs()) {
      CAPTURE(recorded);
      if (!distinct.insert(recorded).second) continue;
      for (int options = 0; options < 4; ++options)
        cuts += check_output({grammar.options_for(recorded), recorded}, 40, random);
    }
    CHECK(distinct.size() >= 750);
    CHECK(cuts >= 100'000);
    for (const size_t often : {seen.reasoning, seen.text, seen.stopped, seen.calls, seen.parallel,
                               seen.call_in_reasoning, seen.call_behind_text})
      CHECK(often >= 20);
  }

  TEST_CASE("many more outputs mean what the table says") {
    test::output_grammar grammar(99);
    test::rng random(99);
    for (int i = 0; i < 6000; ++i) {
      CAPTURE(i);
      check_output(grammar.next(), 2, random);
    }
  }

  TEST_CASE("repaired arguments of finished calls are JSON whenever the raw values are") {
    test::output_grammar grammar(5);
    size_t finished = 0, broken_without = 0;
    const auto valid = [](const std::string& text) { return bool(parse_json(text)); };
    const auto valid_or_blank = [&valid](const std::string& text) {
      return valid(text) || text.find_first_not_of(" \t\r\n") == std::string::npos;
    };
    for (int i = 0; i < 20'000; ++i) {
      CAPTURE(i);
      test::made_output made = grammar.next();
      // That a call has finished shows only where another follows.
      made.text += "<｜DSML｜ invoke name=\"end\">\n</｜DSML｜ invoke></｜DSML｜ calls>";
      const auto finished_arguments = [&made](bool repair, std::vector<std::string>& raw_values) {
        made.options.repair_arguments = repair;
        static_cast<void>(test::parse_by_the_table(made.options, made.text, &raw_values));
        fed_parser parser(made.options);
        parser.push(made.text);
        const auto chunks = std::move(parser).finish().chunks;
        std::vector<std::string> all;
        for (size_t c = 0; c + 2 < chunks.size(); ++c)
          if (chunks[c].what == kind::call && chunks[c + 1].what == kind::arguments)
            all.push_back(chunks[c + 1].text);
        return all;
      };
      std::vector<std::string> raw_values;
      const auto repaired = finished_arguments(true, raw_values);
      if (!std::all_of(raw_values.begin(), raw_values.end(), valid_or_blank)) continue;
      for (const std::string& text : repaired) {
        CAPTURE(made.text);
        CHECK(valid(text));
        ++finished;
      }
      for (const std::string& text : finished_arguments(false, raw_values))
        broken_without += valid(text) ? 0 : 1;
    }
    CHECK(finished > 4000);
    CHECK(broken_without > 300);
  }

  TEST_CASE("token streams give the same, whichever tokens come together") {
    const auto& tokenizer = test::tiny_tokenizer();
    test::output_grammar grammar(31);
    test::rng random(31);
    size_t groups = 0;
    for (int i = 0; i < 500; ++i) {
      CAPTURE(i);
      const test::made_output made = grammar.next();
      std::vector<int32_t> ids;
      if (i % 3 == 0) {  // any ids at all: broken characters, control tokens
        for (uint32_t left = random.below(60); left > 0; --left)
          ids.push_back(static_cast<int32_t>(random.below(tokenizer->vocabulary_size())));
      } else {
        const auto encoded = tokenizer->encode(made.text, tokenizer->find_specials(made.text));
        REQUIRE(encoded);
        ids = *encoded;
      }
      std::string text;
      text::stream_decoder alone(tokenizer);
      for (const int32_t id : ids) text += alone.push(id).text;
      if (i % 3 != 0) CHECK(text == made.text);
      const parsed_output want = test::parse_by_the_table(made.options, text);
      for (const uint32_t most : {1u, 2u, 4u, 16u}) {
        fed_parser parser(made.options);
        text::stream_decoder decoder(tokenizer);
        std::string together;
        uint32_t left = 0;
        for (const int32_t id : ids) {
          if (left == 0) left = 1 + random.below(most);
          together += decoder.push(id).text;
          if (--left > 0) continue;
          parser.push(together);
          together.clear();
          ++groups;
        }
        parser.push(together);
        CHECK(parser.well_formed());
        CHECK(std::move(parser).finish() == want);
      }
    }
    CHECK(groups > 20'000);
  }

  TEST_CASE("what is decided is released at once, whatever stands before it") {
    // Bytes held back at most: the longest beginning of a mark, and line feeds before it.
    test::output_grammar grammar(77);
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      test::made_output made = grammar.next();
      made.options.start = parser_start::plain;
      output_parser parser(made.options);
      size_t longest = 1;
      for (const std::string& stop : made.options.stop) longest = std::max(longest, stop.size());
      std::vector<output_chunk> chunks;
      size_t pushed = 0, shown = 0;
      for (const char byte : made.text) {
        chunks.clear();
        parser.push({&byte, 1}, chunks);
        if (parser.stopped()) break;
        ++pushed;
        for (const output_chunk& chunk : chunks) shown += chunk.text.size();
        CHECK(pushed - shown < longest);
      }
    }
  }
}
